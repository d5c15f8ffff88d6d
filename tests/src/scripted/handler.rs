//! From a request to its answer: recorded, ruled on, answered honestly or not.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    Auth, Behaviour, Request, Shared, Target,
    auth::{admits, authorization},
    body::{Pace, stream},
    rule::RuleState,
    server::Connection,
};

/// An answer before it is sent: what rules change.
#[derive(Debug)]
struct Draft {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// What a rule says of one request, and the rule that a stall waits on.
#[derive(Default)]
struct Verdict {
    behaviours: Vec<Behaviour>,
    rule: Option<Arc<RuleState>>,
}

impl Verdict {
    /// The first value that one of the behaviours gives.
    fn find<T>(&self, wanted: impl FnMut(&Behaviour) -> Option<T>) -> Option<T> {
        self.behaviours.iter().find_map(wanted)
    }
}

/// axum's handler for everything.
pub(crate) async fn handle(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<Connection>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let request = Request {
        method,
        target: Target::of_path(uri.path()),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers,
        time: Instant::now(),
        status: None,
    };
    let (number, verdict) = record(&shared, &request);
    if let Some(delay) = verdict.find(|behaviour| match behaviour {
        Behaviour::Delay(delay) => Some(*delay),
        _ => None,
    }) {
        sleep(delay).await;
    }
    if let Some(rule) = &verdict.rule {
        if verdict
            .behaviours
            .iter()
            .any(|behaviour| matches!(behaviour, Behaviour::Stall))
        {
            rule.released().await;
        }
        if verdict
            .behaviours
            .iter()
            .any(|behaviour| matches!(behaviour, Behaviour::Reset))
        {
            connection.reset();
            return std::future::pending().await;
        }
    }
    let mut draft = honest(&shared, &request, &verdict);
    for behaviour in &verdict.behaviours {
        draft.apply(behaviour);
    }
    shared.state().note_status(number, draft.status);
    send(draft, &request, verdict)
}

/// Notes the request down and asks the rules; its number in the records.
fn record(shared: &Shared, request: &Request) -> (usize, Verdict) {
    let mut state = shared.state();
    let number = state.forgotten + state.requests.len();
    state.requests.push(request.clone());
    let verdict = state
        .rules
        .iter()
        .find_map(|rule| {
            rule.take(request).map(|behaviours| Verdict {
                behaviours,
                rule: Some(rule.clone()),
            })
        })
        .unwrap_or_default();
    shared.recorded.send_modify(|recorded| *recorded += 1);
    (number, verdict)
}

impl super::State {
    /// Notes the status down beside the request, unless that was forgotten meanwhile.
    fn note_status(&mut self, number: usize, status: StatusCode) {
        let place = number.checked_sub(self.forgotten);
        if let Some(request) = place.and_then(|place| self.requests.get_mut(place)) {
            request.status = Some(status.as_u16());
        }
    }
}

/// What an honest registry answers.
fn honest(shared: &Shared, request: &Request, verdict: &Verdict) -> Draft {
    let mut state = shared.state();
    if request.target == Target::Token {
        return token(&mut state, request);
    }
    if !admits(
        &state.auth,
        &state.tokens,
        &request.headers,
        request.target.repository(),
    ) {
        return challenge(shared, &state.auth, request);
    }
    if request.target == Target::Ping {
        return Draft::json(StatusCode::OK, &json!({}));
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        return Draft::error(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED");
    }
    match state.holdings.find(&request.target) {
        Err(code) => Draft::error(StatusCode::NOT_FOUND, code),
        Ok(found) => {
            let content_type = match request.target {
                Target::Blob { .. } => "application/octet-stream",
                _ => &found.media_type,
            };
            let mut draft = Draft::new(StatusCode::OK, content_type, found.bytes.clone());
            draft.set("docker-content-digest", &found.digest);
            if matches!(request.target, Target::Blob { .. }) {
                draft.set("accept-ranges", "bytes");
                draft.cut_to_range(&request.headers, verdict);
            }
            draft
        }
    }
}

fn token(state: &mut super::State, request: &Request) -> Draft {
    let Auth::Bearer { header, lifetime } = state.auth.clone() else {
        return Draft::error(StatusCode::NOT_FOUND, "UNSUPPORTED");
    };
    if header.is_some() && authorization(&request.headers) != header.as_deref() {
        return Draft::error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
    }
    let parameters = request
        .query
        .replace("%3A", ":")
        .replace("%2F", "/")
        .replace("%2C", ",")
        .replace('+', " ");
    let scopes: Vec<&str> = parameters
        .split('&')
        .filter_map(|pair| pair.strip_prefix("scope="))
        .collect();
    let token = state.tokens.give(&scopes.join(" "), lifetime);
    Draft::json(
        StatusCode::OK,
        &json!({ "token": token, "expires_in": lifetime.as_secs() }),
    )
}

fn challenge(shared: &Shared, auth: &Auth, request: &Request) -> Draft {
    let mut draft = Draft::error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
    let challenge = match auth {
        Auth::Bearer { .. } => {
            let realm = format!("{}://{}/token", shared.scheme, shared.address);
            let scope = request
                .target
                .repository()
                .map(|name| format!(",scope=\"repository:{name}:pull\""));
            format!(
                "Bearer realm=\"{realm}\",service=\"scripted\"{}",
                scope.unwrap_or_default()
            )
        }
        Auth::Anonymous | Auth::Basic { .. } => "Basic realm=\"scripted\"".to_owned(),
    };
    draft.set("www-authenticate", &challenge);
    draft
}

impl Draft {
    fn new(status: StatusCode, content_type: &str, body: Bytes) -> Self {
        let mut draft = Self {
            status,
            headers: HeaderMap::new(),
            body,
        };
        draft.set("content-type", content_type);
        draft.set("docker-distribution-api-version", "registry/2.0");
        draft
    }

    fn json(status: StatusCode, document: &serde_json::Value) -> Self {
        Self::new(status, "application/json", document.to_string().into())
    }

    /// An error envelope of the distribution-spec.
    fn error(status: StatusCode, code: &str) -> Self {
        let message = status.canonical_reason().unwrap_or("no reason is known");
        Self::json(
            status,
            &json!({ "errors": [{ "code": code, "message": message }] }),
        )
    }

    fn set(&mut self, name: &'static str, value: &str) {
        let value = HeaderValue::from_str(value).expect("a header's value");
        self.headers.insert(HeaderName::from_static(name), value);
    }

    /// Answers `Range: bytes=N-` and `bytes=N-M` with 206, as far as the rule lets it.
    fn cut_to_range(&mut self, headers: &HeaderMap, verdict: &Verdict) {
        if verdict
            .behaviours
            .iter()
            .any(|behaviour| matches!(behaviour, Behaviour::IgnoreRange))
        {
            return;
        }
        let Some(range) = headers.get(header::RANGE).and_then(|value| value.to_str().ok()) else {
            return;
        };
        let total = self.body.len();
        let asked = range
            .strip_prefix("bytes=")
            .and_then(|range| range.split_once('-'));
        let Some((Ok(start), end)) = asked.map(|(start, end)| (start.parse::<usize>(), end)) else {
            return;
        };
        if start >= total {
            *self = Self::error(StatusCode::RANGE_NOT_SATISFIABLE, "SIZE_INVALID");
            self.set("content-range", &format!("bytes */{total}"));
            return;
        }
        let end = end
            .parse::<usize>()
            .map_or(total, |last| (last + 1).min(total))
            .max(start);
        let shift = verdict.find(|behaviour| match behaviour {
            Behaviour::ShiftRange(bytes) => Some(*bytes as usize),
            _ => None,
        });
        let mislabel = verdict.find(|behaviour| match behaviour {
            Behaviour::MislabelRange(bytes) => Some(*bytes as usize),
            _ => None,
        });
        let start = (start + shift.unwrap_or(0)).min(end);
        self.body = self.body.slice(start..end);
        self.status = StatusCode::PARTIAL_CONTENT;
        let told = start + mislabel.unwrap_or(0);
        self.set(
            "content-range",
            &format!("bytes {told}-{}/{total}", end.saturating_sub(1)),
        );
    }

    fn apply(&mut self, behaviour: &Behaviour) {
        match behaviour {
            Behaviour::Body(body) => self.body = body.clone(),
            Behaviour::Corrupt(bytes) => {
                let mut body = self.body.to_vec();
                let wrong = (*bytes as usize).min(body.len());
                for byte in &mut body[..wrong] {
                    *byte = !*byte;
                }
                self.body = body.into();
            }
            Behaviour::Status(status) => {
                *self = match status.is_redirection() {
                    true => Self::new(*status, "text/plain", Bytes::new()),
                    false => Self::error(*status, "UNKNOWN"),
                }
            }
            Behaviour::Header(name, value) => {
                self.headers.insert(name, value.clone());
            }
            Behaviour::AddHeader(name, value) => {
                self.headers.append(name, value.clone());
            }
            Behaviour::NoHeader(name) => {
                self.headers.remove(name);
            }
            // These decide about the way of the answer, not about its content.
            Behaviour::Reset
            | Behaviour::CutAfter(_)
            | Behaviour::Stall
            | Behaviour::StallAfter(_)
            | Behaviour::Delay(_)
            | Behaviour::Throttle(_)
            | Behaviour::Endless
            | Behaviour::IgnoreRange
            | Behaviour::ShiftRange(_)
            | Behaviour::MislabelRange(_) => {}
        }
    }
}

fn send(draft: Draft, request: &Request, verdict: Verdict) -> Response {
    let Draft {
        status,
        headers,
        body,
    } = draft;
    let length = body.len();
    let number = |wanted: fn(&Behaviour) -> Option<u64>| verdict.find(wanted);
    let pace = Pace {
        cut_after: number(|behaviour| match behaviour {
            Behaviour::CutAfter(bytes) => Some(*bytes),
            _ => None,
        }),
        stall_after: number(|behaviour| match behaviour {
            Behaviour::StallAfter(bytes) => Some(*bytes),
            _ => None,
        }),
        rate: number(|behaviour| match behaviour {
            Behaviour::Throttle(rate) => Some(*rate),
            _ => None,
        }),
        endless: verdict
            .behaviours
            .iter()
            .any(|behaviour| matches!(behaviour, Behaviour::Endless)),
    };
    let chunked = verdict
        .behaviours
        .iter()
        .any(|behaviour| matches!(behaviour, Behaviour::NoHeader(name) if name == header::CONTENT_LENGTH));
    let body = match request.method {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(stream(body, pace, verdict.rule)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if !chunked {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}
