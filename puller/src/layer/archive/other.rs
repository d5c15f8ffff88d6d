//! What a layer is that does not begin as a tar archive does.

use super::super::fault::quoted;

/// How files of other formats begin, and what they are. Docker takes the first two as layers, so such images
/// are about; the image-spec has no media types for them.
const KINDS: [(&[u8], &str); 15] = [
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"BZh", "compressed with bzip2"),
    (b"\x1f\x8b", "compressed with gzip, once more than a layer is"),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed with zstd, once more than a layer is",
    ),
    (b"\x04\x22\x4d\x18", "compressed with lz4"),
    (b"\x5d\0\0", "compressed with lzma"),
    (b"\x1f\x9d", "compressed with compress"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"07070", "a cpio archive"),
    (b"\xc7\x71", "a cpio archive"),
    (b"!<arch>\n", "an ar archive"),
    (b"\xed\xab\xee\xdb", "an RPM package"),
    (b"hsqs", "a squashfs image"),
    (b"{", "JSON"),
];

/// Bytes of something unknown that a message shows.
const SHOWN: usize = 40;

/// Says what the layer is instead, by its first bytes, which are no tar header.
pub(super) fn told(head: &[u8]) -> String {
    match KINDS.iter().find(|(magic, _)| head.starts_with(magic)) {
        Some((_, kind)) => format!("it is no tar archive: it is {kind}"),
        None => format!(
            "it is no tar archive, or its first header is damaged; it begins {}",
            quoted(&head[..head.len().min(SHOWN)])
        ),
    }
}
