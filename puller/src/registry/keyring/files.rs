//! The daemon's own files, read again when they change.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::config::Config;
use crate::registry::stamp::Stamp;

/// How long files are waited for. A network file system that hangs must not hold up what the daemon has
/// read already.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// What the daemon's own files say.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Another one whenever a file has changed.
    pub(super) version: u64,
    /// The configs, in the order of the files.
    pub(super) configs: Vec<Arc<Config>>,
}

/// The files, and what they said when they were last read.
#[derive(Debug)]
pub(super) struct Files {
    limit: Duration,
    /// Locked while they are looked at, which may take as long as the file system wants.
    files: Arc<tokio::sync::Mutex<Vec<File>>>,
    latest: Arc<Mutex<Arc<Own>>>,
}

/// One file, as it was when last read.
#[derive(Debug)]
struct File {
    path: PathBuf,
    /// `None`: it wasn't there.
    stamp: Option<Stamp>,
    /// Its stamp when somebody last looked for changes.
    seen: Option<Stamp>,
    config: Arc<Config>,
}

impl Files {
    pub(super) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = paths.into_iter().map(|path| File {
            seen: Stamp::of(&path).ok().flatten(),
            path,
            stamp: None,
            config: Arc::default(),
        });
        Self {
            limit: READ_LIMIT,
            files: Arc::new(tokio::sync::Mutex::new(files.collect())),
            latest: Arc::default(),
        }
    }

    /// What the files say now; if they can't be looked at in time, what they said before.
    pub(super) async fn read(&self) -> Arc<Own> {
        let latest = Arc::clone(&self.latest);
        let read = async {
            // One thread at most hangs with the file system.
            let mut files = Arc::clone(&self.files).lock_owned().await;
            tokio::task::spawn_blocking(move || refresh(&mut files, &latest)).await
        };
        if !matches!(tokio::time::timeout(self.limit, read).await, Ok(Ok(()))) {
            tracing::warn!("the files with credentials take too long; going on with what they said before");
        }
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a file has changed since this was last asked. It blocks.
    pub(super) fn have_changed(&self) -> bool {
        let mut changed = false;
        for file in self.files.blocking_lock().iter_mut() {
            let stamp = Stamp::of(&file.path).ok().flatten();
            changed |= stamp != file.seen;
            file.seen = stamp;
        }
        changed
    }
}

fn refresh(files: &mut [File], latest: &Mutex<Arc<Own>>) {
    let changed = files
        .iter_mut()
        .fold(false, |changed, file| file.refresh() | changed);
    if changed {
        let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Arc::new(Own {
            version: latest.version + 1,
            configs: files.iter().map(|file| Arc::clone(&file.config)).collect(),
        });
    }
}

impl File {
    /// Reads the file again if it has changed, and says whether it has.
    fn refresh(&mut self) -> bool {
        let stamp = match Stamp::of(&self.path) {
            Ok(stamp) => stamp,
            Err(error) => {
                tracing::warn!(file = %self.path.display(), %error, "cannot look at a file with credentials");
                return false;
            }
        };
        if stamp == self.stamp {
            return false;
        }
        // Taken before the file is read: if it changes in between, it is read once more.
        self.stamp = stamp;
        if stamp.is_none() {
            tracing::info!(file = %self.path.display(), "a file with credentials is gone");
            self.config = Arc::default();
            return true;
        }
        let read = fs::read(&self.path).map_err(|error| error.to_string());
        match read.and_then(|bytes| Config::parse(&bytes).map_err(|error| error.to_string())) {
            Ok((config, ignored)) => {
                for what in ignored {
                    tracing::warn!(file = %self.path.display(), what, "a file with credentials has an entry that is ignored");
                }
                self.config = Arc::new(config);
            }
            // A file is often seen while somebody writes it; what it held is better than nothing.
            Err(problem) => {
                tracing::warn!(
                    file = %self.path.display(),
                    problem,
                    "cannot use a file with credentials; going on with what it held before"
                );
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
