//! What makes a tree visible, and what takes it away.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rustix::fs::{FileType, Mode};

use super::{
    crash::{self, Point},
    files::{self, lock},
    records,
    tree::TreeDir,
    volume::Volume,
};
use crate::{domain::Content, error::Fault};

/// A published tree's root. Its directories and files are as the unpack left them.
pub(super) const MODE_PUBLISHED: Mode = Mode::from_raw_mode(0o555);

/// A moment in the life of the contents: see [`Volume::mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// What is published, as the records say.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Counts the calls that touch a content.
    now: u64,
    entries: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    record: Content,
    /// When it was last published or asked for.
    touched: u64,
}

impl Contents {
    pub(super) fn new(records: impl IntoIterator<Item = (String, Content)>) -> Self {
        let entry = |(name, record)| (name, Entry { record, touched: 0 });
        Self {
            now: 0,
            entries: records.into_iter().map(entry).collect(),
        }
    }
}

impl Volume {
    /// The published content of that name, if it is there. Until the next [`Volume::mark`], no
    /// collection removes what this has found.
    pub fn content(&self, name: &str) -> Option<Content> {
        let mut contents = lock(&self.contents);
        contents.now += 1;
        let now = contents.now;
        let entry = contents.entries.get_mut(name)?;
        // A look at the disk, since somebody's hands may have been there.
        if !self.is_tree(name) {
            return None;
        }
        entry.touched = now;
        Some(entry.record.clone())
    }

    /// All that is published, by name.
    pub fn contents(&self) -> Vec<Content> {
        lock(&self.contents)
            .entries
            .values()
            .map(|entry| entry.record.clone())
            .collect()
    }

    /// A mark, to be taken before it is decided what [`Volume::collect`] shall keep: what is published
    /// or found by [`Volume::content`] after it stays, since the decision could not know of it.
    pub fn mark(&self) -> Mark {
        Mark(lock(&self.contents).now)
    }

    pub(super) fn content_bytes(&self) -> u64 {
        lock(&self.contents)
            .entries
            .values()
            .map(|entry| entry.record.size)
            .fold(0, u64::saturating_add)
    }

    fn is_tree(&self, name: &str) -> bool {
        matches!(
            files::kind(&self.dirs.content, name),
            Ok(Some(FileType::Directory))
        )
    }

    /// Makes a tree durable, visible and recorded, in this order, and returns its record with the time
    /// of the publication and of the sync in it. If that content is published already, the old one
    /// stays, the tree goes, and the old record is returned. Blocks, for as long as the volume needs to
    /// write what is in memory.
    ///
    /// # Errors
    /// The volume failed; then nothing is published.
    pub fn publish(self: &Arc<Self>, tree: TreeDir, record: Content) -> Result<Content, Fault> {
        let name = record.name();
        debug_assert!(
            Arc::ptr_eq(self, tree.volume()),
            "a tree is published on its own volume"
        );
        if let Some(old) = self.content(&name) {
            return Ok(old);
        }
        crash::at(Point::TreeUnpacked);
        let begun = Instant::now();
        // By the tree's own handle: it was opened before the first byte was written, so that a write
        // which failed later, in the background, is reported here and to nobody else instead.
        rustix::fs::syncfs(&tree)
            .map_err(|error| Fault::volume("write the unpacked image to the volume", &error.into()))?;
        let sync = begun.elapsed();
        crash::at(Point::TreeSynced);
        self.publish_synced(tree, &name, record, sync)
            .map_err(|error| Fault::volume(format!("publish content/{name}"), &error))
    }

    fn publish_synced(
        &self,
        mut tree: TreeDir,
        name: &str,
        record: Content,
        sync: Duration,
    ) -> io::Result<Content> {
        let _one_at_a_time = lock(&self.publishing);
        // Another pull may have come to the same content during the sync.
        if let Some(old) = self.content(name) {
            return Ok(old);
        }
        let cname = CString::new(name)?;
        // What stands there without a record is nothing; and with one, it is no tree.
        self.trash.put(&self.dirs.content, &cname)?;
        rustix::fs::renameat(&self.dirs.trees, tree.name(), &self.dirs.content, &cname)?;
        tree.keep();
        crash::at(Point::TreeRenamed);
        let record = Content {
            published: Timestamp::now(),
            sync,
            ..record
        };
        let finish = || {
            rustix::fs::fchmod(&tree, MODE_PUBLISHED)?;
            rustix::fs::fsync(&self.dirs.content)?;
            crash::at(Point::RenameSynced);
            files::replace(
                &self.dirs.contents,
                &records::file_name(name),
                &records::encode(&record)?,
            )
        };
        if let Err(error) = finish() {
            // The record may be there nevertheless, if only its directory's sync failed.
            let undone = files::remove(&self.dirs.contents, [records::file_name(name).as_str()])
                .and_then(|()| self.trash.put(&self.dirs.content, &cname));
            if let Err(error) = undone {
                tracing::warn!(name, %error, "a tree that could not be published can't be removed either");
            }
            return Err(error);
        }
        crash::at(Point::ContentRecorded);
        let mut contents = lock(&self.contents);
        contents.now += 1;
        let touched = contents.now;
        let entry = Entry {
            record: record.clone(),
            touched,
        };
        contents.entries.insert(name.to_owned(), entry);
        Ok(record)
    }

    /// Removes a content: the record first. Blocks. What is not there is fine.
    ///
    /// # Errors
    /// The volume failed. The content may then be there again after a restart.
    pub fn remove_content(&self, name: &str) -> Result<(), Fault> {
        let _one_at_a_time = lock(&self.publishing);
        let known = lock(&self.contents).entries.remove(name).is_some();
        if known {
            self.remove_from_disk(&[name.to_owned()])?;
        }
        Ok(())
    }

    /// Removes all contents that are not to be kept and were not touched after the mark, and what an
    /// earlier removal could not. Returns how many.
    pub(super) fn collect_contents(&self, mark: Mark, keep: &HashSet<String>) -> Result<u64, Fault> {
        let _one_at_a_time = lock(&self.publishing);
        let there = files::names(&self.dirs.content)
            .map_err(|error| Fault::volume("look for content that nobody needs", &error))?;
        let mut contents = lock(&self.contents);
        // From here on nobody finds them.
        contents
            .entries
            .retain(|name, entry| entry.touched > mark.0 || keep.contains(name));
        let names: Vec<_> = there
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .filter(|name| !contents.entries.contains_key(name))
            .collect();
        drop(contents);
        if !names.is_empty() {
            self.remove_from_disk(&names)?;
        }
        Ok(names.len() as u64)
    }

    fn remove_from_disk(&self, names: &[String]) -> Result<(), Fault> {
        let remove = || -> io::Result<()> {
            let files: Vec<_> = names.iter().map(|name| records::file_name(name)).collect();
            // Durable before a tree moves: a record must not come back without its tree.
            files::remove(&self.dirs.contents, files.iter().map(String::as_str))?;
            crash::at(Point::ContentForgotten);
            for name in names {
                self.trash
                    .put(&self.dirs.content, &CString::new(name.as_str())?)?;
                crash::at(Point::ContentTrashed);
            }
            Ok(())
        };
        remove()
            .map_err(|error| Fault::volume(format!("remove content/{}", names.join(", content/")), &error))
    }
}
