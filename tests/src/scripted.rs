//! A registry that misbehaves, request by request, as it is told.
//!
//! ```no_run
//! # async fn scenario() {
//! # use puller_tests::{image::{Image, Layer}, scripted::*};
//! let registry = ScriptedRegistry::start().await;
//! let image = Image::new().layer(Layer::gzip().noise(10, 10_000));
//! let layer = image.layers()[0].digest();
//! let reference = registry.hold("team/app:v1", &image);
//!
//! registry.on(Get::blob(layer)).times(2).then(Cut::after(1000));
//! registry.on(Get::blob(layer)).then(Throttle::to(50_000));
//! // … pull it …
//! registry.wait_for(Get::manifest("v1")).await;
//! assert_eq!(registry.count(Get::blob(layer)), 3);
//! # }
//! ```
//!
//! Rules are looked at in the order in which they were made; the first that matches and is not used up
//! decides. A request that none matches is answered honestly.

mod auth;
mod behaviour;
mod blackhole;
mod body;
mod handler;
mod holdings;
mod matcher;
mod rule;
mod server;

pub use auth::Auth;
pub use behaviour::{Answer, Behaviour, Challenge, Cut, Lie, Ranges, Redirect, Stall, Throttle, Without};
pub use blackhole::Blackhole;
pub use matcher::{Any, Get, Head, Matcher, Target};
pub use rule::{Rule, RuleBuilder};

use std::{
    future::IntoFuture,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::{HeaderMap, Method};
use rustls::ServerConfig;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::Instant};

use self::{auth::Tokens, holdings::Holdings, rule::RuleState};
use crate::{certificates::Authority, image::Content, wait::within_patience};

/// One request, as it came in.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// What it is about.
    pub target: Target,
    /// The path as it was sent.
    pub path: String,
    /// The query as it was sent; empty: none.
    pub query: String,
    /// All headers.
    pub headers: HeaderMap,
    /// When its head was read.
    pub time: Instant,
    /// The answer's status. None: not answered yet, or never.
    pub status: Option<u16>,
}

impl Request {
    /// A header's value as text; empty: not sent.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// A running scripted registry. It ends, with all its connections, when this is dropped.
#[derive(Debug)]
pub struct ScriptedRegistry {
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
    tls: Option<Arc<ServerConfig>>,
}

/// What the handlers share.
#[derive(Debug)]
pub(crate) struct Shared {
    address: SocketAddr,
    scheme: &'static str,
    state: Mutex<State>,
    /// How many requests were recorded: whoever waits for one looks when this changes.
    recorded: watch::Sender<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    holdings: Holdings,
    rules: Vec<Arc<RuleState>>,
    auth: Auth,
    tokens: Tokens,
    requests: Vec<Request>,
    /// How many requests were made before the first of `requests`.
    forgotten: usize,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A scripted registry about to be started; `.await` it.
#[derive(Debug, Default)]
#[must_use = "await it"]
pub struct Starting<'a> {
    authority: Option<&'a Authority>,
    clients: Option<&'a Authority>,
    auth: Auth,
}

impl<'a> Starting<'a> {
    /// Speaks TLS, with a certificate by this authority for `localhost` and `127.0.0.1`.
    pub fn tls(mut self, authority: &'a Authority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Lets only those in who show a certificate by this authority; with [`tls`](Self::tls).
    pub fn client_authority(mut self, authority: &'a Authority) -> Self {
        self.clients = Some(authority);
        self
    }

    /// Wants credentials.
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    async fn start(self) -> anyhow::Result<ScriptedRegistry> {
        let certificate = self
            .authority
            .map(|authority| authority.server_cert(&["localhost", "127.0.0.1"]));
        let tls = certificate
            .map(|certificate| certificate.server_config(self.clients))
            .transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            scheme: if tls.is_some() { "https" } else { "http" },
            state: Mutex::new(State {
                auth: self.auth,
                ..State::default()
            }),
            recorded: watch::Sender::new(0),
        });
        let server = Some(tokio::spawn(server::serve(listener, tls.clone(), shared.clone())));
        Ok(ScriptedRegistry { shared, server, tls })
    }
}

impl<'a> IntoFuture for Starting<'a> {
    type Output = ScriptedRegistry;
    type IntoFuture = Pin<Box<dyn Future<Output = ScriptedRegistry> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.start().await.unwrap_or_else(|error| panic!("{error:#}")) })
    }
}

impl ScriptedRegistry {
    /// An empty, honest registry on a free port of loopback. `.await` it.
    pub fn start<'a>() -> Starting<'a> {
        Starting::default()
    }

    /// `127.0.0.1:port`, the registry's name in references.
    pub fn host(&self) -> String {
        self.shared.address.to_string()
    }

    /// The full reference of a name in this registry.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.shared.address)
    }

    /// The URL of a blob.
    pub fn blob_url(&self, repository: &str, digest: &str) -> String {
        format!(
            "{}://{}/v2/{repository}/blobs/{digest}",
            self.shared.scheme, self.shared.address
        )
    }

    /// Holds this content under a name, `repository:tag`, and returns the full reference. Called again
    /// with other content, the tag moves; what it stood for stays there under its digest.
    pub fn hold(&self, name: &str, content: impl Into<Content>) -> String {
        let (repository, tag) = name.split_once(':').expect("a name is repository:tag");
        let content = content.into();
        let digest = content.root().digest.clone();
        let mut state = self.shared.state();
        state.holdings.hold(repository, content);
        state.holdings.tag(repository, tag, &digest);
        self.reference(name)
    }

    /// Forgets a blob or manifest, everywhere.
    pub fn lose(&self, digest: &str) {
        self.shared.state().holdings.lose(digest);
    }

    /// Begins a rule: `on(Get::blob(&digest)).times(1).then(Cut::after(1000))`.
    pub fn on(&self, matcher: impl Into<Matcher>) -> RuleBuilder<'_> {
        RuleBuilder::new(&self.shared, matcher.into())
    }

    /// Ends all rules; stalled requests go on.
    pub fn behave(&self) {
        for rule in std::mem::take(&mut self.shared.state().rules) {
            rule.release();
        }
    }

    /// Wants other credentials from now on; tokens given out before are void.
    pub fn set_auth(&self, auth: Auth) {
        let mut state = self.shared.state();
        state.auth = auth;
        state.tokens.revoke();
    }

    /// Makes all tokens void that were given out so far.
    pub fn revoke_tokens(&self) {
        self.shared.state().tokens.revoke();
    }

    /// All requests so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The requests so far that match.
    pub fn requests_for(&self, matcher: impl Into<Matcher>) -> Vec<Request> {
        let matcher = matcher.into();
        self.shared
            .state()
            .requests
            .iter()
            .filter(|request| matcher.matches(request))
            .cloned()
            .collect()
    }

    /// How many requests so far match.
    pub fn count(&self, matcher: impl Into<Matcher>) -> usize {
        self.requests_for(matcher).len()
    }

    /// Forgets the requests so far.
    pub fn forget_requests(&self) {
        let mut state = self.shared.state();
        state.forgotten += state.requests.len();
        state.requests.clear();
    }

    /// Waits until a request that matches was made, and returns the first one.
    ///
    /// # Panics
    /// None was made for a minute.
    pub async fn wait_for(&self, matcher: impl Into<Matcher>) -> Request {
        self.wait_for_number(1, matcher).await
    }

    /// Waits until this many requests that match were made, and returns the last of them.
    ///
    /// # Panics
    /// They were not made within a minute.
    pub async fn wait_for_number(&self, number: usize, matcher: impl Into<Matcher>) -> Request {
        let matcher = matcher.into();
        let mut recorded = self.shared.recorded.subscribe();
        within_patience(&format!("request {number} of {matcher}"), async {
            loop {
                recorded.borrow_and_update();
                if let Some(request) = self.requests_for(matcher.clone()).into_iter().nth(number - 1) {
                    return request;
                }
                recorded.changed().await.expect("the registry keeps the sender");
            }
        })
        .await
    }

    /// Closes the listener and every connection; what it holds and its rules are kept.
    pub async fn switch_off(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            // It was aborted: there is no other outcome to look at.
            server.await.ok();
        }
    }

    /// Listens again, on the same port.
    ///
    /// # Panics
    /// Somebody has taken the port.
    pub async fn switch_on(&mut self) {
        if self.server.is_none() {
            let listener = TcpListener::bind(self.shared.address)
                .await
                .expect("the registry's old port");
            self.server = Some(tokio::spawn(server::serve(
                listener,
                self.tls.clone(),
                self.shared.clone(),
            )));
        }
    }
}

impl Drop for ScriptedRegistry {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

#[cfg(test)]
mod tests;
