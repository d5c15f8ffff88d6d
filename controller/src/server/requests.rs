//! What is said and measured of each request for content.

use std::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request, State},
    http::{Method, StatusCode, Uri, Version, header},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use http_body::{Frame, SizeHint};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};

/// As catalogd's.
const SECONDS: [f64; 19] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
];

/// How requests were answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    code: u16,
}

/// Counts requests and says of each what became of it, when its response is over.
#[derive(Debug, Clone)]
pub struct Requests {
    seconds: Family<Answered, Histogram>,
}

impl Requests {
    /// Adds what is measured to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        registry.register(
            "catalogd_http_request_duration_seconds",
            "Seconds from a request for content to the end of its response, by status code",
            seconds.clone(),
        );
        Self { seconds }
    }

    /// A router whose requests are counted.
    pub(super) fn count(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), count))
    }
}

async fn count(State(requests): State<Requests>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let host = request.headers().get(header::HOST);
    let asked = Asked {
        peer: request.extensions().get().map(|ConnectInfo(peer)| *peer),
        host: host.and_then(|host| host.to_str().ok()).map(str::to_owned),
        method: request.method().clone(),
        uri: request.uri().clone(),
        version: request.version(),
    };
    let response = next.run(request).await;
    let length = response.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let record = Record {
        requests,
        began,
        code: response.status().as_u16(),
        expected: if asked.method == Method::HEAD {
            Some(0)
        } else {
            length
        },
        asked,
        sent: 0,
        ended: false,
    };
    response.map(|body| {
        Body::new(Counted {
            ended: http_body::Body::is_end_stream(&body),
            body,
            record,
        })
    })
}

/// Who asks, and what.
struct Asked {
    peer: Option<SocketAddr>,
    host: Option<String>,
    method: Method,
    uri: Uri,
    version: Version,
}

/// A request until its end.
struct Record {
    requests: Requests,
    began: Instant,
    asked: Asked,
    code: u16,
    expected: Option<u64>,
    sent: u64,
    ended: bool,
}

impl Drop for Record {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let answered = Answered { code: self.code };
        self.requests
            .seconds
            .get_or_create(&answered)
            .observe(took.as_secs_f64());
        let Asked {
            peer,
            host,
            method,
            uri,
            version,
        } = &self.asked;
        let peer = peer.map(tracing::field::display);
        // Servers stop to ask for a body's end when they have all that was promised.
        let whole = self.ended || self.expected == Some(self.sent);
        let (code, sent) = (self.code, self.sent);
        tracing::info!(peer, host, %method, %uri, ?version, code, sent, whole, ?took, "answered a request for content");
    }
}

/// A body, and what it is part of.
struct Counted {
    body: Body,
    ended: bool,
    record: Record,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.record.sent += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(error)) => {
                tracing::error!(%error, uri = %self.record.asked.uri, "content can't be read");
            }
            None => self.record.ended = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // What axum knows the length of, it announces. With 304 that would be taken for the content's length.
        match self.record.code == StatusCode::NOT_MODIFIED {
            true => SizeHint::default(),
            false => self.body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use prometheus_client::encoding::prometheus_text;

    use super::{super::fixture::ask, *};

    #[tokio::test]
    async fn each_request_is_counted_once_by_its_code() {
        let mut registry = Registry::default();
        let requests = Requests::register(&mut registry);
        let router = requests.count(Router::new().route("/here", get(async || "here")));
        for path in ["/here", "/here", "/nowhere"] {
            ask(&router, "GET", path, &[]).await;
        }
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        for line in [
            "catalogd_http_request_duration_seconds_count{code=\"200\"} 2",
            "catalogd_http_request_duration_seconds_count{code=\"404\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
        // With the one that has no end.
        let buckets = text
            .lines()
            .filter(|line| line.contains("_bucket{") && line.contains("200"));
        assert_eq!(buckets.count(), SECONDS.len() + 1);
    }
}
