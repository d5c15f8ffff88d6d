//! A tree in the making.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::Mode;

use super::{
    crash::{self, Point},
    files::{self, lock},
    volume::Volume,
};
use crate::error::Fault;

/// The root's mode while the tree is made, and until it is in its place: whoever is not root can move a
/// directory only while it may write it. Nobody else gets here, since `private/` is closed.
pub(super) const MODE_MAKING: Mode = Mode::from_raw_mode(0o755);

/// A directory that an image is unpacked into. Dropped, it is deleted, unless it was published.
#[derive(Debug)]
pub struct TreeDir {
    volume: Arc<Volume>,
    name: CString,
    root: OwnedFd,
    published: bool,
}

impl Volume {
    /// An empty directory for one unpack.
    ///
    /// # Errors
    /// The volume does not take it.
    pub fn new_tree(self: &Arc<Self>) -> Result<TreeDir, Fault> {
        let name = format!("{}-{}", self.epoch(), files::unique());
        let make = || {
            let cname = CString::new(name.as_str())?;
            lock(&self.trees).insert(cname.clone());
            let made = files::make_dir(&self.dirs.trees, &name, MODE_MAKING);
            made.inspect_err(|_| {
                lock(&self.trees).remove(&cname);
            })
            .inspect(|_| crash::at(Point::TreeMade))
            .map(|root| (cname, root))
        };
        let (name, root) =
            make().map_err(|error: io::Error| Fault::volume("make a directory for the unpack", &error))?;
        Ok(TreeDir {
            volume: Arc::clone(self),
            name,
            root,
            published: false,
        })
    }
}

impl TreeDir {
    /// The directory itself, for the unpack to work below.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn open_root(&self) -> Result<OwnedFd, Fault> {
        self.root
            .try_clone()
            .map_err(|error| Fault::volume("open the directory for the unpack", &error))
    }

    pub(super) fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    pub(super) fn name(&self) -> &CString {
        &self.name
    }

    /// From now on it is not this value's to delete.
    pub(super) fn keep(&mut self) {
        self.published = true;
    }
}

impl AsFd for TreeDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

impl Drop for TreeDir {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = self.volume.trash.put(&self.volume.dirs.trees, &self.name)
        {
            tracing::warn!(name = ?self.name, %error, "a tree in the making stays until the next collection");
        }
        lock(&self.volume.trees).remove(&self.name);
    }
}
