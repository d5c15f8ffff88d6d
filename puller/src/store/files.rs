//! Calls of the file system by directory handle, as the rest of the store needs them.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::crash::{self, Point};

/// Ends the name of a file that is being written. It is no part of any finished file's name.
pub(super) const TEMPORARY: &str = ".new";

/// How a directory is opened: itself, never through a symbolic link.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Locks; what a panicking thread left is still whole, since no lock here is held over a step that can
/// fail halfway.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that this process has not given out before.
pub(super) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Makes the volume's root and the directories above it where they are missing, each durable in the one
/// that it is in.
pub(super) fn make_root(path: &Path) -> io::Result<()> {
    // A relative path ends with the empty one, which stands for the current directory.
    let missing: Vec<_> = path
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .collect();
    std::fs::create_dir_all(path)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        rustix::fs::fsync(open_root(parent)?)?;
    }
    Ok(())
}

/// Opens the volume's root, which may be reached through a link.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(
        CWD,
        path,
        DIRECTORY.difference(OFlags::NOFOLLOW),
        Mode::empty(),
    )?)
}

/// Opens a directory in another.
pub(super) fn open_dir(parent: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

/// Opens a directory in another, made if it is missing, with exactly this mode.
pub(super) fn make_dir(parent: impl AsFd, name: &str, mode: Mode) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(&parent, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let dir = open_dir(parent, name)?;
    set_mode(&dir, mode)?;
    Ok(dir)
}

/// Gives a file or directory exactly this mode, whatever the umask made of it.
pub(super) fn set_mode(file: impl AsFd, mode: Mode) -> rustix::io::Result<()> {
    let stat = rustix::fs::fstat(&file)?;
    if Mode::from_raw_mode(stat.st_mode) != mode {
        rustix::fs::fchmod(file, mode)?;
    }
    Ok(())
}

/// The names in a directory, `.` and `..` apart.
pub(super) fn names(dir: impl AsFd) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !is_dots(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Whether a name is `.` or `..`.
pub(super) fn is_dots(name: &std::ffi::CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// What kind of thing a name stands for; `None`: there is none.
pub(super) fn kind(dir: impl AsFd, name: impl rustix::path::Arg) -> io::Result<Option<FileType>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads a small regular file whole. `None`: there is none.
///
/// # Errors
/// It is something else than a regular file, or larger than `limit` bytes (`InvalidData`).
pub(super) fn read(dir: impl AsFd, name: impl rustix::path::Arg, limit: u64) -> io::Result<Option<Vec<u8>>> {
    // NONBLOCK, since a pipe put there by somebody would keep us for ever.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(odd("it is a symbolic link")),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(odd("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(odd("it is too large"));
    }
    Ok(Some(bytes))
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Replaces a file, durably: after a crash it is the old one or the new one, and once this has returned,
/// the new one.
pub(super) fn replace(dir: impl AsFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = temporary(&dir, name)?;
    let mut write = || {
        file.write_all(bytes)?;
        crash::at(Point::FileWritten);
        file.sync_all()?;
        crash::at(Point::FileSynced);
        rustix::fs::renameat(&dir, &temporary, &dir, name)?;
        crash::at(Point::FileRenamed);
        rustix::fs::fsync(&dir)?;
        Ok(())
    };
    write().inspect_err(|_| {
        // Best effort: the next start removes what stays.
        let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
    })
}

/// A new file to become `name`. Numbers begin anew with each process, so what a dead one has left may have
/// the name that comes next.
fn temporary(dir: impl AsFd, name: &str) -> io::Result<(String, File)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let temporary = format!("{name}.{}{TEMPORARY}", unique());
        match rustix::fs::openat(&dir, &temporary, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((temporary, File::from(file))),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes files, durably. Those that are not there are fine.
pub(super) fn remove<'a>(dir: impl AsFd, names: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    for name in names {
        match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    crash::at(Point::FilesUnlinked);
    rustix::fs::fsync(dir)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_whole_and_leaves_nothing_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let dir = open_root(root.path()).unwrap();
        assert_eq!(read(&dir, "x", 10).unwrap(), None);
        replace(&dir, "x", b"one").unwrap();
        replace(&dir, "x", b"two").unwrap();
        assert_eq!(read(&dir, "x", 10).unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(names(&dir).unwrap(), [c"x".to_owned()]);
        remove(&dir, ["x", "y"]).unwrap();
        assert_eq!(read(&dir, "x", 10).unwrap(), None);
    }

    #[test]
    fn what_a_dead_process_was_writing_is_in_nobodys_way() {
        let root = tempfile::tempdir().unwrap();
        let dir = open_root(root.path()).unwrap();
        let next = unique() + 1;
        // Other tests take numbers too, but not that many.
        for number in next..next + 1_000 {
            std::fs::write(root.path().join(format!("x.{number}{TEMPORARY}")), "half").unwrap();
        }
        replace(&dir, "x", b"whole").unwrap();
        assert_eq!(read(&dir, "x", 10).unwrap().as_deref(), Some(&b"whole"[..]));
    }

    #[test]
    fn only_small_regular_files_are_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = open_root(root.path()).unwrap();
        replace(&dir, "large", b"12345").unwrap();
        std::fs::create_dir(root.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("large", root.path().join("link")).unwrap();
        rustix::fs::mknodat(&dir, "pipe", FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(read(&dir, "large", 5).unwrap().is_some());
        for (name, limit) in [("large", 4), ("directory", 9), ("link", 9), ("pipe", 9)] {
            let error = read(&dir, name, limit).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}: {error}");
        }
    }

    #[test]
    fn a_directory_gets_its_mode_whatever_it_had() {
        let root = tempfile::tempdir().unwrap();
        let dir = open_root(root.path()).unwrap();
        let mode = |dir: &OwnedFd| rustix::fs::fstat(dir).unwrap().st_mode & 0o7777;
        let made = make_dir(&dir, "d", Mode::RWXU).unwrap();
        assert_eq!(mode(&made), 0o700);
        rustix::fs::fchmod(&made, Mode::from_raw_mode(0o2777)).unwrap();
        assert_eq!(mode(&make_dir(&dir, "d", Mode::RWXU).unwrap()), 0o700);
    }
}
