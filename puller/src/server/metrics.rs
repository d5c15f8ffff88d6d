//! `GET /metrics` for Prometheus.

use std::{future::Future, sync::Arc};

use axum::{Router, extract::State, http::StatusCode, http::header::CONTENT_TYPE, routing::get};
use tokio::net::TcpListener;

use crate::{daemon::Daemon, metrics};

/// Serves until `stop`, and until the scrapes of then have ended.
pub(super) async fn serve(
    listener: TcpListener,
    daemon: Arc<Daemon>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new().route("/metrics", get(scrape)).with_state(daemon);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

async fn scrape(
    State(daemon): State<Arc<Daemon>>,
) -> Result<([(http::HeaderName, &'static str); 1], String), StatusCode> {
    // It asks the volume, which may hang.
    let text = tokio::task::spawn_blocking(move || daemon.scrape()).await;
    let text = text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}
