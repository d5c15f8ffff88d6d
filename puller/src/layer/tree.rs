//! A tree in the making.

use std::{
    io::Read,
    sync::{Arc, atomic::Ordering},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode},
    io::Errno,
};

use crate::{
    domain::{Activity, Digest, Reason, Skipped},
    error::Fault,
};

pub(super) use self::parents::Resolver;
use self::selected::Selected;
use super::{
    Inflate, Limits,
    archive::{Archive, Entry, Kind},
    bytes::{Bytes, Stream},
    dirs::{Dir, Dirs},
    fault::{self, quoted},
    made::{Key, LeftOut, Made},
    path::{self, Meaning},
    writer::{self, Creation, Failure, Job, Writer},
};

mod file;
mod finish;
mod parents;
mod remove;
mod selected;

/// While a tree is made its directories can be written whoever we are; the final modes come last.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

/// What of an image is unpacked, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeOptions {
    /// Only this path and what is below it is written, with the directories above it. A clean relative
    /// path, without a leading `/`; `None`: everything. Entries that reach into it by another name (through
    /// a link that is not below it) are not written.
    pub selection: Option<String>,
    /// Fail when a symbolic link in the result leads out of the tree.
    pub refuse_escaping_links: bool,
}

/// A tree that is complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of all regular files; a file with several names counts once.
    pub size: u64,
    /// Regular files; a file with several names counts once for each.
    pub files: u64,
    /// Archive entries of all layers, written or not.
    pub entries: u64,
    /// Symbolic links that lead out of the tree when they are read without RESOLVE_IN_ROOT.
    pub escaping_links: u64,
    /// What was left out on purpose.
    pub skipped: Skipped,
}

/// Applies layers, one after the other, below a root that nobody else writes to.
///
/// Later layers replace what earlier ones made, as the image-spec's "Applying Changesets" says: a
/// directory over a directory keeps its content, everything else replaces what is there, of whatever kind;
/// missing parents are made; a parent that is a file is an error (as for containerd and umoci). Parents
/// are resolved with the root as `/`, links among them included; so are the targets of hard links, except
/// for their last component: a hard link to a symbolic link is another name for that link.
#[derive(Debug)]
pub struct Tree {
    root: Arc<Dir>,
    dirs: Dirs,
    resolver: Resolver,
    selected: Option<Selected>,
    refuse_escaping_links: bool,
    limits: Limits,
    activity: Arc<Activity>,
    creation: Creation,
    writer: Writer,
    made: Made,
    /// The layer at hand: its name for messages and its number, counted from 1.
    layer: String,
    number: u32,
    read: u64,
    written: u64,
    totals: Summary,
    left_out: LeftOut,
}

impl Tree {
    /// A tree below `root`, an empty directory of ours.
    ///
    /// # Errors
    /// The directory can't be used, or a thread can't be started.
    pub fn new(
        root: OwnedFd,
        options: TreeOptions,
        limits: Limits,
        activity: Arc<Activity>,
    ) -> Result<Self, Fault> {
        Self::with_resolver(root, options, limits, activity, Resolver::default())
    }

    pub(super) fn with_resolver(
        root: OwnedFd,
        options: TreeOptions,
        limits: Limits,
        activity: Arc<Activity>,
        resolver: Resolver,
    ) -> Result<Self, Fault> {
        let root_fault = |errno: Errno| Fault::volume("open the root of a new tree", &errno.into());
        let creation = file::probe(&root).map_err(root_fault)?;
        // All that is in it is made by the first layer.
        let root = Arc::new(Dir::new(root, 1).map_err(root_fault)?);
        Ok(Self {
            root,
            dirs: Dirs::default(),
            resolver,
            selected: options
                .selection
                .filter(|path| !path.is_empty())
                .map(Selected::new),
            refuse_escaping_links: options.refuse_escaping_links,
            limits,
            creation,
            writer: Writer::spawn(creation, Arc::clone(&activity))?,
            activity,
            made: Made::default(),
            layer: String::new(),
            number: 0,
            read: 0,
            written: 0,
            totals: Summary::default(),
            left_out: LeftOut::default(),
        })
    }

    /// Applies a layer: reads it to its very end, and returns when all its files are written. `name`
    /// stands in messages. Without a `diff_id` the uncompressed bytes are not hashed. After an error the
    /// tree is of no use any more.
    ///
    /// # Errors
    /// - `malformed layer`, `unsafe layer`, `limit exceeded`: the archive.
    /// - `selection not found`: a hard link below the selected path leads to a file that is not.
    /// - `digest mismatch`: the uncompressed bytes are not those of `diff_id`.
    /// - `no space`, `internal`: the volume, or the attempt was cancelled.
    /// - Whatever fault the layer's source has failed with.
    pub fn apply(&mut self, layer: Inflate, name: &str, diff_id: Option<&Digest>) -> Result<(), Fault> {
        self.begin(name);
        let bytes = Bytes::new(layer, name, diff_id, &self.limits, self.read, &self.activity);
        let mut archive = Archive::new(bytes, name);
        while let Some(entry) = archive.next()? {
            self.count(&entry)?;
            self.entry(&entry, &mut archive)?;
        }
        let mut bytes = archive.into_inner();
        bytes.drain()?;
        self.drain()?;
        self.read = bytes.read();
        match (diff_id, bytes.digest()) {
            (Some(wanted), Some(found)) if *wanted != found => Err(Fault::new(
                Reason::DigestMismatch,
                format!("unpack {name}"),
                format!("its uncompressed bytes have the digest {found}, the image's config says {wanted}"),
                "the image was built wrongly, or its config belongs to another: it must be built again",
            )),
            _ => Ok(()),
        }
    }

    /// Writes a layer that is a plain file (of an artifact) under its title, a relative path.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); `malformed layer` or `unsafe layer` where the title is no relative path
    /// or is taken.
    pub fn put_file(&mut self, title: &str, source: impl Read) -> Result<(), Fault> {
        let name = format!("the file {}", quoted(title.as_bytes()));
        self.begin(&name);
        self.count_entry()?;
        self.put(title.as_bytes(), source)
    }

    fn begin(&mut self, layer: &str) {
        layer.clone_into(&mut self.layer);
        self.number += 1;
        self.made.clear();
    }

    fn count_entry(&mut self) -> Result<(), Fault> {
        if self.activity.is_cancelled() {
            return Err(fault::cancelled(&self.layer));
        }
        self.totals.entries += 1;
        self.limits.check_entries(&self.layer, self.totals.entries)?;
        Activity::add(&self.activity.unpacked_entries, 1);
        Ok(())
    }

    fn count(&mut self, entry: &Entry) -> Result<(), Fault> {
        self.count_entry()?;
        let skipped = &mut self.totals.skipped;
        skipped.special_files += u64::from(entry.kind == Kind::Special);
        skipped.xattrs += entry.xattrs;
        skipped.mode_bits += u64::from(entry.mode_bits);
        skipped.owners += u64::from(entry.owned);
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, archive: &mut Archive<impl Stream>) -> Result<(), Fault> {
        if entry.kind == Kind::Label {
            return Ok(());
        }
        let path = path::clean(&self.layer, &entry.name, &self.limits)?;
        if path.is_empty() {
            return match entry.kind {
                Kind::Directory => Ok(()),
                _ => Err(self.malformed(format!("the entry {} is no directory", quoted(&entry.name)))),
            };
        }
        let (parent, name) = path::split(&path);
        match path::meaning(&self.layer, &path)? {
            Meaning::Ignored => return Ok(()),
            Meaning::Opaque => return self.opaque(parent),
            Meaning::Whiteout(hidden) => return self.whiteout(parent, hidden),
            Meaning::Plain => {}
        }
        if entry.kind == Kind::Special {
            self.left_out.add(&path);
        }
        if !self.select(&path, &entry.kind)? {
            return Ok(());
        }
        // Nothing is made of a special file, but what it replaces goes.
        let Some(dir) = self.parent(parent, entry.kind != Kind::Special)? else {
            return Ok(());
        };
        match &entry.kind {
            Kind::File => self.file(&dir, &path, entry, archive),
            Kind::Directory => self.directory(&dir, name, &path),
            Kind::Symlink(target) => self.symlink(&dir, name, &path, target),
            Kind::HardLink(target) => self.hard_link(&dir, name, &path, target),
            Kind::Special => self.replace_by_nothing(&dir, name, &path),
            Kind::Label => Ok(()),
        }
    }

    fn directory(&mut self, dir: &Dir, name: &[u8], path: &[u8]) -> Result<(), Fault> {
        let key = self.made.key(dir.id, name);
        self.settle(key)?;
        for _ in 0..2 {
            match rustix::fs::mkdirat(&dir.fd, name, DIRECTORY_MODE) {
                Ok(()) => {
                    self.made.add_directory(key);
                    return Ok(());
                }
                Err(Errno::EXIST) => {
                    let stat = rustix::fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW)
                        .map_err(|errno| self.volume("look at", path, errno))?;
                    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                        self.made.add(key);
                        return Ok(());
                    }
                    self.clear(dir, name, key, path)?;
                }
                Err(errno) => return Err(self.volume("make the directory", path, errno)),
            }
        }
        Err(self.volume("make the directory", path, Errno::EXIST))
    }

    fn symlink(&mut self, dir: &Dir, name: &[u8], path: &[u8], target: &[u8]) -> Result<(), Fault> {
        if target.is_empty() || target.contains(&0) {
            return Err(self.malformed(format!("the link {} has no usable target", quoted(path))));
        }
        let key = self.made.key(dir.id, name);
        self.clear(dir, name, key, path)?;
        rustix::fs::symlinkat(target, &dir.fd, name)
            .map_err(|errno| self.volume("make the link", path, errno))?;
        self.made.add(key);
        Ok(())
    }

    fn hard_link(&mut self, dir: &Dir, name: &[u8], path: &[u8], target: &[u8]) -> Result<(), Fault> {
        let target = self.hard_link_target(path, target)?;
        let (target_parent, target_name) = path::split(&target);
        // Another name of a device or pipe that was left out is left out as well.
        let is_left_out = self.left_out.contains(&target);
        let missing = |tree: &Self| {
            tree.malformed(format!(
                "{} is a hard link to {}, which is not there",
                quoted(path),
                quoted(&target)
            ))
        };
        let Some(target_dir) = self.parent(target_parent, false)? else {
            if is_left_out {
                return self.leave_out(dir, name, path);
            }
            return Err(self
                .outside_selection(path, &target)
                .unwrap_or_else(|| missing(self)));
        };
        let target_key = self.made.key(target_dir.id, target_name);
        self.settle(target_key)?;
        let look = |dir: &Dir, name: &[u8]| rustix::fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = match look(&target_dir, target_name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if is_left_out => return self.leave_out(dir, name, path),
            Err(Errno::NOENT) => {
                return Err(self
                    .outside_selection(path, &target)
                    .unwrap_or_else(|| missing(self)));
            }
            Err(errno) => return Err(self.volume("look at", &target, errno)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            return Err(self.malformed(format!(
                "{} is a hard link to the directory {}",
                quoted(path),
                quoted(&target)
            )));
        }
        let key = self.made.key(dir.id, name);
        self.settle(key)?;
        // Already the same file: clearing the way would take the target away.
        if look(dir, name).is_ok_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)) {
            self.made.add(key);
            return Ok(());
        }
        self.clear(dir, name, key, path)?;
        match rustix::fs::linkat(&target_dir.fd, target_name, &dir.fd, name, AtFlags::empty()) {
            Ok(()) => self.totals.files += u64::from(kind == FileType::RegularFile),
            // The target was below what the link replaced.
            Err(Errno::NOENT) => return Err(missing(self)),
            // The file system allows no more names for this file.
            Err(Errno::MLINK) if kind == FileType::RegularFile => {
                self.copy(&target_dir, target_name, &stat, dir, name, path)?;
            }
            Err(errno) => return Err(self.volume("make the hard link", path, errno)),
        }
        self.made.add(key);
        Ok(())
    }

    /// A hard link to something that was left out.
    fn leave_out(&mut self, dir: &Dir, name: &[u8], path: &[u8]) -> Result<(), Fault> {
        self.totals.skipped.special_files += 1;
        self.left_out.add(path);
        self.replace_by_nothing(dir, name, path)
    }

    fn replace_by_nothing(&mut self, dir: &Dir, name: &[u8], path: &[u8]) -> Result<(), Fault> {
        let key = self.made.key(dir.id, name);
        self.clear(dir, name, key, path)
    }

    fn hard_link_target(&self, path: &[u8], target: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut parts: Vec<_> = path::parts(target).collect();
        let last = parts.pop().filter(|last| *last != b".." && !target.contains(&0));
        let Some(last) = last else {
            let happened = format!(
                "{} is a hard link to {}, which is no file",
                quoted(path),
                quoted(target)
            );
            return Err(self.malformed(happened));
        };
        self.limits.check_path(&self.layer, target.len())?;
        parts.push(last);
        Ok(parts.join(&b'/'))
    }

    /// Makes sure that nothing has the name: whatever is there goes, with all that is below it.
    fn clear(&mut self, dir: &Dir, name: &[u8], key: Key, path: &[u8]) -> Result<(), Fault> {
        if dir.made_by == self.number && !self.made.contains(key) {
            return Ok(());
        }
        self.settle(key)?;
        self.remove(dir, name, path)
    }

    /// Waits until a file that was handed to the writer is there.
    fn settle(&self, key: Key) -> Result<(), Fault> {
        match self.made.pending(key) {
            Some(job) if job > self.writer.done() => self
                .writer
                .wait(job)
                .map_err(|failure| self.missing_file(failure)),
            _ => Ok(()),
        }
    }

    /// Waits until all files that were handed to the writer are there.
    fn drain(&self) -> Result<(), Fault> {
        self.writer.drain().map_err(|failure| self.missing_file(failure))
    }

    fn missing_file(&self, failure: Failure) -> Fault {
        match failure {
            Failure::Write { name, errno } => self.volume("write", &name, errno),
            Failure::Died => Fault::new(
                Reason::Internal,
                format!("unpack {}", self.layer),
                "the thread that writes small files died",
                "look at the puller's log",
            ),
        }
    }

    fn malformed(&self, happened: impl Into<String>) -> Fault {
        fault::malformed(&self.layer, happened)
    }

    fn volume(&self, what: &str, path: &[u8], errno: Errno) -> Fault {
        fault::volume(&self.layer, what, path, errno)
    }

    fn count_written(&mut self, bytes: u64) -> Result<(), Fault> {
        self.written = self.written.saturating_add(bytes);
        self.limits.check_written(&self.layer, self.written)
    }

    fn wrote(&self, bytes: usize) {
        self.activity
            .unpacked_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
