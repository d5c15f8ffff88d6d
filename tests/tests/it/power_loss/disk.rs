//! A disk that forgets what was not synced.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::{Path, PathBuf},
};

use puller_tests::strace::Moment;

#[derive(Default)]
pub(super) struct Disk {
    /// Files whose bytes, and directories whose names, are not synced; with the moment of the last change.
    unsynced: BTreeMap<PathBuf, usize>,
    /// What was written last into each file.
    texts: BTreeMap<PathBuf, String>,
    /// What files have been on the disk, by name and text.
    been: BTreeSet<(PathBuf, String)>,
}

impl Disk {
    /// A file whose bytes, or a directory whose names, may be lost.
    pub(super) fn lost(&self, path: &Path) -> Vec<PathBuf> {
        self.unsynced
            .contains_key(path)
            .then(|| path.to_owned())
            .into_iter()
            .collect()
    }

    /// The same for all below a directory.
    pub(super) fn lost_below(&self, directory: &Path) -> Vec<PathBuf> {
        let below = |path: &&PathBuf| *path != directory && path.starts_with(directory);
        self.unsynced.keys().filter(below).cloned().collect()
    }

    /// Whether a file of that name has been on the disk, with this in its text.
    pub(super) fn has_had(&self, path: &Path, part: &str) -> bool {
        self.been
            .iter()
            .any(|(name, text)| name == path && text.contains(part))
    }

    /// A call has ended well, at this moment; it began at that one.
    pub(super) fn take(&mut self, moment: &Moment, now: usize, begun: usize) {
        let names = moment.names();
        match (moment.call.as_str(), &names[..]) {
            ("sync" | "syncfs", _) => self.unsynced.retain(|_, changed| *changed > begun),
            ("fsync" | "fdatasync", _) => {
                let path = moment.handle().expect("fsync has a handle");
                self.unsynced
                    .retain(|other, changed| *other != path || *changed > begun);
                self.note_texts_of(&path);
            }
            ("openat", [file]) => {
                if moment.arguments.contains("O_CREAT") {
                    self.name_changed(file, now);
                    self.unsynced.insert(file.clone(), now);
                }
            }
            ("rename" | "renameat" | "renameat2", [from, to]) => {
                self.name_changed(from, now);
                self.name_changed(to, now);
                move_names(&mut self.unsynced, from, to);
                move_names(&mut self.texts, from, to);
            }
            ("mkdir" | "mkdirat", [name]) | ("symlinkat" | "linkat", [_, name]) => {
                self.name_changed(name, now);
            }
            ("unlink" | "unlinkat", [name]) => {
                self.name_changed(name, now);
                self.unsynced.remove(name);
            }
            _ => {
                // A write, whatever it is called.
                if let Some(file) = moment.handle() {
                    self.texts.insert(file.clone(), moment.arguments.clone());
                    self.unsynced.insert(file, now);
                }
            }
        }
    }

    /// A name has come or gone.
    fn name_changed(&mut self, path: &Path, now: usize) {
        if let Some(directory) = path.parent() {
            self.unsynced.insert(directory.to_owned(), now);
        }
    }

    /// A directory is synced: so are the files in it whose bytes are.
    fn note_texts_of(&mut self, directory: &Path) {
        if self.unsynced.contains_key(directory) {
            return;
        }
        for (file, text) in &self.texts {
            if file.parent() == Some(directory) && !self.unsynced.contains_key(file) {
                self.been.insert((file.clone(), text.clone()));
            }
        }
    }
}

/// What was below one name is below another one, in the place of what was there.
fn move_names<T>(map: &mut BTreeMap<PathBuf, T>, from: &Path, to: &Path) {
    for (path, value) in mem::take(map) {
        match path.strip_prefix(from) {
            // Joined with nothing, a path would get a slash at its end.
            Ok(below) if below.as_os_str().is_empty() => drop(map.insert(to.to_owned(), value)),
            Ok(below) => drop(map.insert(to.join(below), value)),
            Err(_) if path.starts_with(to) => {}
            Err(_) => drop(map.insert(path, value)),
        }
    }
}
