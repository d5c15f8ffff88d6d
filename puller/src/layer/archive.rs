//! The walk over a tar archive.
//!
//! `tar::Header` knows the layout of a block. The walk from header to header is ours, because the tar
//! crate's own reads the bodies of extension headers whole, without a bound (one long-name entry of 1 GiB
//! takes as much memory), splits PAX records at newlines (so that a binary attribute hides the records
//! after it, `size` included), and copies file contents once more. Where readers of archives disagree, we
//! read as Go's archive/tar does: it is what writes and reads most layers.

use tar::{EntryType, Header};

use crate::error::Fault;

use self::{
    pax::Pax,
    sparse::{Extent, Sparse},
};
use super::{
    bytes::Stream,
    fault::{self, quoted},
};

mod name;
mod number;
mod other;
mod pax;
pub(crate) mod sparse;

/// Bytes of a block.
const BLOCK: usize = 512;

/// Bytes of the extension headers before one entry: long names, PAX records, sparse maps. Names are 4 KiB
/// at most, attributes 64 KiB each on Linux.
const MAX_EXTENSIONS: u64 = 1 << 20;

/// The type of a directory in an incremental GNU archive.
const DUMPDIR: u8 = b'D';

/// What an entry makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    /// The target as it is written.
    Symlink(Vec<u8>),
    /// The target's name in the archive.
    HardLink(Vec<u8>),
    /// A device, pipe or socket.
    Special,
    /// A volume's name: nothing.
    Label,
}

/// One entry, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name as it is written.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    /// Whether anybody may execute it.
    pub(crate) executable: bool,
    /// Bytes of the file, holes included.
    pub(crate) size: u64,
    /// Where the data goes, if it is not all of the file.
    pub(crate) sparse: Option<Vec<Extent>>,
    /// Extended attributes.
    pub(crate) xattrs: u64,
    /// Setuid, setgid or sticky.
    pub(crate) mode_bits: bool,
    /// Another owner or group than root.
    pub(crate) owned: bool,
}

/// What extension headers say of the entry that follows them.
#[derive(Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Pax,
    bytes: u64,
    any: bool,
}

/// An archive. [`next`](Self::next) goes to the next entry; its data is read by [`fill`](Self::fill) and
/// [`consume`](Self::consume), and what is not read is skipped.
pub(crate) struct Archive<S> {
    stream: S,
    layer: String,
    /// Bytes of the entry's data that were not consumed.
    data: u64,
    /// Bytes after the data up to the next block.
    padding: u64,
    /// Whether a header was read.
    begun: bool,
    ended: bool,
}

impl<S: Stream> Archive<S> {
    pub(crate) fn new(stream: S, layer: &str) -> Self {
        Self {
            stream,
            layer: layer.to_owned(),
            data: 0,
            padding: 0,
            begun: false,
            ended: false,
        }
    }

    /// The bytes below.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// The next entry; none at the end. An archive ends with two blocks of zeros or with its last byte.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Fault> {
        let mut extensions = Extensions::default();
        let mut header = Header::new_old();
        loop {
            self.skip_data()?;
            if self.ended || !self.read_header(&mut header)? {
                self.ended = true;
                if extensions.any {
                    return Err(self.malformed("it ends after a header that describes the next entry"));
                }
                return Ok(None);
            }
            let typeflag = header.entry_type();
            let is_extension = typeflag.is_gnu_longname()
                || typeflag.is_gnu_longlink()
                || typeflag.is_pax_local_extensions()
                || typeflag.is_pax_global_extensions();
            if !is_extension {
                return self.entry(&header, extensions).map(Some);
            }
            // A PAX record `size` is the next file's, never another extension header's.
            self.set_data(self.number("size", &header.as_old().size)?)?;
            if typeflag.is_pax_global_extensions() {
                if extensions.any {
                    return Err(self.malformed("a global header parts an entry from what describes it"));
                }
                let body = self.extension(&mut Extensions::default())?;
                // POSIX and GNU tar apply them to all that follows, archive/tar and so the runtimes do not:
                // whoever takes a side sees entries that the others don't. Of the rest nothing is taken over.
                if self.records(&body)?.is_about_entries() {
                    return Err(
                        self.malformed("a global header gives names or sizes to the entries after it")
                    );
                }
                continue;
            }
            let body = self.extension(&mut extensions)?;
            if typeflag.is_gnu_longname() {
                extensions.name = name::long(&body);
            } else if typeflag.is_gnu_longlink() {
                extensions.link = name::long(&body);
            } else {
                extensions.pax = self.records(&body)?;
            }
        }
    }

    /// The entry's next bytes; nothing at their end.
    pub(crate) fn fill(&mut self) -> Result<&[u8], Fault> {
        if self.data == 0 {
            return Ok(&[]);
        }
        let bytes = self.stream.fill()?;
        if bytes.is_empty() {
            return Err(cut(&self.layer));
        }
        let n = bytes.len().min(usize::try_from(self.data).unwrap_or(usize::MAX));
        Ok(&bytes[..n])
    }

    pub(crate) fn consume(&mut self, n: usize) {
        self.stream.consume(n);
        self.data -= n as u64;
    }

    fn entry(&mut self, header: &Header, extensions: Extensions) -> Result<Entry, Fault> {
        let Extensions {
            name,
            link,
            pax,
            bytes,
            ..
        } = extensions;
        let old = header.as_old();
        let name = name.or(pax.path).unwrap_or_else(|| name::of(header));
        let link = || {
            link.or(pax.linkpath)
                .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned))
                .unwrap_or_default()
        };
        let typeflag = header.entry_type();
        let kind = match typeflag {
            // Before ustar a directory was a file with a slash at the end of its name.
            EntryType::Regular if old.linkflag == [0] && name.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
            EntryType::Directory => Kind::Directory,
            // A directory of an incremental GNU archive; the list of its names follows as data.
            other if other.as_byte() == DUMPDIR => Kind::Directory,
            EntryType::Symlink => Kind::Symlink(link()),
            EntryType::Link => Kind::HardLink(link()),
            EntryType::Char | EntryType::Block | EntryType::Fifo => Kind::Special,
            other if other.as_byte() == b'V' => Kind::Label,
            other => {
                let happened = format!(
                    "the entry {} has the unknown type {}",
                    quoted(&name),
                    quoted(&[other.as_byte()])
                );
                return Err(self.malformed(happened));
            }
        };
        let mode = self.number("mode", &old.mode)?;
        // Owners are not taken over: one that is negative or out of range is no reason to refuse the layer.
        let owned = |field: &[u8]| number::parse(field) != Some(0);
        let owned = pax.uid.unwrap_or_else(|| owned(&old.uid)) || pax.gid.unwrap_or_else(|| owned(&old.gid));
        let stored = match (&kind, pax.size) {
            // Some writers put a link target's length here; no data follows any of these.
            (Kind::Directory | Kind::Symlink(_) | Kind::HardLink(_) | Kind::Special, _)
                if typeflag.as_byte() != DUMPDIR =>
            {
                0
            }
            (_, Some(size)) => size,
            (_, None) => self.number("size", &old.size)?,
        };
        self.set_data(stored)?;
        let mut entry = Entry {
            name,
            kind,
            executable: mode & 0o111 != 0,
            size: stored,
            sparse: None,
            xattrs: pax.xattrs,
            mode_bits: mode & 0o7000 != 0,
            owned,
        };
        let sparse = if typeflag.is_gnu_sparse() {
            Some(self.old_gnu_sparse(header, bytes)?)
        } else if entry.kind == Kind::File {
            match pax.sparse.finish() {
                Ok(None) => None,
                Ok(Some(found)) => {
                    if let Some(name) = pax.sparse_name {
                        entry.name = name;
                    }
                    Some(match found {
                        sparse::Found::Here(sparse) => sparse,
                        sparse::Found::InData { size } => self.sparse_in_data(size)?,
                    })
                }
                Err(problem) => return Err(self.malformed(format!("{}: {problem}", quoted(&entry.name)))),
            }
        } else {
            None
        };
        if let Some(sparse) = sparse {
            sparse
                .check(self.data)
                .map_err(|problem| self.malformed(format!("{}: {problem}", quoted(&entry.name))))?;
            entry.size = sparse.size;
            entry.sparse = Some(sparse.extents);
        }
        Ok(entry)
    }

    /// The old GNU format: a few extents in the header, more in blocks after it.
    fn old_gnu_sparse(&mut self, header: &Header, mut bytes: u64) -> Result<Sparse, Fault> {
        let Some(gnu) = header.as_gnu() else {
            return Err(self.malformed("a sparse entry has no GNU header"));
        };
        let mut extents = Vec::new();
        self.gnu_extents(&gnu.sparse, &mut extents)?;
        let mut more = gnu.isextended != [0];
        while more {
            bytes += BLOCK as u64;
            self.check_extensions(bytes)?;
            let mut block = tar::GnuExtSparseHeader::new();
            if read(&mut self.stream, block.as_mut_bytes())? < BLOCK {
                return Err(cut(&self.layer));
            }
            self.gnu_extents(block.sparse(), &mut extents)?;
            more = block.isextended != [0];
        }
        Ok(Sparse {
            size: self.number("real size", &gnu.realsize)?,
            extents,
        })
    }

    fn gnu_extents(&self, found: &[tar::GnuSparseHeader], extents: &mut Vec<Extent>) -> Result<(), Fault> {
        for extent in found.iter().take_while(|extent| extent.offset[0] != 0) {
            let offset = self.number("sparse offset", &extent.offset)?;
            let len = self.number("sparse length", &extent.numbytes)?;
            extents.push(Extent { offset, len });
        }
        Ok(())
    }

    /// PAX format 1.0: the map is text at the beginning of the data, padded to a block.
    fn sparse_in_data(&mut self, size: u64) -> Result<Sparse, Fault> {
        let mut map = sparse::TextMap::default();
        let mut read_bytes = 0;
        loop {
            read_bytes += BLOCK as u64;
            self.check_extensions(read_bytes)?;
            if self.data < BLOCK as u64 {
                return Err(self.malformed("a sparse entry's map does not fit its data"));
            }
            let mut block = [0; BLOCK];
            if read(&mut self.stream, &mut block)? < BLOCK {
                return Err(cut(&self.layer));
            }
            self.data -= BLOCK as u64;
            if let Some(extents) = map
                .add(&block)
                .map_err(|problem| self.malformed(format!("a sparse entry's map: {problem}")))?
            {
                return Ok(Sparse { size, extents });
            }
        }
    }

    fn extension(&mut self, extensions: &mut Extensions) -> Result<Vec<u8>, Fault> {
        extensions.any = true;
        extensions.bytes = extensions.bytes.saturating_add(self.data);
        self.check_extensions(extensions.bytes)?;
        let mut body = Vec::with_capacity(usize::try_from(self.data).unwrap_or_default());
        loop {
            let bytes = self.fill()?;
            if bytes.is_empty() {
                return Ok(body);
            }
            body.extend_from_slice(bytes);
            let n = bytes.len();
            self.consume(n);
        }
    }

    fn records(&self, body: &[u8]) -> Result<Pax, Fault> {
        Pax::parse(body).map_err(|problem| self.malformed(format!("PAX records: {problem}")))
    }

    fn check_extensions(&self, bytes: u64) -> Result<(), Fault> {
        if bytes > MAX_EXTENSIONS {
            let what = "bytes of headers that describe one entry";
            return Err(fault::limit(&self.layer, what, bytes, MAX_EXTENSIONS));
        }
        Ok(())
    }

    fn set_data(&mut self, size: u64) -> Result<(), Fault> {
        // No file system holds files of 8 EiB; the bound keeps later sums from overflowing.
        if size > i64::MAX as u64 {
            return Err(self.malformed(format!("an entry has the impossible size {size}")));
        }
        self.data = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
        Ok(())
    }

    fn skip_data(&mut self) -> Result<(), Fault> {
        while self.data > 0 {
            let n = self.fill()?.len();
            self.consume(n);
        }
        // An archive may end without the last entry's padding.
        while self.padding > 0 {
            let there = self.stream.fill()?.len();
            if there == 0 {
                self.padding = 0;
                self.ended = true;
                return Ok(());
            }
            let n = there.min(self.padding as usize);
            self.stream.consume(n);
            self.padding -= n as u64;
        }
        Ok(())
    }

    /// False at the end.
    fn read_header(&mut self, header: &mut Header) -> Result<bool, Fault> {
        let block = header.as_mut_bytes();
        match read(&mut self.stream, block)? {
            0 => return Ok(false),
            BLOCK => {}
            n if !self.begun => return Err(self.malformed(other::told(&block[..n]))),
            _ => return Err(cut(&self.layer)),
        }
        let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        if is_zero(block) {
            let n = read(&mut self.stream, block)?;
            if !is_zero(&block[..n]) {
                // Some readers would end here, and never see what follows.
                return Err(self.malformed("a block of zeros stands alone among its entries"));
            }
            return Ok(false);
        }
        // The checksum counts its own field as spaces. Some old writers summed signed bytes.
        let field = 148..156;
        let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        let high = |bytes: &[u8]| bytes.iter().filter(|byte| **byte > 127).count() as u64 * 256;
        let spaces = field.len() as u32 * u32::from(b' ');
        let unsigned = u64::from(sum(&block[..field.start]) + sum(&block[field.end..]) + spaces);
        let found = number::parse(&block[field.clone()]);
        let signed = || unsigned.wrapping_sub(high(&block[..field.start]) + high(&block[field.end..]));
        if found.is_some_and(|found| found == unsigned || found == signed()) {
            self.begun = true;
            Ok(true)
        } else if !self.begun {
            Err(self.malformed(other::told(block)))
        } else {
            Err(self.malformed("a header's checksum is wrong: the archive is damaged"))
        }
    }

    fn number(&self, what: &str, field: &[u8]) -> Result<u64, Fault> {
        number::parse(field)
            .ok_or_else(|| self.malformed(format!("an entry has the impossible {what} {}", quoted(field))))
    }

    fn malformed(&self, happened: impl Into<String>) -> Fault {
        fault::malformed(&self.layer, happened)
    }
}

fn cut(layer: &str) -> Fault {
    fault::malformed(layer, "the archive ends in the middle of an entry")
}

/// Fills the buffer, or less at the end.
fn read(stream: &mut impl Stream, buffer: &mut [u8]) -> Result<usize, Fault> {
    let mut filled = 0;
    while filled < buffer.len() {
        let bytes = stream.fill()?;
        if bytes.is_empty() {
            break;
        }
        let n = bytes.len().min(buffer.len() - filled);
        buffer[filled..filled + n].copy_from_slice(&bytes[..n]);
        stream.consume(n);
        filled += n;
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
