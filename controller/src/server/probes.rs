//! What a kubelet asks.

use axum::{Router, http::StatusCode, routing::get};

/// `/healthz`, which answers as long as anything does, and `/readyz`, which says why not.
pub fn probes(ready: impl Fn() -> Result<(), String> + Clone + Send + Sync + 'static) -> Router {
    let readyz = async move || match ready() {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(readyz))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::{super::fixture::ask, *};

    #[tokio::test]
    async fn health_is_not_readiness() {
        let is_ready = Arc::new(AtomicBool::new(false));
        let router = probes({
            let is_ready = Arc::clone(&is_ready);
            move || match is_ready.load(Ordering::Relaxed) {
                true => Ok(()),
                false => Err("the puller is not reached".to_owned()),
            }
        });
        for (path, status, body) in [
            ("/healthz", 200, "ok"),
            ("/readyz", 503, "the puller is not reached"),
            ("/", 404, ""),
        ] {
            let answer = ask(&router, "GET", path, &[]).await;
            assert_eq!((answer.status, answer.text()), (status, body), "{path}");
        }
        is_ready.store(true, Ordering::Relaxed);
        assert_eq!(ask(&router, "GET", "/readyz", &[]).await.status, 200);
    }
}
