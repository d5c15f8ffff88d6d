//! The transport against scripted servers on loopback.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, future::BoxFuture};
use http::{HeaderMap, StatusCode, header};
use tokio::{net::TcpListener, task::JoinHandle};

use super::*;
use crate::domain::Reason;

mod authorisation;
mod blobs;
mod connections;
mod documents;
mod guests;
mod places;
mod tls;
mod unsaid;
mod waits;

/// Long enough for a busy machine, so that only a wait that hangs ends by it.
const IDLE: Duration = Duration::from_secs(20);

/// A server that answers what it is told to and remembers what it was asked.
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

/// A request as a server saw it.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    path: String,
    query: String,
    headers: HeaderMap,
    body: String,
}

impl Seen {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    }

    fn authorization(&self) -> &str {
        self.header(header::AUTHORIZATION)
    }

    fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl Server {
    /// A server that answers at once.
    async fn answering(answer: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), move |seen| {
            let answer = answer(&seen);
            Box::pin(async move { answer })
        })
    }

    fn on(
        listener: TcpListener,
        answer: impl Fn(Seen) -> BoxFuture<'static, Response> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (app, seen) = app(answer);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, seen, task }
    }

    fn name(&self) -> String {
        self.address.to_string()
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }

    fn repository(&self) -> Repository {
        repository(&self.name())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn app(
    answer: impl Fn(Seen) -> BoxFuture<'static, Response> + Send + Sync + 'static,
) -> (axum::Router, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let answer = Arc::new(answer);
    let app = axum::Router::new().fallback(move |request: Request| {
        let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let seen = Seen {
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                headers: parts.headers,
                body: String::from_utf8(body.to_vec()).unwrap(),
            };
            log.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(seen.clone());
            answer(seen).await
        }
    });
    (app, seen)
}

fn repository(registry: &str) -> Repository {
    Repository {
        registry: registry.to_owned(),
        path: "team/app".to_owned(),
        insecure: false,
        scope: Scope::default(),
        by_tag: true,
        activity: Arc::default(),
    }
}

fn settings() -> Settings {
    Settings {
        idle_timeout: IDLE,
        ..Settings::default()
    }
}

fn transport() -> Transport {
    Transport::new(&settings(), Arc::new(Keyring::new([]))).unwrap()
}

/// A transport whose scope `team` has this login for a registry.
fn transport_with(registry: &str, username: &str, password: &str) -> Transport {
    let config = serde_json::json!({"auths": {registry: {"username": username, "password": password}}});
    let keyring = Keyring::new([]);
    keyring.set(&team(), config.to_string().as_bytes()).unwrap();
    Transport::new(&settings(), Arc::new(keyring)).unwrap()
}

fn team() -> Scope {
    Scope("team".into())
}

fn as_team(repository: Repository) -> Repository {
    Repository {
        scope: team(),
        ..repository
    }
}

fn with_headers(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        let name: header::HeaderName = name.parse().unwrap();
        answer.headers_mut().append(name, value.parse().unwrap());
    }
    answer
}

fn status(status: u16) -> Response {
    StatusCode::from_u16(status).unwrap().into_response()
}

async fn read(stream: BlobStream) -> Result<Vec<u8>, Fault> {
    let mut all = Vec::new();
    let mut chunks = stream.chunks;
    while let Some(chunk) = chunks.next().await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all)
}
