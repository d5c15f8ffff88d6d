//! What the keyring has for a repository, looked up once somebody wants credentials.

use tokio::sync::OnceCell;

use crate::{
    domain::Reason,
    error::Fault,
    registry::{
        Repository,
        keyring::{Credential, Found, Keyring},
        site,
    },
};

/// Credentials that a request may need. Files may be read and programs run to have them, which whoever
/// asks for a public image does not wait for.
#[derive(Debug)]
pub(in crate::registry) struct Lookup<'a> {
    keyring: &'a Keyring,
    repository: &'a Repository,
    found: OnceCell<Found>,
}

impl<'a> Lookup<'a> {
    /// # Errors
    /// The values of the repository's scope are not here: nothing is asked without them.
    pub(in crate::registry) fn new(keyring: &'a Keyring, repository: &'a Repository) -> Result<Self, Fault> {
        if !keyring.has(&repository.scope) {
            return Err(awaits_values(repository));
        }
        Ok(Self {
            keyring,
            repository,
            found: OnceCell::new(),
        })
    }

    /// The credentials, looked up at the first call. None: it is asked anonymously.
    ///
    /// # Errors
    /// The values of the scope went meanwhile.
    pub(super) async fn credentials(&self) -> Result<&[Credential], Fault> {
        let found = self.found.get_or_try_init(|| self.find()).await?;
        Ok(&found.credentials)
    }

    /// Whether there are any, which is looked up.
    ///
    /// # Errors
    /// As [`credentials`](Self::credentials).
    pub(in crate::registry) async fn has_credentials(&self) -> Result<bool, Fault> {
        Ok(!self.credentials().await?.is_empty())
    }

    /// What programs failed with, if they were asked.
    pub(in crate::registry) fn problems(&self) -> &[String] {
        self.found.get().map_or(&[], |found| &found.problems)
    }

    async fn find(&self) -> Result<Found, Fault> {
        let Repository {
            registry,
            path,
            scope,
            activity,
            ..
        } = self.repository;
        let _wait = activity.waiting_for(format!("credentials for {registry}/{path}"));
        let found = self.keyring.lookup(scope, registry, path).await;
        found.ok_or_else(|| awaits_values(self.repository))
    }
}

fn awaits_values(repository: &Repository) -> Fault {
    let Repository {
        registry,
        path,
        scope,
        ..
    } = repository;
    Fault::new(
        Reason::Unauthorized,
        format!("{registry}/{path}"),
        format!(
            "{} are not here; they are kept in memory only",
            site::whose(scope)
        ),
        "waits for a Fetch that brings them",
    )
}
