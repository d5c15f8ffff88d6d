//! Open directories of a tree.

use std::{collections::HashMap, sync::Arc};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

/// Directories that are kept open. A process may have 1,024 descriptors by default, and four trees and
/// the network share them.
const MAX_OPEN: usize = 96;

/// Which directory it is, by whatever path it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DirId {
    device: u64,
    inode: u64,
}

impl From<Stat> for DirId {
    fn from(stat: Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) fd: OwnedFd,
    pub(super) id: DirId,
    /// The number of the layer that made it, and so made all that is in it; 0: not known.
    pub(super) made_by: u32,
}

impl Dir {
    pub(super) fn new(fd: OwnedFd, made_by: u32) -> Result<Self, Errno> {
        let id = rustix::fs::fstat(&fd)?.into();
        Ok(Self { fd, id, made_by })
    }

    /// Opens a directory in this one; links are not followed.
    pub(super) fn open(&self, name: &[u8], made_by: u32) -> Result<Step, Errno> {
        // A path handle is enough to work in the directory, and cheaper than one to read it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Step::Dir(Arc::new(Self::new(fd, made_by)?))),
            Err(Errno::NOENT) => Ok(Step::Missing),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Symlink => Step::Link,
                    _ => Step::File,
                })
            }
            Err(errno) => Err(errno),
        }
    }
}

/// What a component of a path is.
pub(super) enum Step {
    Dir(Arc<Dir>),
    Missing,
    Link,
    File,
}

/// The directories that were opened last, by the clean path they were reached by. Whoever removes a
/// directory or a link [`forget`](Self::forget)s them all, since any path may have led through it.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    open: HashMap<Box<[u8]>, Arc<Dir>>,
}

impl Dirs {
    /// The deepest open directory on the way to a path, and the bytes of the path that lead to it.
    pub(super) fn deepest(&self, path: &[u8]) -> Option<(Arc<Dir>, usize)> {
        let mut end = path.len();
        loop {
            if let Some(dir) = self.open.get(&path[..end]) {
                return Some((Arc::clone(dir), end));
            }
            end = path[..end].iter().rposition(|byte| *byte == b'/')?;
        }
    }

    pub(super) fn add(&mut self, path: &[u8], dir: &Arc<Dir>) {
        // Archives go through a tree directory by directory: those that matter are back at once.
        if self.open.len() >= MAX_OPEN {
            self.open.clear();
        }
        self.open.insert(path.into(), Arc::clone(dir));
    }

    pub(super) fn forget(&mut self) {
        self.open.clear();
    }
}
