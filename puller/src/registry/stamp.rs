//! Whether a file has changed.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path, time::SystemTime};

/// What changes when a file does; a mounted ConfigMap or Secret is replaced by another inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Stamp {
    /// The stamp of a file or directory; `None`: it is not there.
    ///
    /// # Errors
    /// It can't be looked at.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self {
                modified: metadata.modified().ok(),
                length: metadata.len(),
                inode: metadata.ino(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
