//! The way to an entry: its parent directory, resolved with the tree's root as `/`.
//!
//! Components are opened one by one without following links, from the deepest directory that is open
//! already. A link among them is resolved by the kernel (openat2 with RESOLVE_IN_ROOT), or, where that is
//! missing or forbidden, or where directories must be made on the way, by hand: the same steps, from
//! handle to handle. Nobody else writes below the root, so what was looked at does not change.

use std::sync::Arc;

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::error::Fault;

use super::{
    super::dirs::{Dir, Step},
    DIRECTORY_MODE, Tree, path, quoted,
};

/// Links that are followed on one way, as the kernel does (`MAXSYMLINKS`).
pub(super) const MAX_LINKS: usize = 40;

/// Who resolves links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) enum Resolver {
    /// openat2, until it turns out to be missing.
    #[default]
    Kernel,
    /// We do.
    ByHand,
}

/// The parts of a path that are still to be walked; the next one is the last.
type Ahead = Vec<Vec<u8>>;

impl Tree {
    /// The directory at a path that may lead through links. `None`: it does not exist and is not to be
    /// made, or lies outside of what is selected. Links in `path` may hold `..`, and so may `path` itself
    /// when it is the target of a hard link.
    pub(super) fn parent(&mut self, path: &[u8], make: bool) -> Result<Option<Arc<Dir>>, Fault> {
        if path.is_empty() {
            return Ok(Some(Arc::clone(&self.root)));
        }
        if path::parts(path).any(|part| part == b"..") {
            return self.by_hand(&Arc::clone(&self.root), path, make);
        }
        let (mut dir, mut end) = match self.dirs.deepest(path) {
            Some((dir, end)) if end == path.len() => return Ok(Some(dir)),
            Some(found) => found,
            None => (Arc::clone(&self.root), 0),
        };
        while end < path.len() {
            let start = if end == 0 { 0 } else { end + 1 };
            let len = path[start..]
                .iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(path.len() - start);
            end = start + len;
            let name = &path[start..end];
            dir = match self.step(&dir, name, make)? {
                Step::Dir(next) => next,
                Step::Missing => return Ok(None),
                Step::Link => match self.follow(&dir, &path[..end], name, make)? {
                    Some(next) => next,
                    None => return Ok(None),
                },
                Step::File if make => return Err(self.not_a_directory(&path[..end])),
                Step::File => return Ok(None),
            };
            self.dirs.add(&path[..end], &dir);
        }
        Ok(Some(dir))
    }

    /// Opens a directory in another, and makes it if it is missing.
    fn step(&mut self, dir: &Dir, name: &[u8], make: bool) -> Result<Step, Fault> {
        let key = self.made.key(dir.id, name);
        // A file that is on its way would look like nothing.
        self.settle(key)?;
        let is_new = dir.made_by == self.number || self.made.is_new_directory(key);
        let made_by = if is_new { self.number } else { 0 };
        let step = dir
            .open(name, made_by)
            .map_err(|errno| self.volume("open", name, errno))?;
        if !make || !matches!(step, Step::Missing) {
            return Ok(step);
        }
        rustix::fs::mkdirat(&dir.fd, name, DIRECTORY_MODE)
            .map_err(|errno| self.volume("make the directory", name, errno))?;
        self.made.add_directory(key);
        dir.open(name, self.number)
            .map_err(|errno| self.volume("open", name, errno))
    }

    /// `way` is the clean path up to and including the link `name`, which is in `dir`.
    fn follow(
        &mut self,
        dir: &Arc<Dir>,
        way: &[u8],
        name: &[u8],
        make: bool,
    ) -> Result<Option<Arc<Dir>>, Fault> {
        // What is outside of the selection is not on disk, so the kernel can't tell where it would be.
        if self.resolver == Resolver::Kernel && self.selected.is_none() {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.root.fd, way, flags, Mode::empty(), resolve) {
                Ok(fd) => {
                    let dir = Dir::new(fd, 0).map_err(|errno| self.volume("open", way, errno))?;
                    return Ok(Some(Arc::new(dir)));
                }
                // Older than Linux 5.6, or forbidden by a seccomp profile.
                Err(Errno::NOSYS | Errno::PERM) => self.resolver = Resolver::ByHand,
                // A directory to be made, a file on its way, or something to complain about.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::AGAIN) => {}
                Err(errno) => return Err(self.volume("open", way, errno)),
            }
        }
        self.by_hand(dir, name, make)
    }

    /// Walks a path from a directory, following links.
    fn by_hand(&mut self, from: &Arc<Dir>, path: &[u8], make: bool) -> Result<Option<Arc<Dir>>, Fault> {
        let mut dir = Arc::clone(from);
        let mut ahead = Ahead::new();
        push(&mut ahead, path);
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == b".." {
                dir = self.above(&dir)?;
                continue;
            }
            let make = make && self.is_selected(&dir)?;
            match self.step(&dir, &part, make)? {
                Step::Dir(next) => dir = next,
                Step::Missing => return Ok(None),
                Step::File if make => return Err(self.not_a_directory(&part)),
                Step::File => return Ok(None),
                Step::Link => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(self.malformed(format!("{} is a loop of links", quoted(path))));
                    }
                    let target = rustix::fs::readlinkat(&dir.fd, &part[..], Vec::new())
                        .map_err(|errno| self.volume("read the link", &part, errno))?;
                    let target = target.as_bytes();
                    if target.starts_with(b"/") {
                        dir = Arc::clone(&self.root);
                    }
                    push(&mut ahead, target);
                }
            }
        }
        Ok(if self.is_selected(&dir)? { Some(dir) } else { None })
    }

    /// The directory above, or the root itself.
    pub(super) fn above(&self, dir: &Arc<Dir>) -> Result<Arc<Dir>, Fault> {
        if dir.id == self.root.id {
            return Ok(Arc::clone(dir));
        }
        match dir
            .open(b"..", 0)
            .map_err(|errno| self.volume("open", b"..", errno))?
        {
            Step::Dir(above) => Ok(if above.id == self.root.id {
                Arc::clone(&self.root)
            } else {
                above
            }),
            Step::Missing | Step::Link | Step::File => Err(self.volume("open", b"..", Errno::NOTDIR)),
        }
    }

    fn not_a_directory(&self, path: &[u8]) -> Fault {
        self.malformed(format!(
            "an entry is below {}, which is no directory",
            quoted(path)
        ))
    }
}

fn push(ahead: &mut Ahead, path: &[u8]) {
    ahead.extend(path::parts(path).rev().map(<[u8]>::to_vec));
}
