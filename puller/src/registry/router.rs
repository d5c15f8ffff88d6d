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
    /// Leaves the mirror alone for a while, because its bytes stood still or broke off.
    pub fn rest(&self, why: &Fault) {
        tracing::info!(mirror = self.name, %why, "a mirror is passed over");
        self.resting.begin(&self.name, why);
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

    /// What the first endpoint says that answers.
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
            let name = &endpoint.registry;
            if let Some(why) = self.resting.why(name) {
                causes.add(name, &format!("left alone for a while, since {why}"));
                continue;
            }
            match patiently(name, ask(at)).await {
                Ok(answer) => {
                    let resting = Arc::clone(&self.resting);
                    let name = name.clone();
                    return Ok((answer, Some(Mirror { name, resting })));
                }
                Err(fault) => {
                    tracing::info!(mirror = name, %fault, "a mirror is passed over");
                    causes.add(name, &fault.happened);
                    if is_out_of_order(fault.reason) {
                        self.resting.begin(name, &fault);
                    }
                }
            }
        }
        unreachable!("the last endpoint is the registry itself, which is never passed over")
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

/// Whether a fault tells something of the mirror as a whole, and not only of one image on it.
fn is_out_of_order(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::NotFound | Reason::Unauthorized | Reason::Forbidden
    )
}

impl Registry for Router {
    fn resolve<'a>(
        &'a self,
        repository: &'a Repository,
        tag: &'a str,
    ) -> BoxFuture<'a, Result<Digest, Fault>> {
        Box::pin(async move {
            let ask =
                |at| -> BoxFuture<'a, _> { Box::pin(async move { self.registry.resolve(&at, tag).await }) };
            Ok(self.first(repository, ask).await?.0)
        })
    }

    fn reread<'a>(
        &'a self,
        repository: &'a Repository,
        tag: &'a str,
    ) -> BoxFuture<'a, Result<Digest, Fault>> {
        Box::pin(async move {
            let ask =
                |at| -> BoxFuture<'a, _> { Box::pin(async move { self.registry.reread(&at, tag).await }) };
            Ok(self.first(repository, ask).await?.0)
        })
    }

    fn manifest<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<RawManifest, Fault>> {
        Box::pin(async move {
            let ask = |at| -> BoxFuture<'a, _> {
                Box::pin(async move { self.registry.manifest(&at, digest).await })
            };
            Ok(self.first(repository, ask).await?.0)
        })
    }

    fn small_blob<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
        size: u64,
    ) -> BoxFuture<'a, Result<Bytes, Fault>> {
        Box::pin(async move {
            let ask = |at| -> BoxFuture<'a, _> {
                Box::pin(async move { self.registry.small_blob(&at, digest, size).await })
            };
            Ok(self.first(repository, ask).await?.0)
        })
    }

    fn blob<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
        size: u64,
        offset: u64,
    ) -> BoxFuture<'a, Result<BlobStream, Fault>> {
        Box::pin(async move {
            let ask = |at| -> BoxFuture<'a, _> {
                Box::pin(async move { self.registry.blob(&at, digest, size, offset).await })
            };
            let (stream, mirror) = self.first(repository, ask).await?;
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
        })
    }

    fn has_blob<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let ask = |at| -> BoxFuture<'a, _> {
                Box::pin(async move { self.registry.has_blob(&at, digest).await })
            };
            self.first(repository, ask).await.map(|((), _)| ())
        })
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}
