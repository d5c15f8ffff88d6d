use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::body::Body;
use http::{Request, Response};
use serde_json::{Value, json};
use tower::service_fn;

use super::{super::fixture::ask, *};

/// An API server that knows a few tokens.
#[derive(Debug, Clone, Default)]
pub(super) struct ApiServer {
    asked: Arc<AtomicUsize>,
}

impl ApiServer {
    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        kube::Client::new(service, "default")
    }

    /// How often it was asked.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Result<Response<Body>, std::io::Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path().to_owned();
        let body = request
            .into_body()
            .collect_bytes()
            .await
            .map_err(std::io::Error::other)?;
        let mut review: Value = serde_json::from_slice(&body)?;
        let spec = &review["spec"];
        review["status"] = match (&*path, spec["token"].as_str()) {
            ("/apis/authentication.k8s.io/v1/tokenreviews", Some("silence")) => pending().await,
            ("/apis/authentication.k8s.io/v1/tokenreviews", Some("broken")) => {
                return Ok(Response::builder().status(500).body(Body::empty()).unwrap());
            }
            ("/apis/authentication.k8s.io/v1/tokenreviews", Some(user @ ("good" | "other"))) => json!({
                "authenticated": true,
                "user": {"username": user, "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
            }),
            ("/apis/authentication.k8s.io/v1/tokenreviews", _) => json!({"error": "nobody's"}),
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", None) => {
                let expected = json!({
                    "user": "good", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]},
                    "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                });
                json!({"allowed": *spec == expected})
            }
            _ => panic!("{path}"),
        };
        Ok(Response::new(Body::from(review.to_string())))
    }
}

#[tokio::test]
async fn metrics_are_for_those_who_may_read_them() {
    let server = ApiServer::default();
    let router = metrics(server.client(), || "up 1\n".to_owned());
    for (authorization, status) in [
        ("Bearer good", 200),
        ("bearer  good ", 200),
        ("Bearer other", 403),
        ("Bearer made-up", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("Basic good", 401),
        ("", 401),
        ("Bearer broken", 503),
    ] {
        let answer = ask(&router, "GET", "/metrics", &[("authorization", authorization)]).await;
        assert_eq!(answer.status, status, "{authorization:?}");
        assert_eq!(answer.text() == "up 1\n", status == 200);
        assert_eq!(answer.header("www-authenticate") == "Bearer", status == 401);
        let is_metrics = answer.header("content-type") == "text/plain; version=0.0.4";
        assert_eq!(is_metrics, status == 200);
    }
    // Two of the user who may and of the one who may not, one each of those who are nobody; without a token none.
    assert_eq!(server.asked(), 6);
    assert_eq!(ask(&router, "GET", "/metrics", &[]).await.status, 401);
    assert_eq!(ask(&router, "GET", "/", &[]).await.status, 404);
}
