//! The content of catalogs on disk.
//!
//! ```text
//! <cache-dir>/
//!   lock                    held by the process that owns the directory
//!   identity                the name by which that process leads
//!   catalogs/<name>/
//!     content-<n>/          files of one content: written once, synced, never changed
//!     current               the record: which of the directories is the content, of what it was made, when
//! ```
//! The record alone makes a directory content. It is replaced by a rename, so at any moment there is the old
//! content or the new one; a directory that no record names is what a crash left, and goes at the next start.
//! Files are opened when a record is read, so who reads never waits for, or is disturbed by, who stores.

mod directory;
mod record;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use puller_client::{ContentDir, ContentError};

pub use self::directory::CacheDirectory;
use self::record::Record;
use crate::{
    content::{self, Coding, Content},
    decision::Stored,
};

/// Why content could not be stored, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk refused.
    #[error("cannot {what} {path:?}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The cache directory belongs to another process.
    #[error(
        "the cache directory {path:?} is in use by another catalog-controller; each needs one of its own"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The tree that the puller made is gone or can't be read.
    #[error("{0}")]
    Tree(#[from] ContentError),
    /// The tree is no catalog.
    #[error("{0}")]
    Catalog(#[from] content::WriteError),
}

impl StoreError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// All that is stored.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    catalogs: Mutex<BTreeMap<String, Entry>>,
}

/// One catalog's content.
#[derive(Debug)]
struct Entry {
    record: Record,
    content: Arc<Content>,
    /// The term of leadership in which the object said that this is what is served.
    published: Option<u64>,
}

/// Content that is written and not yet that of its catalog. Dropped, it goes.
#[derive(Debug)]
pub struct Prepared {
    /// Below the catalog's directory.
    name: String,
    path: PathBuf,
    digest: String,
    bytes: u64,
    kept: bool,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if !self.kept {
            // What is left of it goes at the next start.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Store {
    /// Opens what a directory holds, and removes what crashes left there. A catalog whose record does not hold
    /// is removed too: it is made again from its image.
    ///
    /// # Errors
    /// The directory can't be made or listed.
    pub fn open(directory: &CacheDirectory) -> Result<Self, StoreError> {
        let root = directory.path().join("catalogs");
        fs::create_dir_all(&root).map_err(StoreError::io("make", &root))?;
        let mut catalogs = BTreeMap::new();
        for entry in fs::read_dir(&root).map_err(StoreError::io("list", &root))? {
            let entry = entry.map_err(StoreError::io("list", &root))?;
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            match Entry::open(&path) {
                Ok(entry) => {
                    record::remove_others(&path, &entry.record.directory);
                    catalogs.insert(name, entry);
                }
                Err(error) => {
                    tracing::warn!(catalog = %name, %error, "what is stored of this catalog does not hold, and is removed");
                    remove(&path)?;
                }
            }
        }
        Ok(Self {
            root,
            catalogs: Mutex::new(catalogs),
        })
    }

    /// What is stored of a catalog.
    pub fn get(&self, name: &str) -> Option<Stored> {
        self.lock().get(name).map(|entry| entry.record.stored())
    }

    /// The catalogs of which something is stored.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// The content of a catalog that may be handed out in this term of leadership.
    pub fn published(&self, name: &str, term: u64) -> Option<Arc<Content>> {
        let catalogs = self.lock();
        let entry = catalogs.get(name).filter(|entry| entry.published == Some(term))?;
        Some(Arc::clone(&entry.content))
    }

    /// The object says that this reference is served, or will at once: if it is what is stored, it may be handed
    /// out for as long as this term lasts.
    pub fn publish(&self, name: &str, reference: &str, term: u64) {
        if let Some(entry) = self.lock().get_mut(name) {
            entry.published = (entry.record.reference == reference).then_some(term);
        }
    }

    /// Makes content of a tree. Nobody sees it before [`Store::swap`]. Blocks for as long as that takes.
    ///
    /// # Errors
    /// The tree is no catalog, or the disk refuses.
    pub fn prepare(&self, name: &str, tree: &ContentDir) -> Result<Prepared, StoreError> {
        let catalog = self.directory(name);
        fs::create_dir_all(&catalog).map_err(StoreError::io("make", &catalog))?;
        let directory = record::new_directory(&catalog)?;
        let mut prepared = Prepared {
            path: catalog.join(&directory),
            name: directory,
            digest: String::new(),
            bytes: 0,
            kept: false,
        };
        let written = content::write(tree, &prepared.path)?;
        prepared.digest = written.digest;
        prepared.bytes = written.bytes;
        Ok(prepared)
    }

    /// Makes what was prepared the content of its catalog, under the image's reference by digest. Content that
    /// is byte for byte what was there stays in its place, and its time of change too.
    ///
    /// # Errors
    /// The disk refuses; then what was there is there still.
    pub fn swap(
        &self,
        name: &str,
        mut prepared: Prepared,
        reference: &str,
        tree: &str,
        now: Timestamp,
    ) -> Result<Stored, StoreError> {
        let old = self.lock().get(name).map(|entry| entry.record.clone());
        let same = old.filter(|old| old.digest == prepared.digest);
        let record = Record {
            reference: reference.to_owned(),
            tree: tree.to_owned(),
            unpacked: now,
            directory: same
                .as_ref()
                .map_or_else(|| prepared.name.clone(), |old| old.directory.clone()),
            digest: prepared.digest.clone(),
            bytes: prepared.bytes,
            changed: same.as_ref().map_or(now, |old| old.changed),
        };
        let stored = self.replace(name, record)?;
        prepared.kept = same.is_none();
        Ok(stored)
    }

    /// The content that is stored is that of another reference too, since both stand for the same tree.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn rename(&self, name: &str, reference: &str) -> Result<Option<Stored>, StoreError> {
        let Some(mut record) = self.lock().get(name).map(|entry| entry.record.clone()) else {
            return Ok(None);
        };
        record.reference = reference.to_owned();
        self.replace(name, record).map(Some)
    }

    fn replace(&self, name: &str, record: Record) -> Result<Stored, StoreError> {
        let path = self.directory(name);
        record.save(&path)?;
        let entry = Entry::of(&path, record)?;
        let (stored, directory) = (entry.record.stored(), entry.record.directory.clone());
        self.lock().insert(name.to_owned(), entry);
        record::remove_others(&path, &directory);
        Ok(stored)
    }

    /// Removes a catalog's content.
    ///
    /// # Errors
    /// The disk refuses. Nothing of it is handed out any more all the same.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.lock().remove(name);
        let path = self.directory(name);
        record::remove(&path)?;
        remove(&path)
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A panic under this lock can only come from an allocation that failed.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.catalogs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn open(path: &Path) -> Result<Self, StoreError> {
        Self::of(path, Record::load(path)?)
    }

    fn of(path: &Path, record: Record) -> Result<Self, StoreError> {
        let directory = path.join(&record.directory);
        let content = Content::open(&directory, record.digest.clone(), record.changed.into())
            .and_then(|content| match content.length(Coding::Identity) == record.bytes {
                true => Ok(content),
                false => Err(io::Error::other(format!(
                    "it has {} bytes, and was written with {}",
                    content.length(Coding::Identity),
                    record.bytes
                ))),
            })
            .map_err(StoreError::io("open the content", &directory))?;
        Ok(Self {
            record,
            content: Arc::new(content),
            published: None,
        })
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
