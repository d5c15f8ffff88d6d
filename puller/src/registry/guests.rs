//! Tokens for the registries that a registry leads to.
//!
//! A registry under a name of one's own is often nothing but redirects to another one (`registry.example.com`
//! to a public registry), which wants a token even of those who have no account. Docker and containerd get one.
//! Nobody's credentials are sent for it, since whoever redirects us chose where it comes from; and it is
//! sent to the origin only that asked for it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use http::HeaderValue;
use url::Url;

use super::{
    auth::Means,
    challenge::Challenge,
    redirect,
    token::{self, Realm, Token},
};

/// Tokens that are kept; more than one is used at a time by few.
const MOST_KEPT: usize = 256;

/// A token for another origin than the registry's own.
#[derive(Debug, Clone)]
pub(super) struct Guest {
    /// Where it is sent.
    pub(super) origin: Url,
    pub(super) header: HeaderValue,
    expires: Instant,
}

/// The tokens, by the registry and the repository that led to where they are sent.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<HashMap<(String, String), Guest>>);

impl Guests {
    /// The token for where a repository's requests were led to before.
    pub(super) fn known(&self, registry: &str, repository: &str) -> Option<Guest> {
        let guest = self
            .kept()
            .get(&(registry.to_owned(), repository.to_owned()))
            .cloned()?;
        (Instant::now() < guest.expires).then_some(guest)
    }

    /// A token for `url`, which has answered 401 with these challenges; `None`: there is none for us.
    pub(super) async fn obtain(
        &self,
        means: &Means<'_>,
        url: &Url,
        challenges: &[Challenge],
    ) -> Option<Guest> {
        let challenge = challenges.iter().find(|challenge| challenge.scheme == "bearer")?;
        let given = |name| challenge.parameter(name).filter(|value| !value.is_empty());
        let mut realm = url.join(given("realm")?).ok()?;
        if realm.scheme() != "https" && !(realm.scheme() == "http" && means.site.is_plain()) {
            return None;
        }
        redirect::strip_userinfo(&mut realm).ok()?;
        let realm = Realm {
            url: realm,
            service: given("service").map(str::to_owned),
        };
        let repository = means.repository;
        // The repository may have another name there.
        let scope = given("scope").map_or_else(|| super::auth::pull_scope(repository), str::to_owned);
        let token = token::fetch(means.wire, means.site, &realm, None, &scope, &repository.activity).await;
        let Token { header, expires } = token.ok()?;
        let guest = Guest {
            origin: url.clone(),
            header,
            expires,
        };
        let mut kept = self.kept();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(
            (repository.registry.clone(), repository.path.clone()),
            guest.clone(),
        );
        Some(guest)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<(String, String), Guest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
