//! The cache directory, and who owns it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::StoreError;

/// A cache directory that belongs to this process for as long as this lives.
#[derive(Debug)]
pub struct CacheDirectory {
    path: PathBuf,
    identity: String,
    /// Held, never read: the lock goes with it.
    _lock: File,
}

impl CacheDirectory {
    /// Takes a directory, and makes it where it is missing.
    ///
    /// # Errors
    /// It can't be made, or belongs to another process.
    pub fn take(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io("make", path))?;
        let lock = path.join("lock");
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock)
            .map_err(StoreError::io("open", &lock))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(errno) => return Err(StoreError::io("lock", &lock)(errno.into())),
        }
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
            _lock: file,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `<host>_<suffix>`: the same after a restart on the same volume. So a container that was killed takes
    /// its own lease up again at once, where another one would have to wait until it expires; the lock makes
    /// sure that the old process is gone.
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

fn identity(directory: &Path) -> Result<String, StoreError> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let path = directory.join("identity");
    let old = fs::read_to_string(&path).unwrap_or_default();
    // A volume that has moved to another pod has another name.
    if old
        .strip_prefix(&host)
        .is_some_and(|rest| rest.len() > 1 && rest.starts_with('_'))
    {
        return Ok(old);
    }
    let new = format!("{host}_{:032x}", rand::random::<u128>());
    let written = directory.join("identity.new");
    fs::write(&written, &new).map_err(StoreError::io("write", &written))?;
    fs::rename(&written, &path).map_err(StoreError::io("rename", &written))?;
    Ok(new)
}
