//! The daemon's own files, read again when they change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    config::Config,
    provider::{InvalidProviders, Providers},
};
use crate::registry::stamp::Stamp;

/// How long files are waited for. A network file system that hangs must not hold up what the daemon has
/// read already.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// What the daemon's own files say.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Another one whenever a file says something else.
    pub(super) version: u64,
    /// The configs, in the order of the files.
    pub(super) configs: Vec<Arc<Config>>,
    pub(super) providers: Arc<Providers>,
}

/// The files, and what they said when they were last read.
#[derive(Debug)]
pub(super) struct Files {
    limit: Duration,
    /// Locked while they are looked at, which may take as long as the file system wants.
    files: Arc<tokio::sync::Mutex<OnDisk>>,
    latest: Arc<Mutex<Arc<Own>>>,
}

#[derive(Debug)]
struct OnDisk {
    configs: Vec<File<Config>>,
    providers: Option<CredentialProviders>,
}

/// The config of credential providers, which is read again whenever it changes. Where it can't be used
/// then, what it said before stays in force.
#[derive(Debug)]
pub struct CredentialProviders {
    file: File<Providers>,
    /// Where the programs are.
    directory: PathBuf,
}

/// One file, as it was when last read.
#[derive(Debug)]
struct File<T> {
    path: PathBuf,
    /// `None`: it wasn't there.
    stamp: Option<Stamp>,
    /// Its stamp when somebody last looked for changes.
    seen: Option<Stamp>,
    said: Arc<T>,
}

impl Files {
    pub(super) fn new(
        configs: impl IntoIterator<Item = PathBuf>,
        providers: Option<CredentialProviders>,
    ) -> Self {
        let files = OnDisk {
            configs: configs.into_iter().map(File::new).collect(),
            providers,
        };
        Self {
            limit: READ_LIMIT,
            latest: Arc::new(Mutex::new(Arc::new(files.own(0)))),
            files: Arc::new(tokio::sync::Mutex::new(files)),
        }
    }

    /// What the files say now; if they can't be looked at in time, what they said before.
    pub(super) async fn read(&self) -> Arc<Own> {
        let latest = Arc::clone(&self.latest);
        let read = async {
            // One thread at most hangs with the file system.
            let mut files = Arc::clone(&self.files).lock_owned().await;
            tokio::task::spawn_blocking(move || files.refresh(&latest)).await
        };
        if !matches!(tokio::time::timeout(self.limit, read).await, Ok(Ok(()))) {
            tracing::warn!("the files with credentials take too long; going on with what they said before");
        }
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a file has changed since this was last asked. It blocks.
    pub(super) fn have_changed(&self) -> bool {
        let mut files = self.files.blocking_lock();
        let OnDisk { configs, providers } = &mut *files;
        let configs = configs
            .iter_mut()
            .fold(false, |changed, file| file.has_changed() | changed);
        let providers = providers
            .as_mut()
            .is_some_and(|providers| providers.file.has_changed());
        configs || providers
    }
}

impl OnDisk {
    fn refresh(&mut self, latest: &Mutex<Arc<Own>>) {
        let mut changed = false;
        for file in &mut self.configs {
            changed |= file.refresh(|bytes| match bytes {
                Some(bytes) => Config::parse_file(bytes).map_err(|error| error.to_string()),
                None => Ok(Default::default()),
            });
        }
        if let Some(CredentialProviders { file, directory }) = &mut self.providers {
            changed |= file.refresh(|bytes| {
                let bytes = bytes.ok_or("it is gone")?;
                Providers::parse(bytes, directory)
            });
        }
        if changed {
            let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
            *latest = Arc::new(self.own(latest.version + 1));
        }
    }

    fn own(&self, version: u64) -> Own {
        let providers = self.providers.as_ref();
        Own {
            version,
            configs: self.configs.iter().map(|file| Arc::clone(&file.said)).collect(),
            providers: providers
                .map(|providers| Arc::clone(&providers.file.said))
                .unwrap_or_default(),
        }
    }
}

impl CredentialProviders {
    /// Reads a config (`CredentialProviderConfig`) whose programs are in a directory.
    ///
    /// # Errors
    /// The config can't be used, or one of the programs is not there.
    pub fn read(config: &Path, directory: &Path) -> Result<Self, InvalidProviders> {
        let invalid = |problem: String| InvalidProviders(format!("{}: {problem}", config.display()));
        let unreadable = |error: io::Error| invalid(format!("it can't be read: {error}"));
        let mut file = File::new(config.to_owned());
        file.stamp = file.seen;
        let bytes = fs::read(config).map_err(unreadable)?;
        let (providers, ignored) = Providers::parse(&bytes, directory).map_err(invalid)?;
        providers.check_programs().map_err(invalid)?;
        file.warn_of(&ignored);
        file.said = Arc::new(providers);
        Ok(Self {
            file,
            directory: directory.to_owned(),
        })
    }
}

impl<T: Default> File<T> {
    fn new(path: PathBuf) -> Self {
        Self {
            seen: Stamp::of(&path).ok().flatten(),
            path,
            stamp: None,
            said: Arc::default(),
        }
    }

    fn has_changed(&mut self) -> bool {
        let stamp = Stamp::of(&self.path).ok().flatten();
        std::mem::replace(&mut self.seen, stamp) != stamp
    }

    /// Reads the file again if it has changed, and tells whether it says something else now. What it
    /// says, and what of it is ignored, is up to `parse`; `None`: there is no file.
    fn refresh(&mut self, parse: impl FnOnce(Option<&[u8]>) -> Result<(T, Vec<String>), String>) -> bool {
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
            tracing::warn!(file = %self.path.display(), "a file with credentials is gone");
        }
        let bytes = stamp.map(|_| fs::read(&self.path)).transpose();
        match bytes
            .map_err(|error| error.to_string())
            .and_then(|bytes| parse(bytes.as_deref()))
        {
            Ok((said, ignored)) => {
                self.warn_of(&ignored);
                self.said = Arc::new(said);
                true
            }
            // A file is often seen while somebody writes it; what it held is better than nothing.
            Err(problem) => {
                tracing::warn!(
                    file = %self.path.display(),
                    problem,
                    "cannot use a file with credentials; going on with what it held before"
                );
                false
            }
        }
    }

    fn warn_of(&self, ignored: &[String]) {
        for what in ignored {
            tracing::warn!(file = %self.path.display(), what, "a file with credentials has something that is ignored");
        }
    }
}

#[cfg(test)]
mod tests;
