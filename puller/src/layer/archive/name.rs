//! Names in headers, and in GNU's headers for long names.

use tar::Header;

use super::number;

/// Where ustar and its kin have what stands before the name; STAR has two times at its end.
const PREFIX: std::ops::Range<usize> = 345..500;
const STAR_PREFIX: std::ops::Range<usize> = 345..476;

/// Where GNU has two times instead.
const GNU_TIMES: [std::ops::Range<usize>; 2] = [345..357, 357..369];

/// What ends a header of STAR.
const STAR: &[u8] = b"tar\0";

/// The entry's name. Whether there is a prefix goes by the magic alone, as for archive/tar and GNU tar:
/// writers differ in the version that stands after it.
pub(super) fn of(header: &Header) -> Vec<u8> {
    let name = text(&header.as_old().name);
    match prefix(header.as_bytes()) {
        b"" => name.to_vec(),
        prefix => [prefix, b"/", name].concat(),
    }
}

fn prefix(block: &[u8; 512]) -> &[u8] {
    let magic = &block[257..265];
    if magic.starts_with(b"ustar\0") {
        text(
            &block[if block.ends_with(STAR) {
                STAR_PREFIX
            } else {
                PREFIX
            }],
        )
    } else if magic == b"ustar  \0" {
        // Go before 1.8 (2017) wrote prefixes into GNU's headers, too: into images that are still there.
        let prefix = text(&block[PREFIX]);
        let is_prefix = prefix.is_ascii() && !GNU_TIMES.iter().all(|time| is_time(&block[time.clone()]));
        if is_prefix { prefix } else { b"" }
    } else {
        b""
    }
}

/// Whether the field is empty, in base 256, or octal.
fn is_time(field: &[u8]) -> bool {
    field[0] == 0 || field[0] & 0x80 != 0 || number::parse(field).is_some()
}

/// What a header for a long name holds; an empty name is none.
pub(super) fn long(body: &[u8]) -> Option<Vec<u8>> {
    Some(text(body).to_vec()).filter(|name| !name.is_empty())
}

/// A text ends at its first NUL, or with its field.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with the name `n` and what else is given.
    fn name(fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        block[0] = b'n';
        for (at, text) in fields {
            block[*at..at + text.len()].copy_from_slice(text);
        }
        of(&header)
    }

    /// L15: the version after the magic may be anything.
    #[test]
    fn l15_a_prefix_goes_by_the_magic() {
        for magic in [&b"ustar\x0000"[..], b"ustar\0\0\0", b"ustar\0  "] {
            assert_eq!(name(&[(257, magic), (345, b"a/b")]), b"a/b/n", "{magic:?}");
        }
        let whole = [b'p'; 155];
        assert_eq!(
            name(&[(257, b"ustar\x0000"), (345, &whole)]),
            [&whole[..], b"/n"].concat()
        );
        // STAR's times are no part of its prefix.
        let star = [(257, &b"ustar\x0000"[..]), (345, &whole), (508, b"tar\0")];
        assert_eq!(name(&star), [&whole[..131], b"/n"].concat());
        for magic in [&b""[..], b"ustar   ", b"USTAR\x0000"] {
            assert_eq!(name(&[(257, magic), (345, b"a/b")]), b"n", "{magic:?}");
        }
    }

    #[test]
    fn gnu_headers_of_old_go_have_a_prefix_where_others_have_times() {
        let gnu = (257, &b"ustar  \0"[..]);
        assert_eq!(name(&[gnu, (345, b"usr/lib/go")]), b"usr/lib/go/n");
        for time in [
            &b"14524770000\0"[..],
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"",
        ] {
            assert_eq!(name(&[gnu, (345, time), (357, time)]), b"n", "{time:?}");
        }
        // Not text of a prefix: nobody has written it.
        assert_eq!(name(&[gnu, (345, b"a\xff")]), b"n");
    }

    #[test]
    fn a_long_name_ends_at_its_nul_and_is_not_empty() {
        assert_eq!(long(b"a/b\0c").as_deref(), Some(&b"a/b"[..]));
        assert_eq!(long(b"a/b").as_deref(), Some(&b"a/b"[..]));
        assert_eq!(long(b"\0a"), None);
        assert_eq!(long(b""), None);
    }
}
