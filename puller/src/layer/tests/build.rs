//! Archives, well made and badly made.

use std::io::Write;

/// Bytes of a block.
pub(super) const BLOCK: usize = 512;

/// An archive in the making.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer {
    bytes: Vec<u8>,
}

/// A header's fields as they are written.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: u8,
    pub(super) size: u64,
    pub(super) mode: u64,
    pub(super) owner: u64,
    pub(super) link: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(name: &'a [u8], kind: u8) -> Self {
        Self {
            name,
            kind,
            size: 0,
            mode: 0o644,
            owner: 0,
            link: b"",
        }
    }
}

/// A ustar header.
pub(super) fn header(fields: &Fields<'_>) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, len: usize, text: &[u8]| {
        let n = text.len().min(len);
        block[at..at + n].copy_from_slice(&text[..n]);
    };
    put(0, 100, fields.name);
    put(100, 8, &number(fields.mode, 8));
    put(108, 8, &number(fields.owner, 8));
    put(116, 8, &number(fields.owner, 8));
    put(124, 12, &number(fields.size, 12));
    put(136, 12, &number(1_700_000_000, 12));
    put(156, 1, &[fields.kind]);
    put(157, 100, fields.link);
    put(257, 8, b"ustar\x0000");
    checksum(&mut block);
    block
}

/// Octal, or base-256 where that does not fit.
fn number(value: u64, len: usize) -> Vec<u8> {
    let octal = format!("{value:0width$o}\0", width = len - 1);
    if octal.len() <= len {
        return octal.into_bytes();
    }
    let mut field = vec![0; len];
    field[0] = 0x80;
    let bytes = value.to_be_bytes();
    let n = bytes.len().min(len - 1);
    field[len - n..].copy_from_slice(&bytes[bytes.len() - n..]);
    field
}

pub(super) fn checksum(block: &mut [u8; BLOCK]) {
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// One PAX record.
pub(super) fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    let mut record = format!("{len} {key}=").into_bytes();
    record.extend_from_slice(value);
    record.push(b'\n');
    record
}

impl Layer {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Any bytes.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A header and data, padded to a block.
    pub(super) fn entry(self, fields: &Fields<'_>, data: &[u8]) -> Self {
        let padding = data.len().next_multiple_of(BLOCK) - data.len();
        self.raw(&header(fields)).raw(data).raw(&vec![0; padding])
    }

    fn sized(self, fields: &Fields<'_>, data: &[u8]) -> Self {
        self.entry(
            &Fields {
                size: data.len() as u64,
                ..fields.clone()
            },
            data,
        )
    }

    pub(super) fn file(self, name: &str, data: impl AsRef<[u8]>) -> Self {
        self.sized(&Fields::new(name.as_bytes(), b'0'), data.as_ref())
    }

    pub(super) fn file_mode(self, name: &str, mode: u64) -> Self {
        self.entry(
            &Fields {
                mode,
                ..Fields::new(name.as_bytes(), b'0')
            },
            b"",
        )
    }

    pub(super) fn dir(self, name: &str) -> Self {
        self.dir_mode(name, 0o755)
    }

    pub(super) fn dir_mode(self, name: &str, mode: u64) -> Self {
        self.entry(
            &Fields {
                mode,
                ..Fields::new(name.as_bytes(), b'5')
            },
            b"",
        )
    }

    pub(super) fn symlink(self, name: &str, target: &str) -> Self {
        self.entry(
            &Fields {
                link: target.as_bytes(),
                ..Fields::new(name.as_bytes(), b'2')
            },
            b"",
        )
    }

    pub(super) fn hard_link(self, name: &str, target: &str) -> Self {
        self.entry(
            &Fields {
                link: target.as_bytes(),
                ..Fields::new(name.as_bytes(), b'1')
            },
            b"",
        )
    }

    pub(super) fn special(self, name: &str, kind: u8) -> Self {
        self.entry(&Fields::new(name.as_bytes(), kind), b"")
    }

    /// PAX records for the next entry.
    pub(super) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let body: Vec<u8> = records
            .iter()
            .flat_map(|(key, value)| record(key, value))
            .collect();
        self.sized(&Fields::new(b"PaxHeaders/x", b'x'), &body)
    }

    /// PAX records for all entries that follow.
    pub(super) fn global_pax(self, records: &[(&str, &[u8])]) -> Self {
        let body: Vec<u8> = records
            .iter()
            .flat_map(|(key, value)| record(key, value))
            .collect();
        self.sized(&Fields::new(b"pax_global_header", b'g'), &body)
    }

    /// A GNU long name (`L`) or long link (`K`) for the next entry.
    pub(super) fn gnu_long(self, kind: u8, text: &[u8]) -> Self {
        let body = [text, b"\0"].concat();
        self.sized(&Fields::new(b"././@LongLink", kind), &body)
    }

    /// The archive as it is, without an end.
    pub(super) fn cut(self) -> Vec<u8> {
        self.bytes
    }

    /// The archive with its end.
    pub(super) fn end(self) -> Vec<u8> {
        self.raw(&[0; 2 * BLOCK]).bytes
    }
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd_window(bytes, 0)
}

/// A zstd frame with a window of 2^`log` bytes; 0: the usual.
pub(super) fn zstd_window(bytes: &[u8], log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    if log > 0 {
        encoder.window_log(log).unwrap();
    }
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
