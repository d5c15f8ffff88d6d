//! The way to a path, with the tree's root as `/`: by the kernel (openat2 with RESOLVE_IN_ROOT), or, where
//! that is missing or forbidden, by hand, with the same answers.

use std::{ffi::CStr, os::unix::ffi::OsStrExt as _, path::Path};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Links that are followed on one way, as the kernel does (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// Bytes of a path, the closing zero included, as the kernel has it (`PATH_MAX`).
const MAX_PATH: usize = 4096;

/// The parts of a path that are still to be walked; the last comes first.
type Ahead = Vec<Vec<u8>>;

/// Opens what is at a path, and follows links, the last component too.
pub(super) fn open(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    // The root by its own name; the kernel has none for an empty path.
    let path = match path.as_os_str().is_empty() {
        true => b".",
        false => path.as_os_str().as_bytes(),
    };
    match by_kernel(root, path, flags) {
        // Older than Linux 5.6, or forbidden by a seccomp profile; or something was renamed somewhere
        // meanwhile, and the kernel is not sure of a `..`.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => by_hand(root, path, flags),
        answer => answer,
    }
}

fn by_kernel(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
}

/// Goes from handle to handle and never through `..`, so that nothing that is renamed meanwhile can lead
/// out of the root.
fn by_hand(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.len() >= MAX_PATH {
        return Err(Errno::NAMETOOLONG);
    }
    // The directories on the way down from the root; the last is where we are.
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut ahead = Ahead::new();
    push(&mut ahead, path);
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        let here = way.last().map_or(root.as_fd(), AsFd::as_fd);
        match part.as_slice() {
            b"." => continue,
            b".." => {
                way.pop();
                continue;
            }
            name => match step(here, name)? {
                Step::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    if target.starts_with(b"/") {
                        way.clear();
                    }
                    push(&mut ahead, &target);
                }
                Step::Dir(dir) => way.push(dir),
                Step::File if ahead.is_empty() => {
                    return rustix::fs::openat(here, name, flags | OFlags::NOFOLLOW, Mode::empty());
                }
                Step::File => return Err(Errno::NOTDIR),
            },
        }
    }
    let here = way.last().map_or(root.as_fd(), AsFd::as_fd);
    rustix::fs::openat(here, ".", flags, Mode::empty())
}

/// What a component of a path is.
enum Step {
    Dir(OwnedFd),
    Link(Vec<u8>),
    File,
}

fn step(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Step, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    Ok(
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Directory => Step::Dir(found),
            FileType::Symlink => Step::Link(rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes()),
            _ => Step::File,
        },
    )
}

/// What follows last in `path` comes out last. A slash at its end means that a directory must be there.
fn push(ahead: &mut Ahead, path: &[u8]) {
    if path.ends_with(b"/") {
        ahead.push(b".".to_vec());
    }
    let parts = path.rsplit(|byte| *byte == b'/').filter(|part| !part.is_empty());
    ahead.extend(parts.map(<[u8]>::to_vec));
}

/// What an entry of a directory is; a link is not followed.
pub(super) fn file_type(directory: &OwnedFd, name: &CStr) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

#[cfg(test)]
mod tests;
