//! The client's errors, made in one place from what tonic says.

use std::{error::Error as StdError, io};

use tonic::{Code, Status};

use crate::Endpoint;

/// What can go wrong between a client and the puller.
///
/// [`Error::is_transient`] says after which of them the same call may succeed later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The endpoint, or its TLS options, can't be right.
    #[error(
        "the endpoint {endpoint:?} is not valid: {problem}; it is unix:///path, http://host:port or https://host:port"
    )]
    InvalidEndpoint {
        /// The endpoint as it was given.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No connection to the puller, or one that broke.
    #[error("cannot reach the puller at {endpoint}: {problem}; {hint}")]
    Unreachable {
        /// The endpoint.
        endpoint: String,
        /// What happened.
        problem: String,
        /// What to look at.
        hint: String,
    },
    /// The TLS handshake failed: a certificate is not the right one for the authorities, the name or the
    /// time, or there is no TLS at all. A puller that refuses *our* certificate closes the connection
    /// after the handshake, which may show as [`Error::Unreachable`] instead, with a hint.
    #[error("no TLS with the puller at {endpoint}: {problem}; {hint}")]
    Tls {
        /// The endpoint.
        endpoint: String,
        /// What happened.
        problem: String,
        /// What to look at.
        hint: String,
    },
    /// Nobody asked the puller for this image.
    #[error("not found: {0}")]
    NotFound(String),
    /// The request is wrong; the text names the part.
    #[error("invalid request: {0}")]
    InvalidArgument(String),
    /// Too many Images, or a wish that is too large.
    #[error("refused: {0}")]
    ResourceExhausted(String),
    /// Credentials over a connection that must not carry them, or a caller that is not let in.
    #[error("not allowed: {0}")]
    Unauthenticated(String),
    /// The puller is there and can't answer now: it starts, it drains, or it took too long.
    #[error("the puller is not available now: {0}")]
    Unavailable(String),
    /// Any other answer.
    #[error("unexpected answer {}: {message}", code_name(*.code))]
    Unexpected {
        /// The gRPC code.
        code: Code,
        /// The message that came with it.
        message: String,
    },
}

/// How tokio-rustls says that the handshake failed, whatever failed in it.
const TLS_FAILED: io::ErrorKind = io::ErrorKind::InvalidData;

impl Error {
    /// Whether the same call may succeed later although nobody changes anything on our side. An
    /// [`Informer`](crate::Informer) tries again after any error.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Tls { .. } | Self::Unavailable(_)
        )
    }

    /// The one place that says what a status means.
    pub(crate) fn from_status(endpoint: &Endpoint, status: &Status) -> Self {
        let message = status.message().to_owned();
        // Only a status that was made on this side has a source: the transport failed.
        if status.code() == Code::Cancelled && is_timeout(status) {
            return Self::Unavailable("it did not answer in time".into());
        }
        if let Some(source) = status.source() {
            let kind = io_kind(source);
            let (problem, hint) = (chain(source), hint(endpoint, kind).to_owned());
            let is_tls = matches!(endpoint, Endpoint::Https(_)) && kind == Some(TLS_FAILED);
            let endpoint = endpoint.to_string();
            return match is_tls {
                true => Self::Tls {
                    endpoint,
                    problem,
                    hint,
                },
                false => Self::Unreachable {
                    endpoint,
                    problem,
                    hint,
                },
            };
        }
        match status.code() {
            Code::NotFound => Self::NotFound(message),
            Code::InvalidArgument => Self::InvalidArgument(message),
            Code::ResourceExhausted => Self::ResourceExhausted(message),
            Code::Unauthenticated | Code::PermissionDenied => Self::Unauthenticated(message),
            Code::Unavailable => Self::Unavailable(message),
            Code::DeadlineExceeded => Self::Unavailable("it did not answer in time".into()),
            code => Self::Unexpected { code, message },
        }
    }
}

/// tonic's `Debug` of a code is its name; its `Display` is a sentence.
fn code_name(code: Code) -> String {
    format!("{code:?}")
}

fn is_timeout(status: &Status) -> bool {
    causes(status).any(<dyn StdError>::is::<tonic::TimeoutExpired>)
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| StdError::source(*error))
}

/// An error with its causes in one line. Wrappers that only repeat their cause are left out.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in causes(error) {
        let text = cause.to_string();
        if parts.last().is_some_and(|last| last.ends_with(&text)) {
            continue;
        }
        parts.push(text);
    }
    // tonic's outermost text says nothing that the others don't.
    if parts.len() > 1 && parts[0] == "transport error" {
        parts.remove(0);
    }
    parts.join(": ")
}

/// The kind of the innermost I/O error.
fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .last()
}

fn hint(endpoint: &Endpoint, kind: Option<io::ErrorKind>) -> &'static str {
    match (endpoint, kind) {
        (Endpoint::Unix(_), Some(io::ErrorKind::NotFound)) => {
            "there is no such socket: is `puller serve` running, and is this its --socket?"
        }
        (Endpoint::Unix(_), Some(io::ErrorKind::PermissionDenied)) => {
            "only the socket's owner and group may connect: see `puller serve --socket-group`"
        }
        (Endpoint::Unix(_), Some(io::ErrorKind::ConnectionRefused)) => {
            "nobody listens on this socket any more: is `puller serve` running?"
        }
        (Endpoint::Http(_) | Endpoint::Https(_), Some(io::ErrorKind::ConnectionRefused)) => {
            "nobody listens there: is `puller serve` running with --listen?"
        }
        (Endpoint::Https(_), Some(TLS_FAILED)) => {
            "check authority, name and dates of both certificates (ours goes by the puller's --tls-client-ca), and that the puller serves TLS"
        }
        (Endpoint::Https(_), _) => {
            "is `puller serve` running, and is our certificate, if any, by its --tls-client-ca and in date?"
        }
        (Endpoint::Http(_), _) => "is it a puller that speaks plain text? With TLS the endpoint is https://",
        (Endpoint::Unix(_), _) => "is `puller serve` running, and is it a puller?",
    }
}
