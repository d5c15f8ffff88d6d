//! Files.

use std::{
    fs::File,
    io::{self, Read},
    sync::Arc,
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags, Stat},
    io::Errno,
};

use crate::error::Fault;

use super::{
    super::{archive::sparse::Extent, inflate::BUFFER},
    Archive, Creation, Dir, Entry, Job, Stream, Tree, fault, path, quoted, writer,
};

/// Never the name of an entry: it would be a whiteout.
const PROBE: &str = ".wh..wh.probe";

/// Finds out whether a file that is created gets the mode it is created with.
pub(super) fn probe(root: &OwnedFd) -> Result<Creation, Errno> {
    let mode = Mode::from_raw_mode(0o555);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root, PROBE, flags, mode)?;
    rustix::fs::unlinkat(root, PROBE, AtFlags::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    Ok(Creation {
        set_mode: Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o777) != mode,
    })
}

impl Tree {
    pub(super) fn file(
        &mut self,
        dir: &Arc<Dir>,
        path: &[u8],
        entry: &Entry,
        archive: &mut Archive<impl Stream>,
    ) -> Result<(), Fault> {
        let (_, name) = path::split(path);
        let key = self.made.key(dir.id, name);
        self.count_written(entry.size)?;
        self.clear(dir, name, key, path)?;
        if entry.size <= writer::MAX_FILE && entry.sparse.is_none() {
            let data = self.small(entry.size, archive)?;
            let job = Job {
                dir: Arc::clone(dir),
                name: name.to_vec(),
                data,
                executable: entry.executable,
            };
            match self.writer.offer(job) {
                Ok(number) => self.made.add_pending(key, number, self.writer.done()),
                Err(job) => {
                    writer::write_small(&job, self.creation)
                        .map_err(|errno| self.volume("write", path, errno))?;
                    self.wrote(job.data.len());
                    self.writer.give_back(job.data);
                }
            }
        } else {
            let file = writer::create(dir, name, entry.executable, self.creation)
                .map_err(|errno| self.volume("make the file", path, errno))?;
            match &entry.sparse {
                None => self.large(&file, path, archive)?,
                Some(extents) => self.sparse(&file, path, entry.size, extents, archive)?,
            }
        }
        self.made.add(key);
        self.totals.files += 1;
        self.totals.size += entry.size;
        Ok(())
    }

    fn small(&self, size: u64, archive: &mut Archive<impl Stream>) -> Result<Vec<u8>, Fault> {
        let mut data = self.writer.buffer();
        data.reserve(usize::try_from(size).unwrap_or_default());
        loop {
            let bytes = archive.fill()?;
            if bytes.is_empty() {
                return Ok(data);
            }
            data.extend_from_slice(bytes);
            let n = bytes.len();
            archive.consume(n);
        }
    }

    fn large(&self, file: &File, path: &[u8], archive: &mut Archive<impl Stream>) -> Result<(), Fault> {
        loop {
            let bytes = archive.fill()?;
            if bytes.is_empty() {
                return Ok(());
            }
            writer::write_all(file, bytes).map_err(|errno| self.volume("write", path, errno))?;
            let n = bytes.len();
            self.wrote(n);
            archive.consume(n);
        }
    }

    /// The extents hold exactly the entry's data: the archive has checked it.
    fn sparse(
        &self,
        file: &File,
        path: &[u8],
        size: u64,
        extents: &[Extent],
        archive: &mut Archive<impl Stream>,
    ) -> Result<(), Fault> {
        let volume = |errno| self.volume("write", path, errno);
        rustix::fs::ftruncate(file, size).map_err(volume)?;
        for extent in extents {
            let (mut offset, mut left) = (extent.offset, extent.len);
            while left > 0 {
                let bytes = archive.fill()?;
                let n = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                std::os::unix::fs::FileExt::write_all_at(file, &bytes[..n], offset)
                    .map_err(|error| volume(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
                self.wrote(n);
                archive.consume(n);
                offset += n as u64;
                left -= n as u64;
            }
        }
        Ok(())
    }

    /// A file of its own instead of another name.
    pub(super) fn copy(
        &mut self,
        from: &Dir,
        from_name: &[u8],
        stat: &Stat,
        to: &Dir,
        to_name: &[u8],
        path: &[u8],
    ) -> Result<(), Fault> {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        self.count_written(size)?;
        let volume = |tree: &Self, errno| tree.volume("copy to", path, errno);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut source: File = rustix::fs::openat(&from.fd, from_name, flags, Mode::empty())
            .map_err(|errno| volume(self, errno))?
            .into();
        let mut file = writer::create(to, to_name, stat.st_mode & 0o111 != 0, self.creation)
            .map_err(|errno| volume(self, errno))?;
        io::copy(&mut source, &mut file)
            .map_err(|error| volume(self, Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        self.wrote(usize::try_from(size).unwrap_or(usize::MAX));
        self.totals.files += 1;
        self.totals.size += size;
        Ok(())
    }

    /// Writes a file that is a layer of its own.
    pub(super) fn put(&mut self, title: &[u8], mut source: impl Read) -> Result<(), Fault> {
        if title.starts_with(b"/") || title.ends_with(b"/") {
            let happened = "the title is not a relative path of a file";
            return Err(fault::hostile(&self.layer, happened));
        }
        let path = path::clean(&self.layer, title, &self.limits)?;
        let (parent, name) = path::split(&path);
        if name.is_empty() {
            return Err(self.malformed("the title names no file"));
        }
        let dir = if self.select(&path, &super::Kind::File)? {
            self.parent(parent, true)?
        } else {
            None
        };
        let file = match &dir {
            Some(dir) => match writer::create(dir, name, false, self.creation) {
                Ok(file) => Some(file),
                Err(Errno::EXIST) => {
                    return Err(self.malformed(format!("{} is there already", quoted(&path))));
                }
                Err(errno) => return Err(self.volume("make the file", &path, errno)),
            },
            None => None,
        };
        let mut buffer = vec![0; BUFFER];
        loop {
            if self.activity.is_cancelled() {
                return Err(fault::cancelled(&self.layer));
            }
            let n = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(fault::source(&self.layer, error)),
            };
            self.read += n as u64;
            self.limits.check_read(&self.layer, self.read)?;
            if let Some(file) = &file {
                self.count_written(n as u64)?;
                writer::write_all(file, &buffer[..n]).map_err(|errno| self.volume("write", &path, errno))?;
                self.wrote(n);
                self.totals.size += n as u64;
            }
        }
        self.totals.files += u64::from(file.is_some());
        Ok(())
    }
}
