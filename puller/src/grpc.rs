//! The only place that knows the proto: requests in, the daemon's answers out.

mod request;
pub(crate) mod respond;
mod status;

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use puller_api::v1::{self, puller_server::Puller};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use crate::{
    daemon::Daemon,
    hub::{Filter, Version, Watcher},
};

/// A watcher whose filter keeps everything from it gets a version to resume from this often: well within
/// the memory of deletions ([`HORIZON`](crate::hub::HORIZON)).
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The service `puller.v1.Puller`.
#[derive(Debug, Clone)]
pub struct Service {
    daemon: Arc<Daemon>,
    /// Whether the connections of this listener may carry credentials (decision 14).
    takes_credentials: bool,
}

impl Service {
    /// Serves a daemon. `takes_credentials`: its connections are the Unix socket or mutual TLS.
    pub fn new(daemon: Arc<Daemon>, takes_credentials: bool) -> Self {
        Self {
            daemon,
            takes_credentials,
        }
    }

    /// Answers a call that waits for nothing, and measures it.
    fn answer<T>(
        &self,
        method: &'static str,
        call: impl FnOnce() -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let began = Instant::now();
        self.measured(method, began, call())
    }

    fn measured<T>(
        &self,
        method: &'static str,
        began: Instant,
        answer: Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.daemon.metrics().called(method, code, began.elapsed());
        answer.map(Response::new)
    }
}

#[tonic::async_trait]
impl Puller for Service {
    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<v1::FetchResponse>, Status> {
        self.answer("Fetch", || {
            let fetch = request::fetch(self.daemon.routes(), request.into_inner())?;
            if fetch.credentials.is_some() && !self.takes_credentials {
                return Err(Status::unauthenticated(
                    "credentials are taken over the Unix socket or mutual TLS only; this connection is neither",
                ));
            }
            let credentials = fetch.credentials.as_ref().map(|json| json.expose().as_slice());
            let (image, version) = self
                .daemon
                .fetch(fetch.wish, fetch.claim, credentials)
                .map_err(|error| status::of_fetch(&error))?;
            Ok(v1::FetchResponse {
                image: Some(respond::image(&image, version)),
            })
        })
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        self.answer("Get", || {
            let id = request::get(self.daemon.routes(), request.into_inner())?;
            let (image, version) = self.daemon.get(&id).ok_or_else(|| status::no_such_image(&id))?;
            Ok(v1::GetResponse {
                image: Some(respond::image(&image, version)),
            })
        })
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        self.answer("List", || {
            let claimant = request.into_inner().claimant;
            let (images, version) = self.daemon.list();
            let images = images
                .iter()
                .filter(|(image, _)| claimant.is_empty() || image.claims.contains_key(&claimant))
                .map(|(image, version)| respond::image(image, *version))
                .collect();
            Ok(v1::ListResponse {
                images,
                version: version.to_string(),
            })
        })
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchEvent, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.answer("Watch", || {
            let v1::WatchRequest {
                version,
                claimant,
                ids,
            } = request.into_inner();
            let after = match version.as_str() {
                "" => None,
                version => Some(
                    version
                        .parse::<Version>()
                        .map_err(|error| status::invalid("version", &error))?,
                ),
            };
            let ids = ids
                .iter()
                .map(|id| id.parse().map_err(|error| status::invalid("ids", &error)))
                .collect::<Result<_, _>>()?;
            let watcher = self
                .daemon
                .watch(after, Filter { claimant, ids })
                .map_err(|error| status::invalid("version", &error))?;
            let events = events(watcher, self.daemon.stopped());
            Ok(Box::pin(events) as Self::WatchStream)
        })
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let began = Instant::now();
        let answer = match request::release(self.daemon.routes(), request.into_inner()) {
            Ok((id, claimant)) => {
                self.daemon.release(&id, &claimant).await;
                Ok(v1::ReleaseResponse {})
            }
            Err(status) => Err(status),
        };
        self.measured("Release", began, answer)
    }
}

/// What a watcher is told, until the puller stops.
fn events(
    watcher: Watcher,
    stopped: CancellationToken,
) -> impl Stream<Item = Result<v1::WatchEvent, Status>> + Send {
    futures_util::stream::unfold((watcher, stopped), |(mut watcher, stopped)| async move {
        loop {
            // A watcher gets a clean end when the puller stops, with all that was there to tell.
            let event = tokio::select! {
                biased;
                event = watcher.next() => Some(event),
                () = stopped.cancelled() => return None,
                () = tokio::time::sleep(BOOKMARK_INTERVAL) => watcher.bookmark(),
            };
            if let Some(event) = event {
                return Some((Ok(respond::event(event)), (watcher, stopped)));
            }
        }
    })
}
