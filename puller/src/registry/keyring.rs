//! Whose credentials are used for what.
//!
//! Credentials live in scopes that never mix: the daemon's own, read from its files, and those that
//! came by `Fetch`, kept in memory under the name they came with. Nothing of a scope is ever used for
//! another, and a scope whose values are gone (after a restart) is not tried without them.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::join_all;

use crate::domain::Scope;

mod answers;
pub(crate) mod config;
mod files;
mod glob;
mod helper;
mod key;
mod process;
pub(crate) mod provider;

pub(super) use config::Credential;
pub use config::InvalidConfig;
pub use files::CredentialProviders;
pub use provider::InvalidProviders;

use answers::{Answers, Asked, Given};
use config::Config;
use files::Files;
use helper::Helpers;

/// The credentials of all scopes.
#[derive(Debug)]
pub struct Keyring {
    files: Files,
    scopes: Mutex<HashMap<Scope, Arc<Config>>>,
    helpers: Helpers,
    answers: Answers,
}

/// What was found for a repository.
#[derive(Debug)]
pub(super) struct Found {
    /// The credentials, the most specific first; none: it is asked anonymously.
    pub(super) credentials: Vec<Credential>,
    /// What programs failed with, for people.
    pub(super) problems: Vec<String>,
}

impl Keyring {
    /// A keyring whose empty scope is made of these Docker `config.json` files, which need not exist
    /// (yet): they are read again whenever they change. Where two say something of the same place, the
    /// earlier file goes first.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::with_providers(files, None)
    }

    /// The same with credential providers.
    pub fn with_providers(
        files: impl IntoIterator<Item = PathBuf>,
        providers: Option<CredentialProviders>,
    ) -> Self {
        Self {
            files: Files::new(files, providers),
            scopes: Mutex::default(),
            helpers: Helpers::default(),
            answers: Answers::default(),
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
        // What of it is ignored are helpers, which are never run from here anyway.
        let (mut config, _) = Config::parse(config)?;
        // Whoever may fetch may not choose what the daemon runs.
        if config.drop_helpers() {
            tracing::warn!(
                scope = crate::registry::fault::quoted(&scope.0),
                "credential helpers (credsStore, credHelpers) that come by Fetch are never run"
            );
        }
        let mut scopes = self.scopes();
        let differs = scopes.get(scope).is_none_or(|old| **old != config);
        if differs {
            scopes.insert(scope.clone(), Arc::new(config));
        }
        Ok(differs)
    }

    /// Drops the values of a named scope.
    pub fn forget(&self, scope: &Scope) {
        self.scopes().remove(scope);
    }

    /// Whether the values of a scope are here. The daemon's always are.
    pub fn has(&self, scope: &Scope) -> bool {
        scope.is_daemon() || self.scopes().contains_key(scope)
    }

    /// Whether a file of the daemon's own has changed since this was last asked. It looks at the files'
    /// stamps only, and reads nothing; it may block.
    pub fn files_have_changed(&self) -> bool {
        self.files.have_changed()
    }

    /// What a scope has for a repository: what credential helpers give goes before what files and
    /// credential providers have. Programs are run for it, so it is asked for only once somebody wants
    /// credentials. `None`: the values of the scope are not here, so that nothing may be asked.
    pub(super) async fn lookup(&self, scope: &Scope, registry: &str, repository: &str) -> Option<Found> {
        if !scope.is_daemon() {
            let config = Arc::clone(self.scopes().get(scope)?);
            return Some(Found {
                credentials: config::candidates(&[config], registry, repository),
                problems: Vec::new(),
            });
        }
        let own = self.files.read().await;
        let asked = Asked {
            registry,
            repository,
            version: own.version,
        };
        let helpers = own.configs.iter().filter_map(|config| config.helper(registry));
        let helpers = helpers.map(async |name| {
            let program = &format!("credential helper {name}");
            let ask = || self.helpers.ask(name, registry);
            self.answers.get(program, asked, ask).await
        });
        let providers = own
            .providers
            .matching(registry, repository)
            .map(async |provider| {
                let program = &format!("credential provider {}", provider.name);
                let ask = || own.providers.ask(provider, registry, repository);
                self.answers.get(program, asked, ask).await
            });
        let (by_helpers, by_providers) = tokio::join!(join_all(helpers), join_all(providers));

        let mut problems = Vec::new();
        let mut good = |answers: Vec<Given>| -> Vec<_> {
            let good = |given: Given| given.map_err(|problem| problems.push(problem)).ok();
            answers.into_iter().filter_map(good).collect()
        };
        let mut credentials = config::candidates(&good(by_helpers), registry, repository);
        let rest = [own.configs.clone(), good(by_providers)].concat();
        for credential in config::candidates(&rest, registry, repository) {
            if !credentials.contains(&credential) {
                credentials.push(credential);
            }
        }
        Some(Found {
            credentials,
            problems,
        })
    }

    /// A registry has refused what was found for a repository: programs are asked again.
    pub(super) fn refused(&self, registry: &str, repository: &str) {
        self.answers.refused(registry, repository);
    }

    fn scopes(&self) -> MutexGuard<'_, HashMap<Scope, Arc<Config>>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
