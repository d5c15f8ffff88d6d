//! The Unix socket's file: a stale one is replaced, a live one is an error, and nobody but its owner
//! and its group can ever connect.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process,
};

use rustix::fs::{AtFlags, CWD, Gid};
use tokio::net::UnixListener;

use crate::error::Error;

/// Owner and group may connect; that is the whole of the socket's access control.
const MODE: u32 = 0o660;

/// The file of a bound socket; removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
}

impl SocketFile {
    /// Binds a socket at `path`, for the group given (by name or number) or that of its directory.
    ///
    /// # Errors
    /// [`Error::Listen`]: somebody answers there, something else is there, or it can't be made.
    pub fn bind(path: &Path, group: Option<&str>) -> Result<(Self, UnixListener), Error> {
        let problem = |problem: String| Error::Listen {
            address: format!("unix://{}", path.display()),
            problem,
        };
        let io = |what: &str, error: &io::Error| problem(format!("{what}: {error}"));
        let directory = path
            .parent()
            .filter(|directory| !directory.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(|error| {
            io(
                &format!("the directory {} can't be made", directory.display()),
                &error,
            )
        })?;
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io("it can't be looked at", &error)),
            Ok(there) if !there.file_type().is_socket() => {
                return Err(problem(
                    "something that is no socket is there; remove it or choose another path".into(),
                ));
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(problem(
                    "another process answers there; stop it or choose another path".into(),
                ));
            }
            Ok(_) => {}
        }
        // Made under another name and renamed when its mode and group are right: it replaces a stale one
        // in one step, and nobody can connect before.
        let new = path.with_extension(format!("new-{}", process::id()));
        let listener = UnixListener::bind(&new).map_err(|error| io("it can't be bound", &error))?;
        let file = Self { path: new };
        fs::set_permissions(&file.path, fs::Permissions::from_mode(MODE))
            .map_err(|error| io("its mode can't be set", &error))?;
        if let Some(group) = group {
            let gid = group_id(group)
                .ok_or_else(|| problem(format!("there is no group {group:?} on this machine")))?;
            rustix::fs::chownat(
                CWD,
                &file.path,
                None,
                Some(Gid::from_raw(gid)),
                AtFlags::SYMLINK_NOFOLLOW,
            )
            .map_err(|error| io(&format!("its group can't be set to {group}"), &error.into()))?;
        }
        fs::rename(&file.path, path).map_err(|error| io("it can't be put in its place", &error))?;
        std::mem::forget(file);
        Ok((
            Self {
                path: path.to_owned(),
            },
            listener,
        ))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Left behind, it would only be a stale one, which the next start replaces.
        let _ = fs::remove_file(&self.path);
    }
}

/// A group's number, by the number itself or by its name in the group file (group(5)).
fn group_id(group: &str) -> Option<u32> {
    if let Ok(number) = group.parse() {
        return Some(number);
    }
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group))
            .then(|| fields.nth(1)?.parse().ok())
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deeper/puller.sock");
        let (file, listener) = SocketFile::bind(&path, None).unwrap();
        assert_eq!(
            fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777,
            MODE
        );
        let taken = SocketFile::bind(&path, None).unwrap_err().to_string();
        assert!(taken.contains("another process answers there"), "{taken}");
        // As after a kill: the listener is gone, its file is not.
        drop(listener);
        std::mem::forget(file);
        let (file, _listener) = SocketFile::bind(&path, None).unwrap();
        drop(file);
        assert!(!path.exists());
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            0,
            "nothing is left behind"
        );
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        fs::write(&path, "keep me").unwrap();
        let error = SocketFile::bind(&path, None).unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "keep me");
    }

    #[tokio::test]
    async fn an_unknown_group_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("puller.sock");
        let error = SocketFile::bind(&path, Some("no-such-group"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no-such-group"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(group_id("root"), Some(0));
        assert_eq!(group_id("1234"), Some(1234));
    }
}
