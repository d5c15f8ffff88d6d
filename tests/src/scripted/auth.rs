//! Credentials, as registries ask for them.

use std::{collections::BTreeMap, time::Duration};

use axum::http::{HeaderMap, header::AUTHORIZATION};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::time::Instant;

/// How long a token holds unless the scenario says otherwise: the distribution-spec's default.
const TOKEN_LIFETIME: Duration = Duration::from_secs(60);

/// What a registry wants to see.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// Nothing.
    #[default]
    Anonymous,
    /// User and password with each request.
    Basic {
        /// The value of the right `Authorization` header.
        header: String,
    },
    /// A token of its own token endpoint.
    Bearer {
        /// The value of the `Authorization` header that the token endpoint wants; none: nothing.
        header: Option<String>,
        /// How long a token holds.
        lifetime: Duration,
    },
}

impl Auth {
    /// User and password with each request.
    pub fn basic(user: &str, password: &str) -> Self {
        Self::Basic {
            header: basic_header(user, password),
        }
    }

    /// A token, for which the token endpoint wants user and password.
    pub fn bearer(user: &str, password: &str) -> Self {
        Self::Bearer {
            header: Some(basic_header(user, password)),
            lifetime: TOKEN_LIFETIME,
        }
    }

    /// A token that anybody gets, as public registries do it.
    pub fn anonymous_bearer() -> Self {
        Self::Bearer {
            header: None,
            lifetime: TOKEN_LIFETIME,
        }
    }

    /// Tokens hold only so long.
    #[must_use]
    pub fn token_lifetime(mut self, duration: Duration) -> Self {
        if let Self::Bearer { lifetime, .. } = &mut self {
            *lifetime = duration;
        }
        self
    }
}

fn basic_header(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// Tokens given out: the repository that each is for, and when it ends.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    given: u64,
    valid: BTreeMap<String, (String, Instant)>,
}

impl Tokens {
    /// A new token for the repositories of a scope such as `repository:a/b:pull`.
    pub(crate) fn give(&mut self, scope: &str, lifetime: Duration) -> String {
        self.given += 1;
        let token = format!("token-{}-{:016x}", self.given, rand::random::<u64>());
        self.valid
            .insert(token.clone(), (scope.to_owned(), Instant::now() + lifetime));
        token
    }

    pub(crate) fn revoke(&mut self) {
        self.valid.clear();
    }

    fn holds(&self, token: &str, repository: Option<&str>) -> bool {
        let Some((scope, end)) = self.valid.get(token) else {
            return false;
        };
        let covered = repository.is_none_or(|repository| {
            let wanted = format!("repository:{repository}:");
            scope.split(' ').any(|scope| {
                scope
                    .strip_prefix(&wanted)
                    .is_some_and(|actions| actions.contains("pull"))
            })
        });
        covered && Instant::now() < *end
    }
}

/// Whether a request for a repository (or for none) carries what is wanted.
pub(crate) fn admits(auth: &Auth, tokens: &Tokens, headers: &HeaderMap, repository: Option<&str>) -> bool {
    let sent = authorization(headers);
    match auth {
        Auth::Anonymous => true,
        Auth::Basic { header } => sent == Some(header),
        Auth::Bearer { .. } => sent
            .and_then(|sent| sent.strip_prefix("Bearer "))
            .is_some_and(|token| tokens.holds(token, repository)),
    }
}

/// What was sent as `Authorization`.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()
}
