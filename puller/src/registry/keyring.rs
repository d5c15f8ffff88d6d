//! Whose credentials are used for what.
//!
//! Credentials live in scopes that never mix: the daemon's own, read from its files, and those that
//! came by `Fetch`, kept in memory under the name they came with. Nothing of a scope is ever used for
//! another, and a scope whose values are gone (after a restart) is not tried without them.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use super::stamp::Stamp;
use crate::domain::Scope;

pub(crate) mod config;
mod glob;
mod helper;
mod process;

pub(super) use config::Credential;
pub use config::InvalidConfig;

use config::Config;
use helper::Helpers;

/// The credentials of all scopes.
#[derive(Debug)]
pub struct Keyring {
    files: Mutex<Vec<File>>,
    scopes: Mutex<HashMap<Scope, Arc<Config>>>,
    helpers: Helpers,
}

/// What was found for a repository.
#[derive(Debug)]
pub(super) struct Found {
    /// The credentials, the most specific first; none: it is asked anonymously.
    pub(super) credentials: Vec<Credential>,
    /// What credential helpers failed with, for people.
    pub(super) problems: Vec<String>,
}

/// One of the daemon's own files, as it was when last read.
#[derive(Debug)]
struct File {
    path: PathBuf,
    /// `None`: it wasn't there.
    stamp: Option<Stamp>,
    /// Its stamp when somebody last looked for changes.
    seen: Option<Stamp>,
    config: Arc<Config>,
}

impl Keyring {
    /// A keyring whose empty scope is made of these Docker `config.json` files, which need not exist
    /// (yet): they are read again whenever they change. Where two say something of the same place, the
    /// earlier file goes first.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = files.into_iter().map(|path| File {
            seen: Stamp::of(&path).ok().flatten(),
            path,
            stamp: None,
            config: Arc::default(),
        });
        Self {
            files: Mutex::new(files.collect()),
            scopes: Mutex::default(),
            helpers: Helpers::default(),
        }
    }

    /// Puts the values of a named scope, in the form of a Docker `config.json`, in place of those it
    /// had. Says whether they differ.
    ///
    /// # Errors
    /// The scope is the daemon's, or the values are no such config; what the scope had stays.
    pub fn set(&self, scope: &Scope, config: &[u8]) -> Result<bool, InvalidConfig> {
        if scope.is_daemon() {
            return Err(InvalidConfig::daemon_scope());
        }
        let mut config = Config::parse(config)?;
        // Whoever may fetch may not choose what the daemon runs.
        if config.drop_helpers() {
            tracing::warn!(
                scope = crate::registry::fault::quoted(&scope.0),
                "credential helpers (credsStore, credHelpers) that come by Fetch are never run"
            );
        }
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = scopes.get(scope).is_none_or(|old| **old != config);
        if differs {
            scopes.insert(scope.clone(), Arc::new(config));
        }
        Ok(differs)
    }

    /// Drops the values of a named scope.
    pub fn forget(&self, scope: &Scope) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.remove(scope);
    }

    /// Whether the values of a scope are here. The daemon's always are.
    pub fn has(&self, scope: &Scope) -> bool {
        let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scope.is_daemon() || scopes.contains_key(scope)
    }

    /// Whether a file of the daemon's own has changed since this was last asked. It looks at the files'
    /// stamps only, and reads nothing.
    pub fn files_have_changed(&self) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        for file in files.iter_mut() {
            let stamp = Stamp::of(&file.path).ok().flatten();
            changed |= stamp != file.seen;
            file.seen = stamp;
        }
        changed
    }

    /// What a scope has for a repository: what credential helpers give goes before what is written in
    /// files. `None`: the values of the scope are not here, so that nothing may be asked.
    pub(super) async fn lookup(&self, scope: &Scope, registry: &str, repository: &str) -> Option<Found> {
        let configs = self.configs(scope)?;
        let mut found = Found {
            credentials: Vec::new(),
            problems: Vec::new(),
        };
        for name in configs.iter().filter_map(|config| config.helper(registry)) {
            match self.helpers.get(name, registry).await {
                Ok(credential) => found.credentials.extend(credential),
                Err(problem) => found.problems.push(problem),
            }
        }
        for credential in config::candidates(&configs, registry, repository) {
            if !found.credentials.contains(&credential) {
                found.credentials.push(credential);
            }
        }
        Some(found)
    }

    /// A registry has refused what was found: helpers are asked again.
    pub(super) fn refused(&self, registry: &str) {
        self.helpers.refused(registry);
    }

    fn configs(&self, scope: &Scope) -> Option<Vec<Arc<Config>>> {
        Some(if scope.is_daemon() {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.iter_mut().map(|file| Arc::clone(file.refresh())).collect()
        } else {
            let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            vec![Arc::clone(scopes.get(scope)?)]
        })
    }
}

impl File {
    /// The file's config as it is now.
    fn refresh(&mut self) -> &Arc<Config> {
        let stamp = match Stamp::of(&self.path) {
            Ok(stamp) => stamp,
            Err(error) => {
                tracing::warn!(file = %self.path.display(), %error, "cannot look at a file with credentials");
                return &self.config;
            }
        };
        if stamp == self.stamp {
            return &self.config;
        }
        // Taken before the file is read: if it changes in between, it is read once more.
        self.stamp = stamp;
        if stamp.is_none() {
            tracing::info!(file = %self.path.display(), "a file with credentials is gone");
            self.config = Arc::default();
            return &self.config;
        }
        let read = fs::read(&self.path).map_err(|error| error.to_string());
        match read.and_then(|bytes| Config::parse(&bytes).map_err(|error| error.to_string())) {
            Ok(config) => self.config = Arc::new(config),
            // A file is often seen while somebody writes it; what it held is better than nothing.
            Err(problem) => {
                tracing::warn!(
                    file = %self.path.display(),
                    problem,
                    "cannot use a file with credentials; going on with what it held before"
                );
            }
        }
        &self.config
    }
}

#[cfg(test)]
mod tests;
