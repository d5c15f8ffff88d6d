//! One puller a volume.

use std::{fs::File, io::Write, os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::files;
use crate::error::Error;

const NAME: &str = "lock";
/// More than any pid has digits.
const LIMIT: u64 = 64;

/// Takes the volume for as long as the returned file is open. It never waits.
///
/// # Errors
/// Another process has it ([`Error::VolumeTaken`], with the pid it wrote); the file system has no locks.
pub(super) fn take(private: &OwnedFd, root: &Path) -> Result<File, Error> {
    let problem = |what: &str, error: std::io::Error| Error::Volume {
        path: root.to_owned(),
        problem: format!("{what} private/{NAME}: {error}"),
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = rustix::fs::openat(private, NAME, flags, Mode::RUSR | Mode::WUSR)
        .map(File::from)
        .map_err(|error| problem("cannot open", error.into()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(Error::VolumeTaken {
                path: root.to_owned(),
                owner: owner(private),
            });
        }
        Err(error) => {
            return Err(problem(
                "the volume needs a file system with flock; cannot lock",
                error.into(),
            ));
        }
    }
    file.set_len(0)
        .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
        .map_err(|error| problem("cannot write", error))?;
    Ok(file)
}

/// What the owner wrote, if it is a number: the owner may be between its lock and its write.
fn owner(private: &OwnedFd) -> String {
    let text = files::read(private, NAME, LIMIT)
        .ok()
        .flatten()
        .unwrap_or_default();
    match std::str::from_utf8(&text).map(str::parse::<u32>) {
        Ok(Ok(pid)) => pid.to_string(),
        _ => "unknown".into(),
    }
}
