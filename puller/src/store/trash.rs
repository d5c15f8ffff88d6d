//! Deleting, without making anybody wait: a rename now, the work on a thread of its own.
//!
//! The directory itself is the queue, so what a crash leaves there is deleted by the next start. A tree
//! is taken apart without recursion: a directory that is not empty is first moved up into `trash/`, and
//! so comes to be an entry like any other. At most two directories are open, however deep a tree is.
//! No symbolic link is ever followed, and no path of more than one component is used.

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode},
    io::Errno,
};

use super::{
    crash::{self, Point},
    files::{self, lock},
};

/// Read-only directories can't be emptied by their owner, unless that is root.
const REMOVABLE: Mode = Mode::RWXU;
/// A tree may be read while it is moved out of sight; its owner must be able to write it for that.
const MOVABLE: Mode = Mode::RWXU
    .union(Mode::RGRP)
    .union(Mode::XGRP)
    .union(Mode::ROTH)
    .union(Mode::XOTH);

/// The trash and the thread that empties it.
#[derive(Debug)]
pub(super) struct Trash {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    dir: OwnedFd,
    epoch: u64,
    stop: AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Calls of [`Trash::put`] so far, and how many of them are done with.
    asked: u64,
    done: u64,
    /// Files whose last handle is closed after their name is gone: that is when their blocks are
    /// freed, and for a large one it takes a while.
    open: Vec<Arc<File>>,
}

impl Trash {
    /// Starts the thread, which at once deletes what is there already.
    pub(super) fn start(dir: OwnedFd, epoch: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            dir,
            epoch,
            stop: AtomicBool::new(false),
            queue: Mutex::new(Queue {
                asked: 1,
                ..Queue::default()
            }),
            changed: Condvar::new(),
        });
        let worker = std::thread::Builder::new().name("trash".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        })?;
        Ok(Self {
            shared,
            worker: Some(worker),
        })
    }

    /// Moves a file or a whole tree out of its directory. What is not there is fine.
    pub(super) fn put(&self, from: &OwnedFd, name: &CStr) -> io::Result<()> {
        self.shared.take(from, name, MOVABLE)?;
        self.wake(None);
        Ok(())
    }

    /// The same for a file that is open.
    pub(super) fn put_open(&self, from: &OwnedFd, name: &CStr, file: Arc<File>) -> io::Result<()> {
        self.shared.take(from, name, MOVABLE)?;
        self.wake(Some(file));
        Ok(())
    }

    /// Waits until all that was put here before is deleted.
    pub(super) fn wait_empty(&self) {
        let mut queue = lock(&self.shared.queue);
        let target = queue.asked;
        while queue.done < target {
            queue = self
                .shared
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wake(&self, file: Option<Arc<File>>) {
        let mut queue = lock(&self.shared.queue);
        queue.asked += 1;
        queue.open.extend(file);
        self.shared.changed.notify_all();
    }
}

impl Drop for Trash {
    fn drop(&mut self) {
        // Under the lock, so that the thread is not between its look at `stop` and its wait.
        let queue = lock(&self.shared.queue);
        self.shared.stop.store(true, Relaxed);
        self.shared.changed.notify_all();
        drop(queue);
        if let Some(worker) = self.worker.take()
            && worker.join().is_err()
        {
            tracing::error!("the thread that empties the trash has panicked");
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = lock(&self.queue);
        loop {
            while queue.done == queue.asked && !self.stop.load(Relaxed) {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if self.stop.load(Relaxed) {
                return;
            }
            let target = queue.asked;
            let open = std::mem::take(&mut queue.open);
            drop(queue);
            if let Err(error) = self.empty() {
                tracing::warn!(%error, "something in the trash can't be deleted; it stays there");
            }
            drop(open);
            queue = lock(&self.queue);
            queue.done = target;
            self.changed.notify_all();
        }
    }

    /// Deletes all it can.
    ///
    /// # Errors
    /// The first thing that could not be deleted.
    fn empty(&self) -> io::Result<()> {
        loop {
            let mut progress = false;
            let mut failed = Ok(());
            for entry in Dir::read_from(&self.dir)? {
                let entry = entry?;
                if files::is_dots(entry.file_name()) {
                    continue;
                }
                match self.delete(entry.file_name()) {
                    Ok(()) => {
                        crash::at(Point::TrashDeleted);
                        progress = true;
                    }
                    Err(error) => failed = failed.and(Err(error)),
                }
                if self.stop.load(Relaxed) {
                    return failed;
                }
            }
            if !progress {
                return failed;
            }
        }
    }

    /// Deletes an entry of the trash; a directory's own directories end up as entries beside it.
    fn delete(&self, name: &CStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        let dir = open_with(&self.dir, name, REMOVABLE)?;
        for child in Dir::read_from(&dir)? {
            let child = child?;
            let child = child.file_name();
            if files::is_dots(child) {
                continue;
            }
            match rustix::fs::unlinkat(&dir, child, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(error.into()),
            }
            match rustix::fs::unlinkat(&dir, child, AtFlags::REMOVEDIR) {
                Ok(()) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => {
                    self.take(&dir, child, REMOVABLE)?;
                    crash::at(Point::TrashFlattened);
                }
                Err(error) => return Err(error.into()),
            }
            if self.stop.load(Relaxed) {
                return Ok(());
            }
        }
        Ok(rustix::fs::unlinkat(&self.dir, name, AtFlags::REMOVEDIR)?)
    }

    /// Moves something here, under a name of its own.
    fn take(&self, from: &OwnedFd, name: &CStr, mode: Mode) -> io::Result<()> {
        // Moving a directory changes its "..", for which its owner needs the right to write it.
        match files::kind(from, name)? {
            None => return Ok(()),
            Some(FileType::Directory) => drop(open_with(from, name, mode)?),
            Some(_) => {}
        }
        let new = format!("{}-{}", self.epoch, files::unique());
        rustix::fs::renameat(from, name, &self.dir, new)?;
        crash::at(Point::Trashed);
        Ok(())
    }
}

/// Opens a directory, with its mode set to one that lets its owner work on it.
fn open_with(parent: impl AsFd, name: &CStr, mode: Mode) -> io::Result<OwnedFd> {
    let dir = match files::open_dir(&parent, name) {
        Err(Errno::ACCESS) => {
            // It can't even be read, so it can't be changed by handle either. What is changed by name is
            // a directory: nobody but us could have put a link in its place since it was looked at.
            rustix::fs::chmodat(&parent, name, mode, AtFlags::empty())?;
            files::open_dir(&parent, name)?
        }
        other => other?,
    };
    files::set_mode(&dir, mode)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        path::Path,
    };

    use super::*;
    use crate::store::tests::as_nobody;

    fn trash(root: &Path) -> (OwnedFd, Trash) {
        fs::create_dir_all(root.join("trash")).unwrap();
        let dir = files::open_root(root).unwrap();
        let trash = Trash::start(files::open_dir(&dir, "trash").unwrap(), 1).unwrap();
        (dir, trash)
    }

    fn entries(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn a_read_only_tree_goes_and_what_its_links_lead_to_stays() {
        as_nobody(|root| {
            let outside = root.join("outside");
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("file"), "stays").unwrap();
            let tree = root.join("tree");
            fs::create_dir_all(tree.join("a/b/c")).unwrap();
            fs::create_dir_all(tree.join("a/empty")).unwrap();
            fs::create_dir_all(tree.join("closed/inner")).unwrap();
            fs::write(tree.join("a/b/c/file"), "x").unwrap();
            fs::write(tree.join("closed/inner/file"), "x").unwrap();
            symlink(&outside, tree.join("a/b/c/absolute")).unwrap();
            symlink("../../../../outside", tree.join("a/b/c/relative")).unwrap();
            symlink("..", tree.join("a/b/c/loop")).unwrap();
            for (path, mode) in [
                ("a/b/c", 0o555),
                ("a/b", 0o555),
                ("a", 0o555),
                ("closed", 0),
                ("", 0o555),
            ] {
                fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode)).unwrap();
            }
            let (dir, trash) = trash(root);
            trash.put(&dir, c"tree").unwrap();
            assert!(!tree.exists());
            trash.wait_empty();
            assert_eq!(entries(&root.join("trash")), 0);
            assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "stays");
        });
    }

    #[test]
    fn a_link_in_the_place_of_a_tree_goes_alone() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("outside")).unwrap();
        fs::write(root.path().join("outside/file"), "stays").unwrap();
        symlink("outside", root.path().join("tree")).unwrap();
        let (dir, trash) = trash(root.path());
        trash.put(&dir, c"tree").unwrap();
        trash.put(&dir, c"not there").unwrap();
        trash.wait_empty();
        assert_eq!(entries(&root.path().join("trash")), 0);
        assert!(root.path().join("outside/file").exists());
        assert!(!root.path().join("tree").is_symlink());
    }

    #[test]
    fn depth_does_not_matter() {
        let root = tempfile::tempdir().unwrap();
        let top = files::open_root(root.path()).unwrap();
        // Far deeper than a path may be long, and than there are file handles.
        let mut dir = files::make_dir(&top, "tree", Mode::RWXU).unwrap();
        for _ in 0..1_100 {
            dir = files::make_dir(&dir, "deeper", Mode::RWXU).unwrap();
        }
        let (_, trash) = trash(root.path());
        trash.put(&top, c"tree").unwrap();
        trash.wait_empty();
        assert_eq!(entries(&root.path().join("trash")), 0);
    }

    #[test]
    fn what_an_earlier_run_left_goes_at_start() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("trash/1-1/a/b")).unwrap();
        fs::write(root.path().join("trash/1-2"), "x").unwrap();
        let (_, trash) = trash(root.path());
        trash.wait_empty();
        assert_eq!(entries(&root.path().join("trash")), 0);
    }
}
