//! Whether a file has changed.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

/// What changes when a file does: inode, length, and the times of modification and of change, in seconds
/// and nanoseconds. Tools replace files, links to them (as mounted ConfigMaps and Secrets do), or what is
/// in them, and some of them put the time of modification back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    length: u64,
    times: [i64; 4],
}

impl Stamp {
    /// The stamp of a file or directory; `None`: it is not there.
    ///
    /// # Errors
    /// It can't be looked at.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(meta) => Ok(Some(Self {
                inode: meta.ino(),
                length: meta.len(),
                times: [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()],
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
