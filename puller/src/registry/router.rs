//! Which endpoints are asked for a repository, and in which order: the mirrors that registries.conf
//! names, then the registry itself.
//!
//! Each endpoint is asked through the one [`Transport`](super::Transport) under its own name, so that
//! it gets its own credentials and nobody else's. A mirror that fails, in whatever way, is passed over
//! within the same attempt, also in the middle of a body. What it did is told beside the fault of the
//! registry itself, whose word counts: what a mirror says (that there is no such image, that we may not
//! have it) is the reason shown only if the registry says the same. A mirror that is out of order rests
//! for a while, so that it does not slow down every request.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt as _},
};
use tokio::time::timeout;

use super::{
    BlobStream, RawManifest, Registry, Repository,
    routes::{Endpoint, Route, Routes},
};
use crate::{
    domain::{Digest, Reason},
    error::Fault,
};

mod rest;

use rest::Resting;

type Chunks = BoxStream<'static, Result<Bytes, Fault>>;

/// How long a mirror has for a document, or for the next bytes of a blob: much less than the registry
/// itself, since there is somebody else to ask.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the endpoints of a repository in turn.
pub struct Router {
    registry: Arc<dyn Registry>,
    routes: Arc<Routes>,
    resting: Arc<Resting>,
}

/// The mirror that a blob's bytes come from.
#[derive(Debug, Clone)]
pub struct Mirror {
    name: String,
    resting: Arc<Resting>,
}

impl Mirror {
    /// Somebody else is asked instead. Unless the fault tells only of one image, the mirror is left alone
    /// for a while.
    pub fn passed_over(&self, why: &Fault) {
        tracing::info!(mirror = self.name, %why, "a mirror is passed over");
        if !why.reason.is_refusal() && why.reason != Reason::NotFound {
            self.resting.begin(&self.name, why);
        }
    }
}

/// What is told of the mirrors that were passed over, in their order.
#[derive(Debug, Default)]
struct Causes(Vec<String>);

impl Causes {
    fn add(&mut self, mirror: &str, happened: &str) {
        self.0.push(format!("mirror {mirror}: {happened}"));
    }

    fn beside(self, mut fault: Fault) -> Fault {
        if !self.0.is_empty() {
            fault.happened = format!("{} (before it, {})", fault.happened, self.0.join("; "));
        }
        fault
    }
}

impl Router {
    /// A router over a transport.
    pub fn new(registry: Arc<dyn Registry>, routes: Arc<Routes>) -> Self {
        Self {
            registry,
            routes,
            resting: Arc::default(),
        }
    }

    fn endpoints(&self, repository: &Repository) -> Result<Vec<Endpoint>, Fault> {
        let Repository {
            registry,
            path,
            by_tag,
            ..
        } = repository;
        match self.routes.route(registry, path, *by_tag) {
            Route::Endpoints(endpoints) => Ok(endpoints),
            Route::Blocked { prefix } => Err(Fault::new(
                Reason::BlockedByPolicy,
                format!("{registry}/{path}"),
                format!("registries.conf blocks {prefix}"),
                "ask for another image, or have the entry changed",
            )),
        }
    }

    /// What the first endpoint says that answers, and which mirror that is.
    async fn first<'a, T>(
        &'a self,
        repository: &Repository,
        ask: impl Fn(Repository) -> BoxFuture<'a, Result<T, Fault>>,
    ) -> Result<(T, Option<Mirror>), Fault> {
        let mut causes = Causes::default();
        for endpoint in self.endpoints(repository)? {
            let at = Repository {
                registry: endpoint.registry.clone(),
                path: endpoint.repository.clone(),
                insecure: endpoint.insecure,
                ..repository.clone()
            };
            if !endpoint.mirror {
                return match ask(at).await {
                    Ok(answer) => Ok((answer, None)),
                    Err(fault) => Err(causes.beside(fault)),
                };
            }
            let mirror = Mirror {
                name: endpoint.registry,
                resting: Arc::clone(&self.resting),
            };
            if let Some(why) = self.resting.why(&mirror.name) {
                causes.add(&mirror.name, &format!("left alone for a while, since {why}"));
                continue;
            }
            match patiently(&mirror.name, ask(at)).await {
                Ok(answer) => return Ok((answer, Some(mirror))),
                Err(fault) => {
                    causes.add(&mirror.name, &fault.happened);
                    mirror.passed_over(&fault);
                }
            }
        }
        unreachable!("the last endpoint is the registry itself, which is never passed over")
    }

    /// The same, whoever it is.
    async fn any<'a, T>(
        &'a self,
        repository: &Repository,
        ask: impl Fn(Repository) -> BoxFuture<'a, Result<T, Fault>>,
    ) -> Result<T, Fault> {
        Ok(self.first(repository, ask).await?.0)
    }
}

/// Waits for a mirror, but not for long.
async fn patiently<T>(name: &str, answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout(PATIENCE, answer).await.unwrap_or_else(|_| {
        Err(Fault::new(
            Reason::Timeout,
            format!("mirror {name}"),
            format!("nothing came within {} s", PATIENCE.as_secs()),
            "",
        ))
    })
}

/// A mirror's bytes; they fail where they stand still for longer than a mirror may.
fn patient_chunks(name: String, chunks: Chunks) -> Chunks {
    stream::unfold(Some((name, chunks)), |source| async {
        let (name, mut chunks) = source?;
        let next = async { chunks.next().await.transpose() };
        match patiently(&name, next).await.transpose()? {
            Ok(chunk) => Some((Ok(chunk), Some((name, chunks)))),
            Err(fault) => Some((Err(fault), None)),
        }
    })
    .boxed()
}

#[async_trait]
impl Registry for Router {
    async fn resolve(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault> {
        self.any(repository, |at| {
            Box::pin(async move { self.registry.resolve(&at, tag).await })
        })
        .await
    }

    async fn reread(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault> {
        self.any(repository, |at| {
            Box::pin(async move { self.registry.reread(&at, tag).await })
        })
        .await
    }

    async fn manifest(&self, repository: &Repository, digest: &Digest) -> Result<RawManifest, Fault> {
        self.any(repository, |at| {
            Box::pin(async move { self.registry.manifest(&at, digest).await })
        })
        .await
    }

    async fn small_blob(&self, repository: &Repository, digest: &Digest, size: u64) -> Result<Bytes, Fault> {
        self.any(repository, |at| {
            Box::pin(async move { self.registry.small_blob(&at, digest, size).await })
        })
        .await
    }

    async fn blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        offset: u64,
    ) -> Result<BlobStream, Fault> {
        let ask = self.first(repository, |at| {
            Box::pin(async move { self.registry.blob(&at, digest, size, offset).await })
        });
        let (stream, mirror) = ask.await?;
        let Some(mirror) = mirror else {
            return Ok(stream);
        };
        let chunks = patient_chunks(mirror.name.clone(), stream.chunks);
        Ok(BlobStream {
            start: stream.start,
            mirror: Some(mirror),
            looks: stream.looks,
            chunks,
        })
    }

    async fn has_blob(&self, repository: &Repository, digest: &Digest) -> Result<(), Fault> {
        self.any(repository, |at| {
            Box::pin(async move { self.registry.has_blob(&at, digest).await })
        })
        .await
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}
