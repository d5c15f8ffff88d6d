//! The only place that speaks to registries.
//!
//! [`Transport`] is the one implementation of [`Registry`]. A request passes, from the outside in:
//!
//! | file | what it adds |
//! |---|---|
//! | `router`, `routes` | mirrors, and what registries.conf says of them |
//! | `transport` | what is asked, fallbacks, caps, verification of documents |
//! | `exchange` | one question until it has its answer: the order of what follows |
//! | `pause` | pauses that the registry asked for |
//! | `site`, `scheme` | where the registry is, and whether it speaks TLS |
//! | `auth`, `token`, `keyring` | credentials: which, when, and what is made of them |
//! | `wire`, `clients`, `certs`, `redirect`, `address`, `proxy` | redirects, the rules for addresses, timeouts, the HTTP clients |
//!
//! `challenge`, `retry_after` and `range` parse headers, `fault` makes faults of answers, `looks`
//! shows what they hold, and [`manifest`] makes sense of the documents that came.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;

use crate::{
    domain::{Activity, Digest, Scope},
    error::Fault,
};

mod address;
mod auth;
mod certs;
pub(crate) mod challenge;
mod clients;
pub(crate) mod coding;
mod exchange;
pub(crate) mod fault;
mod guests;
pub(crate) mod keyring;
mod looks;
pub mod manifest;
mod pause;
mod proxy;
pub(crate) mod range;
pub(crate) mod redirect;
pub(crate) mod retry_after;
mod router;
pub(crate) mod routes;
mod scheme;
mod settings;
mod site;
mod stamp;
pub(crate) mod token;
mod transport;
mod wire;

pub(crate) use fault::quoted;
pub use keyring::{CredentialProviders, InvalidConfig, InvalidProviders, Keyring};
pub use looks::Looks;
pub use router::{Mirror, Router};
pub use routes::{Endpoint, InvalidRoutes, Route, Routes};
pub use settings::{AllowPrivate, Settings};
pub use transport::Transport;

/// A repository as one attempt may use it: where it is, whose credentials are used, and where to say
/// what is waited for.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The registry, as in [`Reference::registry`](crate::domain::Reference::registry).
    pub registry: String,
    /// The repository's path.
    pub path: String,
    /// Whether the registry may have any certificate, or speak plain HTTP: an administrator says so of
    /// an endpoint (`insecure = true` in registries.conf). TLS is tried first all the same.
    pub insecure: bool,
    /// Whose credentials.
    pub scope: Scope,
    /// Whether the image was asked for by its tag alone: mirrors can be for such pulls only, or for
    /// others only.
    pub by_tag: bool,
    /// Waits are told here.
    pub activity: Arc<Activity>,
}

/// A manifest or index: its bytes are those of the digest that was asked for.
#[derive(Debug, Clone)]
pub struct RawManifest {
    /// The body.
    pub bytes: Bytes,
    /// What `Content-Type` said: a hint only.
    pub content_type: String,
}

/// A blob's bytes as they arrive. They are not verified.
pub struct BlobStream {
    /// The offset of the first byte: what was asked for, or 0 if the registry sends the whole.
    pub start: u64,
    /// The mirror that sends them; `None`: the registry itself.
    pub mirror: Option<Mirror>,
    /// What the answer says that it is.
    pub looks: Looks,
    /// The bytes. An item fails when the connection breaks or when nothing moved for too long.
    pub chunks: BoxStream<'static, Result<Bytes, Fault>>,
}

/// What the puller needs of a registry. Every fault says whether and when trying again makes sense.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// The digest that a tag stands for now (of an index or of a manifest). One HEAD where the
    /// registry answers it usefully, else a GET.
    async fn resolve(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault>;

    /// The same by GET alone, whose body has a digest of its own: for a digest by
    /// [`resolve`](Self::resolve) that the registry does not have.
    async fn reread(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault>;

    /// A manifest or index, verified against its digest. At most 8 MiB.
    async fn manifest(&self, repository: &Repository, digest: &Digest) -> Result<RawManifest, Fault>;

    /// A small blob (a config), read whole and verified. `size` is the descriptor's; at most 8 MiB.
    async fn small_blob(&self, repository: &Repository, digest: &Digest, size: u64) -> Result<Bytes, Fault>;

    /// A blob of `size` bytes from `offset` on; no `Range` header is sent for 0. An answer that says
    /// that the blob is of another size is not taken.
    async fn blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        offset: u64,
    ) -> Result<BlobStream, Fault>;

    /// Asks with this repository's credentials whether the blob is there (HEAD), before one that was
    /// fetched under another registry, repository or scope is used for it.
    async fn has_blob(&self, repository: &Repository, digest: &Digest) -> Result<(), Fault>;
}

impl std::fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobStream")
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
