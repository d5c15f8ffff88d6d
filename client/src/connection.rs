//! The five calls.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;
use puller_api::v1::{self as api, puller_client::PullerClient};
use tonic::{Request, Streaming, transport::Channel};

use crate::{Endpoint, Error, TlsOptions};

/// Calls that answer at once do so in milliseconds; whoever takes longer than this is stuck.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// tonic's own bound of 4 MiB is too small for a list: the puller keeps up to 10,000 Images, each
/// with its last ten attempts and their messages.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// A connection to a puller. It is made at the first call, and again by itself after it broke; a
/// call that meets a broken connection fails with [`Error::Unreachable`]. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
    inner: PullerClient<Channel>,
}

/// Names one Image.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// By the id that `Fetch` and `List` give.
    Id(String),
    /// By the wish; an unset `credential_scope` means the puller's own credentials.
    Wish(api::Wish),
}

/// The states of all Images at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Ordered by reference, then id.
    pub images: Vec<api::Image>,
    /// A watch from here misses nothing.
    pub version: String,
}

/// The events of one `Watch` call. It ends when the puller goes away: watch again from the version
/// of the last event.
#[derive(Debug)]
pub struct Watch {
    endpoint: Endpoint,
    events: Streaming<api::WatchEvent>,
}

impl Client {
    /// A client of the puller at `unix:///path`, a bare absolute path, `http://host:port` or
    /// `https://host:port` (with the system's certificate authorities). Must be called within a
    /// tokio runtime; nothing is dialled yet.
    ///
    /// # Errors
    /// [`Error::InvalidEndpoint`].
    pub fn connect(endpoint: &str) -> Result<Self, Error> {
        Self::connect_with(endpoint, &TlsOptions::default())
    }

    /// The same, with options for `https://`.
    ///
    /// # Errors
    /// [`Error::InvalidEndpoint`], also for PEM texts that are none.
    pub fn connect_with(endpoint: &str, tls: &TlsOptions) -> Result<Self, Error> {
        let endpoint: Endpoint = endpoint.parse()?;
        let inner = PullerClient::new(endpoint.channel(tls)?).max_decoding_message_size(MAX_MESSAGE);
        Ok(Self { endpoint, inner })
    }

    /// Where this client dials.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// "I want this image": records the wish and answers at once with the current state. Idempotent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::ResourceExhausted`], [`Error::Unauthenticated`], or the
    /// puller can't be reached.
    pub async fn fetch(&self, request: api::FetchRequest) -> Result<api::Image, Error> {
        let response = self.inner.clone().fetch(timed(request)).await;
        let image = response.map_err(|status| self.error(&status))?.into_inner().image;
        image.ok_or_else(|| no_image("Fetch"))
    }

    /// The state of one Image.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidArgument`], or the puller can't be reached.
    pub async fn get(&self, key: Key) -> Result<api::Image, Error> {
        use api::get_request::By;
        let by = match key {
            Key::Id(id) => By::Id(id),
            Key::Wish(wish) => By::Wish(wish),
        };
        let response = self
            .inner
            .clone()
            .get(timed(api::GetRequest { by: Some(by) }))
            .await;
        let image = response.map_err(|status| self.error(&status))?.into_inner().image;
        image.ok_or_else(|| no_image("Get"))
    }

    /// The states of all Images that `claimant` claims; empty: of all.
    ///
    /// # Errors
    /// The puller can't be reached.
    pub async fn list(&self, claimant: &str) -> Result<Listing, Error> {
        let request = timed(api::ListRequest {
            claimant: claimant.to_owned(),
        });
        let response = self.inner.clone().list(request).await;
        let api::ListResponse { images, version } =
            response.map_err(|status| self.error(&status))?.into_inner();
        Ok(Listing { images, version })
    }

    /// The current states, a bookmark, then every change for as long as the connection lasts.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] (a version that this puller never gave out), or the puller can't
    /// be reached.
    pub async fn watch(&self, request: api::WatchRequest) -> Result<Watch, Error> {
        // No timeout: the call lasts for ever, and HTTP/2 pings find a peer that is gone.
        let response = self.inner.clone().watch(request).await;
        let events = response.map_err(|status| self.error(&status))?.into_inner();
        Ok(Watch {
            endpoint: self.endpoint.clone(),
            events,
        })
    }

    /// "`claimant` no longer needs it." Idempotent: an Image that is not there is a success.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], or the puller can't be reached.
    pub async fn release(&self, key: Key, claimant: &str) -> Result<(), Error> {
        use api::release_request::By;
        let by = match key {
            Key::Id(id) => By::Id(id),
            Key::Wish(wish) => By::Wish(wish),
        };
        let request = api::ReleaseRequest {
            by: Some(by),
            claimant: claimant.to_owned(),
        };
        let response = self.inner.clone().release(timed(request)).await;
        response.map(drop).map_err(|status| self.error(&status))
    }

    fn error(&self, status: &tonic::Status) -> Error {
        Error::from_status(&self.endpoint, status)
    }
}

impl Stream for Watch {
    type Item = Result<api::WatchEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = std::task::ready!(Pin::new(&mut self.events).poll_next(cx));
        Poll::Ready(item.map(|event| event.map_err(|status| Error::from_status(&self.endpoint, &status))))
    }
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}

fn no_image(call: &str) -> Error {
    Error::Unexpected {
        code: tonic::Code::Internal,
        message: format!("{call} answered without an image; is it another version of the puller?"),
    }
}
