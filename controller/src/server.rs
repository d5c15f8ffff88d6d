//! The servers: content and metrics by HTTPS, probes by HTTP.

mod catalogs;
mod metrics;
mod probes;
mod requests;
mod socket;

use std::{future::Future, io, net::SocketAddr, pin::pin, time::Duration};

use axum::Router;
use axum_server::{Handle, Server, tls_rustls::RustlsAcceptor};

use self::socket::Tcp;
pub use self::{
    catalogs::{Catalogs, Look, catalogs},
    metrics::metrics,
    probes::probes,
    requests::Requests,
};
use crate::tls::ServerTls;

/// For how long clients are waited for. A response may take as long as it takes.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For a handshake, and for a request's headers; by HTTP/1.1 this is also how long a connection may idle.
    headers: Duration,
    /// For responses under way when the server stops.
    drain: Duration,
}

const PATIENCE: Patience = Patience {
    headers: Duration::from_secs(15),
    drain: Duration::from_secs(8),
};

/// Serves by HTTPS until `stop`, and then until what clients are being sent is sent, or for 8 s.
///
/// # Errors
/// The listener can't be used.
pub async fn https(
    listener: std::net::TcpListener,
    router: Router,
    tls: &ServerTls,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    https_with(listener, router, tls, stop, PATIENCE).await
}

/// Serves by HTTP until `stop`, and then until what clients are being sent is sent, or for 8 s.
///
/// # Errors
/// The listener can't be used.
pub async fn http(
    listener: std::net::TcpListener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    http_with(listener, router, stop, PATIENCE).await
}

async fn https_with(
    listener: std::net::TcpListener,
    router: Router,
    tls: &ServerTls,
    stop: impl Future<Output = ()>,
    patience: Patience,
) -> io::Result<()> {
    let acceptor = RustlsAcceptor::new(tls.config())
        .handshake_timeout(patience.headers)
        .acceptor(Tcp);
    let handle = Handle::new();
    let server = server(listener, acceptor, &handle, patience)?;
    let serving = server.serve(router.into_make_service_with_connect_info::<SocketAddr>());
    until(stop, serving, &handle, patience).await
}

async fn http_with(
    listener: std::net::TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    patience: Patience,
) -> io::Result<()> {
    let handle = Handle::new();
    let server = server(listener, Tcp, &handle, patience)?;
    let serving = server.serve(router.into_make_service_with_connect_info::<SocketAddr>());
    until(stop, serving, &handle, patience).await
}

fn server<A>(
    listener: std::net::TcpListener,
    acceptor: A,
    handle: &Handle<SocketAddr>,
    patience: Patience,
) -> io::Result<Server<SocketAddr, A>> {
    let mut server = axum_server::from_tcp(listener)?
        .acceptor(acceptor)
        .handle(handle.clone())
        .first_request_timeout(patience.headers)
        // A port scan is no news, and neither is a client that does not trust the certificate.
        .accept_error_handler(|peer, error| tracing::debug!(?peer, %error, "a connection failed"));
    server
        .http_builder()
        .http1()
        .header_read_timeout(patience.headers);
    Ok(server)
}

async fn until(
    stop: impl Future<Output = ()>,
    serving: impl Future<Output = io::Result<()>>,
    handle: &Handle<SocketAddr>,
    patience: Patience,
) -> io::Result<()> {
    let mut serving = pin!(serving);
    tokio::select! {
        served = &mut serving => return served,
        () = stop => handle.graceful_shutdown(Some(patience.drain)),
    }
    serving.await
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
