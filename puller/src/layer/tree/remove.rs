//! Taking away: what an entry replaces, and what a whiteout hides.

use std::mem::MaybeUninit;

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat},
    io::Errno,
};

use crate::error::Fault;

use super::{
    super::{
        dirs::{Dir, DirId},
        made::Made,
    },
    Limits, Summary, Tree, fault, path,
};

/// Bytes for the names of a directory, as many as are read at once.
pub(super) const NAMES: usize = 32 << 10;

impl Tree {
    /// Removes whatever has a name, with all that is below it. Nothing there is fine.
    pub(super) fn remove(&mut self, dir: &Dir, name: &[u8], path: &[u8]) -> Result<(), Fault> {
        let Some(kind) = self.kind(dir, name, path)? else {
            return Ok(());
        };
        if kind != FileType::RegularFile {
            // Open directories may be below it or have been reached through it.
            self.dirs.forget();
        }
        if kind == FileType::Directory {
            // Files that are on their way may be below it.
            self.drain()?;
        }
        let mut removal = Removal::new(&self.layer, &self.limits, &mut self.totals, None);
        removal.name(&dir.fd, dir.id, name, kind, 0)?;
        Ok(())
    }

    /// `.wh.NAME`: hides what lower layers have under a name.
    pub(super) fn whiteout(&mut self, parent: &[u8], name: &[u8]) -> Result<(), Fault> {
        let mut hidden = parent.to_vec();
        if !hidden.is_empty() {
            hidden.push(b'/');
        }
        hidden.extend_from_slice(name);
        self.unblock(|path| path::is_within(path, &hidden));
        let Some(dir) = self.parent(parent, false)? else {
            return Ok(());
        };
        if dir.made_by == self.number {
            return Ok(());
        }
        let Some(kind) = self.kind(&dir, name, &hidden)? else {
            return Ok(());
        };
        if kind == FileType::Directory {
            // Also if this layer has an entry for it: that one keeps the directory, not its content.
            self.drain()?;
        } else if self.made.contains(self.made.key(dir.id, name)) {
            return Ok(());
        }
        self.dirs.forget();
        let mut removal = Removal::new(&self.layer, &self.limits, &mut self.totals, Some(&self.made));
        removal.name(&dir.fd, dir.id, name, kind, 0)?;
        Ok(())
    }

    /// `.wh..wh..opq`: hides what lower layers have in a directory.
    pub(super) fn opaque(&mut self, path: &[u8]) -> Result<(), Fault> {
        self.unblock(|blocked| blocked != path && path::is_within(blocked, path));
        let Some(dir) = self.parent(path, false)? else {
            return Ok(());
        };
        if dir.made_by == self.number {
            return Ok(());
        }
        self.drain()?;
        self.dirs.forget();
        let fd = open(&dir.fd, b".").map_err(|errno| self.volume("open", path, errno))?;
        let mut removal = Removal::new(&self.layer, &self.limits, &mut self.totals, Some(&self.made));
        removal.content(&fd, dir.id, 0)
    }

    fn kind(&self, dir: &Dir, name: &[u8], path: &[u8]) -> Result<Option<FileType>, Fault> {
        match rustix::fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            // Nothing can have a name that is too long.
            Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
            Err(errno) => Err(self.volume("look at", path, errno)),
        }
    }
}

/// Opens a directory to read its names.
pub(super) fn open(dir: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// Calls back for each name in a directory with its kind. Names may be removed meanwhile.
pub(super) fn each_name(
    dir: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
    mut each: impl FnMut(&[u8], FileType) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut names = RawDir::new(dir, buffer);
    while let Some(entry) = names.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                stat(dir, name.to_bytes()).map(|stat| FileType::from_raw_mode(stat.st_mode))?
            }
            kind => kind,
        };
        each(name.to_bytes(), kind)?;
    }
    Ok(())
}

fn stat(dir: &OwnedFd, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

struct Removal<'a> {
    layer: &'a str,
    limits: &'a Limits,
    totals: &'a mut Summary,
    /// What this layer has made stays.
    keep: Option<&'a Made>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl<'a> Removal<'a> {
    fn new(layer: &'a str, limits: &'a Limits, totals: &'a mut Summary, keep: Option<&'a Made>) -> Self {
        Self {
            layer,
            limits,
            totals,
            keep,
            buffer: Vec::new(),
        }
    }

    fn name(
        &mut self,
        dir: &OwnedFd,
        id: DirId,
        name: &[u8],
        kind: FileType,
        depth: usize,
    ) -> Result<(), Fault> {
        let volume = |errno| fault::volume(self.layer, "remove", name, errno);
        if kind != FileType::Directory {
            return self.file(dir, name, kind).map_err(volume);
        }
        self.limits.check_depth(self.layer, depth)?;
        let fd = open(dir, name).map_err(volume)?;
        let child = rustix::fs::fstat(&fd).map(DirId::from).map_err(volume)?;
        self.content(&fd, child, depth + 1)?;
        if self.keep.is_some_and(|made| made.contains(made.key(id, name))) {
            return Ok(());
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            // Something of this layer is in it.
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.keep.is_some() => Ok(()),
            Err(errno) => Err(fault::volume(self.layer, "remove", name, errno)),
        }
    }

    /// Everything in a directory.
    fn content(&mut self, dir: &OwnedFd, id: DirId, depth: usize) -> Result<(), Fault> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(NAMES, MaybeUninit::uninit());
        let mut directories = Vec::new();
        let outcome = each_name(dir, &mut buffer, |name, kind| {
            if kind == FileType::Directory {
                directories.push(name.to_vec());
            } else if !self.keep.is_some_and(|made| made.contains(made.key(id, name))) {
                self.file(dir, name, kind)?;
            }
            Ok(())
        });
        self.buffer = buffer;
        outcome.map_err(|errno| fault::volume(self.layer, "remove what is in a directory", b"", errno))?;
        for name in directories {
            self.name(dir, id, &name, FileType::Directory, depth)?;
        }
        Ok(())
    }

    fn file(&mut self, dir: &OwnedFd, name: &[u8], kind: FileType) -> Result<(), Errno> {
        if kind == FileType::RegularFile {
            let stat = stat(dir, name)?;
            self.totals.files -= 1;
            if stat.st_nlink == 1 {
                self.totals.size -= u64::try_from(stat.st_size).unwrap_or_default();
            }
        }
        rustix::fs::unlinkat(dir, name, AtFlags::empty())
    }
}
