//! The faults of this module, and how text from an archive is quoted in them.

use std::io;

use rustix::io::Errno;

use crate::{domain::Reason, error::Fault};

/// Bytes of an archive's text that a message quotes at most.
const MAX_QUOTED: usize = 200;

/// Text from an archive: in quotes, without control characters, bounded.
pub(super) fn quoted(text: &[u8]) -> String {
    let cut = text.len() > MAX_QUOTED;
    let shown = String::from_utf8_lossy(&text[..text.len().min(MAX_QUOTED)]);
    format!("\"{}\"{}", shown.escape_debug(), if cut { "…" } else { "" })
}

fn unpack(layer: &str) -> String {
    format!("unpack {layer}")
}

pub(super) fn malformed(layer: &str, happened: impl Into<String>) -> Fault {
    Fault::new(
        Reason::MalformedLayer,
        unpack(layer),
        happened,
        "a layer is a tar archive, plain or compressed with gzip or zstd: the image must be built again",
    )
}

pub(super) fn hostile(layer: &str, happened: impl Into<String>) -> Fault {
    Fault::new(
        Reason::UnsafeLayer,
        unpack(layer),
        happened,
        "an entry's name must stay below the image's root: the image must be built again",
    )
}

pub(super) fn limit(layer: &str, what: &str, value: u64, limit: u64) -> Fault {
    Fault::new(
        Reason::LimitExceeded,
        unpack(layer),
        format!("{value} {what} are more than the limit of {limit}"),
        "raise the puller's limit if this image is to be trusted",
    )
}

pub(super) fn cancelled(layer: &str) -> Fault {
    Fault::new(Reason::Internal, unpack(layer), "the attempt was cancelled", "")
}

/// An operation on the tree failed. A name that is too long for the file system is the archive's fault.
pub(super) fn volume(layer: &str, what: &str, path: &[u8], errno: Errno) -> Fault {
    if errno == Errno::NAMETOOLONG {
        return malformed(
            layer,
            format!("the name {} is too long for the file system", quoted(path)),
        );
    }
    Fault::volume(format!("unpack {layer}: {what} {}", quoted(path)), &errno.into())
}

/// The source of the compressed bytes failed: with a fault of its own, or in reading the volume.
pub(super) fn source(layer: &str, error: io::Error) -> Fault {
    match error.downcast::<Fault>() {
        Ok(fault) => fault,
        Err(error) => Fault::volume(format!("read {layer}"), &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_bounded_and_hold_no_control_characters() {
        assert_eq!(quoted(b"a\nb\x1b[1m\"\xff"), "\"a\\nb\\u{1b}[1m\\\"\u{fffd}\"");
        assert!(quoted(&[b'x'; 5000]).len() < 300);
    }

    #[test]
    fn a_fault_in_the_source_comes_through_as_it_is() {
        let fault = Fault::new(Reason::Timeout, "read", "nothing moved", "");
        assert_eq!(source("layer", io::Error::other(fault.clone())), fault);
        assert_eq!(
            source("layer", io::ErrorKind::StorageFull.into()).reason,
            Reason::NoSpace
        );
    }
}
