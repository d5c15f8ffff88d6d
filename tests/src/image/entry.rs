//! One entry of a layer's archive, as bytes.
//!
//! The tar crate's builder refuses what hostile archives hold (`..`, absolute names), so headers are
//! filled in by hand.

use bytes::Bytes;
use tar::{EntryType, Header};

/// Longest name that a tar header holds.
const HEADER_NAME: usize = 100;
/// Archives are made of blocks of this many bytes.
const BLOCK: usize = 512;

/// One entry: any name, any kind, any mode.
#[derive(Debug, Clone)]
pub struct Entry {
    name: Vec<u8>,
    kind: EntryType,
    link: Vec<u8>,
    content: Bytes,
    mode: u32,
    owner: (u64, u64),
    xattrs: Vec<(String, Vec<u8>)>,
    declared_size: Option<u64>,
}

impl Entry {
    fn new(name: impl AsRef<[u8]>, kind: EntryType, mode: u32) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            kind,
            link: Vec::new(),
            content: Bytes::new(),
            mode,
            owner: (0, 0),
            xattrs: Vec::new(),
            declared_size: None,
        }
    }

    /// A regular file, mode 0644.
    pub fn file(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let mut entry = Self::new(name, EntryType::Regular, 0o644);
        entry.content = Bytes::copy_from_slice(content.as_ref());
        entry
    }

    /// A directory, mode 0755.
    pub fn dir(name: impl AsRef<[u8]>) -> Self {
        let mut name = name.as_ref().to_vec();
        if name.last() != Some(&b'/') {
            name.push(b'/');
        }
        Self::new(name, EntryType::Directory, 0o755)
    }

    /// A symbolic link.
    pub fn symlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        let mut entry = Self::new(name, EntryType::Symlink, 0o777);
        entry.link = target.as_ref().to_vec();
        entry
    }

    /// A hard link to the path of another entry.
    pub fn hardlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        let mut entry = Self::new(name, EntryType::Link, 0o644);
        entry.link = target.as_ref().to_vec();
        entry
    }

    /// A named pipe.
    pub fn fifo(name: impl AsRef<[u8]>) -> Self {
        Self::new(name, EntryType::Fifo, 0o644)
    }

    /// A character device, such as `/dev/null`'s 1, 3.
    pub fn device(name: impl AsRef<[u8]>) -> Self {
        Self::new(name, EntryType::Char, 0o666)
    }

    /// Sets the mode bits.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Sets user and group.
    #[must_use]
    pub fn owner(mut self, user: u64, group: u64) -> Self {
        self.owner = (user, group);
        self
    }

    /// Adds an extended attribute, as a PAX record.
    #[must_use]
    pub fn xattr(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.xattrs.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// The header tells this size, whatever the content has: the archive is then malformed.
    #[must_use]
    pub fn declared_size(mut self, size: u64) -> Self {
        self.declared_size = Some(size);
        self
    }

    /// Appends the entry's blocks to an archive.
    pub fn write_to(self, archive: &mut Vec<u8>) {
        if !self.xattrs.is_empty() {
            let records: Vec<u8> = self
                .xattrs
                .iter()
                .flat_map(|(name, value)| pax_record(name, value))
                .collect();
            append(
                archive,
                &mut Header::new_ustar(),
                EntryType::XHeader,
                b"PaxHeaders/entry",
                &records,
            );
        }
        for (kind, text) in [
            (EntryType::GNULongName, &self.name),
            (EntryType::GNULongLink, &self.link),
        ] {
            if text.len() > HEADER_NAME {
                let mut terminated = text.clone();
                terminated.push(0);
                append(
                    archive,
                    &mut Header::new_gnu(),
                    kind,
                    b"././@LongLink",
                    &terminated,
                );
            }
        }
        let mut header = Header::new_gnu();
        header.set_mode(self.mode);
        header.set_uid(self.owner.0);
        header.set_gid(self.owner.1);
        let link = &self.link[..self.link.len().min(HEADER_NAME)];
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        if self.kind == EntryType::Char {
            // The numbers of /dev/null: harmless should anybody create it after all.
            header
                .set_device_major(1)
                .expect("a GNU header has device numbers");
            header
                .set_device_minor(3)
                .expect("a GNU header has device numbers");
        }
        if let Some(size) = self.declared_size {
            header.set_size(size);
            append_as_declared(archive, &mut header, self.kind, &self.name, &self.content);
        } else {
            append(archive, &mut header, self.kind, &self.name, &self.content);
        }
    }
}

/// One record of a PAX header: "length key=value\n", where the length counts its own digits.
fn pax_record(name: &str, value: &[u8]) -> Vec<u8> {
    let rest = [format!(" SCHILY.xattr.{name}=").as_bytes(), value, b"\n"].concat();
    let mut length = rest.len() + 1;
    while rest.len() + length.to_string().len() != length {
        length += 1;
    }
    [length.to_string().as_bytes(), &rest].concat()
}

fn append(archive: &mut Vec<u8>, header: &mut Header, kind: EntryType, name: &[u8], content: &[u8]) {
    header.set_size(content.len() as u64);
    append_as_declared(archive, header, kind, name, content);
}

fn append_as_declared(
    archive: &mut Vec<u8>,
    header: &mut Header,
    kind: EntryType,
    name: &[u8],
    content: &[u8],
) {
    let name = &name[..name.len().min(HEADER_NAME)];
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_cksum();
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}
