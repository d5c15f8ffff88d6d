//! The record that makes a directory content.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::decision::Stored;

/// The record's file.
const RECORD: &str = "current";
/// What it is called while it is written.
const NEW_RECORD: &str = "current.new";
/// How the names of directories with content begin.
const CONTENT: &str = "content-";

/// Which content is a catalog's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The image's reference by digest.
    pub(super) reference: String,
    /// The tree that it was made of, as the puller names it.
    pub(super) tree: String,
    /// When that was.
    pub(super) unpacked: Timestamp,
    /// The name of its directory.
    pub(super) directory: String,
    /// SHA-256 of the lines, in hex.
    pub(super) digest: String,
    /// Bytes of the lines.
    pub(super) bytes: u64,
    /// When the lines last changed.
    pub(super) changed: Timestamp,
}

impl Record {
    pub(super) fn stored(&self) -> Stored {
        Stored {
            reference: self.reference.clone(),
            tree: self.tree.clone(),
            unpacked: self.unpacked,
        }
    }

    pub(super) fn load(catalog: &Path) -> Result<Self, StoreError> {
        let path = catalog.join(RECORD);
        let bytes = fs::read(&path).map_err(StoreError::io("read the record", &path))?;
        let record: Self = serde_json::from_slice(&bytes)
            .map_err(|error| StoreError::io("read the record", &path)(error.into()))?;
        match record.directory.starts_with(CONTENT) && !record.directory.contains('/') {
            true => Ok(record),
            false => Err(StoreError::io("read the record", &path)(std::io::Error::other(
                format!("{:?} is no directory of content", record.directory),
            ))),
        }
    }

    /// On disk when this returns, or not at all.
    pub(super) fn save(&self, catalog: &Path) -> Result<(), StoreError> {
        let (new, path) = (catalog.join(NEW_RECORD), catalog.join(RECORD));
        let bytes = serde_json::to_vec(self).map_err(|error| StoreError::io("write", &new)(error.into()))?;
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()
        };
        // The names of the content's directory and of the catalog's own come with it.
        write().map_err(StoreError::io("write", &new))?;
        sync(catalog)?;
        fs::rename(&new, &path).map_err(StoreError::io("rename", &new))?;
        sync(catalog)?;
        catalog.parent().map_or(Ok(()), sync)
    }
}

/// The content is none from here on, also after a crash.
pub(super) fn remove(catalog: &Path) -> Result<(), StoreError> {
    let path = catalog.join(RECORD);
    super::remove(&path)?;
    match catalog.exists() {
        true => sync(catalog),
        false => Ok(()),
    }
}

/// Makes a directory for new content, and gives its name.
pub(super) fn new_directory(catalog: &Path) -> Result<String, StoreError> {
    let name = format!("{CONTENT}{:016x}", rand::random::<u64>());
    let path = catalog.join(&name);
    fs::create_dir(&path).map_err(StoreError::io("make", &path))?;
    Ok(name)
}

/// Removes what the record does not name; what can't be removed now goes at the next start.
pub(super) fn remove_others(catalog: &Path, directory: &str) {
    let Ok(entries) = fs::read_dir(catalog) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == directory || name == RECORD {
            continue;
        }
        if let Err(error) = super::remove(&entry.path()) {
            tracing::warn!(%error, "left over content can't be removed; the next start tries again");
        }
    }
}

fn sync(directory: &Path) -> Result<(), StoreError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(StoreError::io("sync", directory))
}
