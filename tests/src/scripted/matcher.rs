//! Which requests a rule or a count is about.

use std::fmt;

use axum::http::{
    Method,
    header::{AUTHORIZATION, RANGE},
};

use super::Request;

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `/v2/`
    Ping,
    /// `/token`
    Token,
    /// `/v2/REPOSITORY/manifests/REFERENCE`, a tag or a digest.
    Manifest {
        /// The repository.
        repository: String,
        /// The tag or digest.
        reference: String,
    },
    /// `/v2/REPOSITORY/blobs/DIGEST`
    Blob {
        /// The repository.
        repository: String,
        /// The digest.
        digest: String,
    },
    /// Anything else.
    Other,
}

impl Target {
    pub(crate) fn of_path(path: &str) -> Self {
        match path {
            "/v2/" | "/v2" => return Self::Ping,
            "/token" => return Self::Token,
            _ => {}
        }
        let Some(rest) = path.strip_prefix("/v2/") else {
            return Self::Other;
        };
        if let Some((repository, reference)) = rest.rsplit_once("/manifests/") {
            Self::Manifest {
                repository: repository.to_owned(),
                reference: reference.to_owned(),
            }
        } else if let Some((repository, digest)) = rest.rsplit_once("/blobs/") {
            Self::Blob {
                repository: repository.to_owned(),
                digest: digest.to_owned(),
            }
        } else {
            Self::Other
        }
    }

    /// The repository, if it is about one.
    pub fn repository(&self) -> Option<&str> {
        match self {
            Self::Manifest { repository, .. } | Self::Blob { repository, .. } => Some(repository),
            Self::Ping | Self::Token | Self::Other => None,
        }
    }
}

#[derive(Debug, Clone)]
enum Wanted {
    Anything,
    Ping,
    Token,
    Manifest(Option<String>),
    Blob(Option<String>),
    Path(String),
}

/// A condition on requests. Made by [`Get`], [`Head`] and [`Any`].
#[derive(Debug, Clone)]
pub struct Matcher {
    method: Option<Method>,
    wanted: Wanted,
    repository: Option<String>,
    ranged: Option<bool>,
    authorization: Option<String>,
}

impl Matcher {
    fn new(method: Option<Method>, wanted: Wanted) -> Self {
        Self {
            method,
            wanted,
            repository: None,
            ranged: None,
            authorization: None,
        }
    }

    /// Only in this repository.
    #[must_use]
    pub fn of(mut self, repository: &str) -> Self {
        self.repository = Some(repository.to_owned());
        self
    }

    /// Only with a `Range` header.
    #[must_use]
    pub fn ranged(mut self) -> Self {
        self.ranged = Some(true);
        self
    }

    /// Only without a `Range` header.
    #[must_use]
    pub fn from_the_start(mut self) -> Self {
        self.ranged = Some(false);
        self
    }

    /// Only with this `Authorization`.
    #[must_use]
    pub fn with_authorization(mut self, value: &str) -> Self {
        self.authorization = Some(value.to_owned());
        self
    }

    /// Whether the request fulfils it.
    pub fn matches(&self, request: &Request) -> bool {
        let is_wanted = match (&self.wanted, &request.target) {
            (Wanted::Anything, _) | (Wanted::Ping, Target::Ping) | (Wanted::Token, Target::Token) => true,
            (Wanted::Manifest(wanted), Target::Manifest { reference: found, .. })
            | (Wanted::Blob(wanted), Target::Blob { digest: found, .. }) => {
                wanted.as_ref().is_none_or(|wanted| wanted == found)
            }
            (Wanted::Path(wanted), _) => *wanted == request.path,
            _ => false,
        };
        is_wanted
            && self
                .method
                .as_ref()
                .is_none_or(|method| *method == request.method)
            && self
                .repository
                .as_deref()
                .is_none_or(|wanted| request.target.repository() == Some(wanted))
            && self
                .ranged
                .is_none_or(|wanted| request.headers.contains_key(RANGE) == wanted)
            && self.authorization.as_ref().is_none_or(|wanted| {
                let sent = request.headers.get(AUTHORIZATION);
                sent.is_some_and(|sent| sent.as_bytes() == wanted.as_bytes())
            })
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.method.as_ref().map_or("any", Method::as_str);
        match &self.wanted {
            Wanted::Anything => write!(f, "{method} request")?,
            Wanted::Ping => write!(f, "{method} /v2/")?,
            Wanted::Token => write!(f, "{method} /token")?,
            Wanted::Manifest(which) => write!(
                f,
                "{method} manifest {}",
                which.as_deref().unwrap_or("of any name")
            )?,
            Wanted::Blob(which) => {
                write!(f, "{method} blob {}", which.as_deref().unwrap_or("of any digest"))?;
            }
            Wanted::Path(path) => write!(f, "{method} {path}")?,
        }
        if let Some(repository) = &self.repository {
            write!(f, " of {repository}")?;
        }
        match self.ranged {
            Some(true) => write!(f, " with a range"),
            Some(false) => write!(f, " from the start"),
            None => Ok(()),
        }
    }
}

/// Makes matchers for one method.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident => $method:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl $name {
            /// For whatever is asked.
            pub fn anything() -> Matcher {
                Matcher::new($method, Wanted::Anything)
            }

            /// For `/v2/`.
            pub fn ping() -> Matcher {
                Matcher::new($method, Wanted::Ping)
            }

            /// For a token.
            pub fn token() -> Matcher {
                Matcher::new($method, Wanted::Token)
            }

            /// For the manifest under this very tag or digest.
            pub fn manifest(reference: impl AsRef<str>) -> Matcher {
                Matcher::new($method, Wanted::Manifest(Some(reference.as_ref().to_owned())))
            }

            /// For any manifest.
            pub fn manifests() -> Matcher {
                Matcher::new($method, Wanted::Manifest(None))
            }

            /// For one blob.
            pub fn blob(digest: impl AsRef<str>) -> Matcher {
                Matcher::new($method, Wanted::Blob(Some(digest.as_ref().to_owned())))
            }

            /// For any blob.
            pub fn blobs() -> Matcher {
                Matcher::new($method, Wanted::Blob(None))
            }

            /// For a path, whatever it is about.
            pub fn path(path: impl AsRef<str>) -> Matcher {
                Matcher::new($method, Wanted::Path(path.as_ref().to_owned()))
            }
        }
    )+};
}

methods! {
    /// GET requests.
    Get => Some(Method::GET);
    /// HEAD requests.
    Head => Some(Method::HEAD);
    /// Requests of any method.
    Any => None;
}
