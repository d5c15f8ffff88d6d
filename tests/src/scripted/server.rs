//! Accepts connections and serves them. Our own loop rather than axum's, since a scenario may want one
//! connection reset, or all of them gone at once.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

use axum::{Extension, Router};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::net::sockopt::set_socket_linger;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::{Shared, handler::handle};

/// A handle by which a handler resets its own connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection(Arc<Notify>);

impl Connection {
    /// Resets the connection (TCP RST).
    pub(crate) fn reset(&self) {
        self.0.notify_one();
    }
}

/// Serves until it is aborted; all connections end with it.
pub(crate) async fn serve(listener: TcpListener, tls: Option<Arc<ServerConfig>>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, tls.clone(), shared.clone()));
                }
                // A client that gave up before it was accepted; it does not concern the others.
                Err(error) => eprintln!("scripted registry: accept: {error}"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, tls: Option<Arc<ServerConfig>>, shared: Arc<Shared>) {
    // Throttled bodies come in small pieces that are to leave at once. Neither call fails on a live
    // socket; on one that is gone, serving it ends at once.
    let (Ok(()), Ok(socket)) = (stream.set_nodelay(true), stream.as_fd().try_clone_to_owned()) else {
        return;
    };
    let connection = Connection::default();
    let app = Router::new()
        .fallback(handle)
        .layer(Extension(connection.clone()))
        .with_state(shared);
    let served = async {
        match tls {
            None => speak_http(stream, app).await,
            // A client that does not trust us ends the handshake; the scenario sees it from its side.
            Some(config) => {
                if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                    speak_http(stream, app).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = connection.0.notified() => reset_on_close(&socket),
    }
}

/// Whoever closes such a socket resets the connection. Everything else that holds it is dropped first,
/// so the caller's handle closes it.
fn reset_on_close(socket: &OwnedFd) {
    set_socket_linger(socket, Some(Duration::ZERO)).expect("a TCP socket lingers");
}

async fn speak_http(stream: impl AsyncRead + AsyncWrite + Unpin, app: Router) {
    // It ends with an error whenever a client goes away or a rule cuts a body: both are the point.
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .await
        .ok();
}
