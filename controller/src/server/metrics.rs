//! Metrics, for those whom the API server lets read them.

mod reviews;

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use self::reviews::{Reviews, Verdict};

/// Where they are, for clients and in rules of RBAC.
const PATH: &str = "/metrics";
/// The text format of Prometheus.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// `/metrics`, for clients with a bearer token whose user may get that path.
pub fn metrics(client: kube::Client, render: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let reviews = Arc::new(Reviews::new(client));
    let answer = async move |headers: HeaderMap| match verdict(&reviews, &headers).await {
        Ok(Verdict::Allowed) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], render()).into_response(),
        Ok(Verdict::Unknown) => unauthorized(),
        Ok(Verdict::Denied) => {
            let told = "the token's user may not get the nonResourceURL /metrics\n";
            (StatusCode::FORBIDDEN, told).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "the API server can't be asked who may read metrics");
            let told = "the API server can't be asked who may read metrics\n";
            (StatusCode::SERVICE_UNAVAILABLE, told).into_response()
        }
    };
    Router::new().route(PATH, get(answer))
}

async fn verdict(reviews: &Reviews, headers: &HeaderMap) -> Result<Verdict, reviews::Error> {
    match token(headers) {
        Some(token) => reviews.of(token).await,
        None => Ok(Verdict::Unknown),
    }
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unauthorized() -> Response {
    let told = "a bearer token is needed that the API server knows\n";
    (
        StatusCode::UNAUTHORIZED,
        [(header::WWW_AUTHENTICATE, "Bearer")],
        told,
    )
        .into_response()
}

#[cfg(test)]
mod tests;
