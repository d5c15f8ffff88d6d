//! What a registry may do wrong.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use bytes::Bytes;

/// One deviation from the honest answer. Made by [`Cut`], [`Stall`], [`Lie`], [`Answer`],
/// [`Challenge`], [`Redirect`], [`Throttle`], [`Without`] and [`Ranges`]; a rule may have several.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// The connection is reset and nothing is answered.
    Reset,
    /// The connection breaks when about this many bytes of the body are sent.
    CutAfter(u64),
    /// Nothing is answered until the rule is released.
    Stall,
    /// The body stops after this many bytes until the rule is released.
    StallAfter(u64),
    /// The answer comes so much later.
    Delay(Duration),
    /// At most this many bytes of the body a second.
    Throttle(u64),
    /// Another body, of a length that is told correctly.
    Body(Bytes),
    /// This many bytes of the body are other ones; the length is right.
    Corrupt(u64),
    /// Another status, and the body with it.
    Status(StatusCode),
    /// A header is set.
    Header(HeaderName, HeaderValue),
    /// One more field of that name.
    AddHeader(HeaderName, HeaderValue),
    /// A body that never ends, in chunks.
    Endless,
    /// A header is left out; `Content-Length`: the body is sent in chunks.
    NoHeader(HeaderName),
    /// A `Range` header is not looked at.
    IgnoreRange,
    /// The body begins so many bytes after what was asked for, and `Content-Range` says so.
    ShiftRange(u64),
    /// The body begins where it was asked for, but `Content-Range` is this many bytes off.
    MislabelRange(u64),
}

/// Breaks the connection.
#[derive(Debug, Clone, Copy)]
pub struct Cut;

impl Cut {
    /// In the middle of the body.
    pub fn after(bytes: u64) -> Behaviour {
        Behaviour::CutAfter(bytes)
    }

    /// Before any answer, by a TCP reset.
    pub fn reset() -> Behaviour {
        Behaviour::Reset
    }
}

/// Stops, with the connection open, until [`Rule::release`](super::Rule::release).
#[derive(Debug, Clone, Copy)]
pub struct Stall;

impl Stall {
    /// Accepts the request and answers nothing.
    pub fn before_answer() -> Behaviour {
        Behaviour::Stall
    }

    /// In the middle of the body; released, the rest follows.
    pub fn after(bytes: u64) -> Behaviour {
        Behaviour::StallAfter(bytes)
    }

    /// Only delays the answer.
    pub fn for_a(duration: Duration) -> Behaviour {
        Behaviour::Delay(duration)
    }
}

/// Answers 200 with something that is not true.
#[derive(Debug, Clone, Copy)]
pub struct Lie;

impl Lie {
    /// Other bytes, told with their own length.
    pub fn body(bytes: impl AsRef<[u8]>) -> Behaviour {
        Behaviour::Body(Bytes::copy_from_slice(bytes.as_ref()))
    }

    /// Bytes of the right number, of which the first so many are wrong.
    pub fn corrupt(bytes: u64) -> Behaviour {
        Behaviour::Corrupt(bytes)
    }

    /// Spaces without end, whatever the status.
    pub fn endless() -> [Behaviour; 2] {
        [Behaviour::Endless, Without::content_length()]
    }

    /// The log-in page of a proxy.
    pub fn html() -> [Behaviour; 2] {
        [
            Self::body("<!DOCTYPE html><html><body>Please sign in</body></html>"),
            Self::content_type("text/html; charset=utf-8"),
        ]
    }

    /// Another `Content-Type`.
    pub fn content_type(content_type: &str) -> Behaviour {
        Behaviour::Header(header::CONTENT_TYPE, header_value(content_type))
    }

    /// Another `Docker-Content-Digest`.
    pub fn digest_header(digest: &str) -> Behaviour {
        Behaviour::Header(
            HeaderName::from_static("docker-content-digest"),
            header_value(digest),
        )
    }
}

/// Answers with another status.
#[derive(Debug, Clone, Copy)]
pub struct Answer;

impl Answer {
    /// This status, with a body that says no more.
    ///
    /// # Panics
    /// The number is no status.
    pub fn status(status: u16) -> Behaviour {
        Behaviour::Status(StatusCode::from_u16(status).expect("a status between 100 and 999"))
    }

    /// 429 with a `Retry-After` header of any form.
    pub fn retry_after(retry_after: &str) -> [Behaviour; 2] {
        [
            Self::status(429),
            Behaviour::Header(header::RETRY_AFTER, header_value(retry_after)),
        ]
    }

    /// Sets a header of the answer.
    ///
    /// # Panics
    /// Name or value can't be a header's.
    pub fn header(name: &str, value: &str) -> Behaviour {
        Behaviour::Header(name.parse().expect("a header's name"), header_value(value))
    }
}

/// Answers 401 with a challenge.
#[derive(Debug, Clone, Copy)]
pub struct Challenge;

impl Challenge {
    /// With these `WWW-Authenticate` fields.
    pub fn fields(fields: &[String]) -> Vec<Behaviour> {
        let field = |field: &String| Behaviour::AddHeader(header::WWW_AUTHENTICATE, header_value(field));
        std::iter::once(Answer::status(401))
            .chain(fields.iter().map(field))
            .collect()
    }
}

/// Answers 307 with a `Location`.
#[derive(Debug, Clone, Copy)]
pub struct Redirect;

impl Redirect {
    /// To there, as it stands: relative, absolute, or nonsense.
    pub fn to(location: &str) -> [Behaviour; 2] {
        [
            Answer::status(307),
            Behaviour::Header(header::LOCATION, header_value(location)),
        ]
    }
}

/// Slows the body down.
#[derive(Debug, Clone, Copy)]
pub struct Throttle;

impl Throttle {
    /// To this many bytes a second.
    pub fn to(bytes_per_second: u64) -> Behaviour {
        Behaviour::Throttle(bytes_per_second)
    }
}

/// Leaves a header out.
#[derive(Debug, Clone, Copy)]
pub struct Without;

impl Without {
    /// No `Content-Length`: the body comes in chunks.
    pub fn content_length() -> Behaviour {
        Behaviour::NoHeader(header::CONTENT_LENGTH)
    }

    /// No `Docker-Content-Digest`.
    pub fn digest_header() -> Behaviour {
        Self::header("docker-content-digest")
    }

    /// No header of this name.
    ///
    /// # Panics
    /// It can't be a header's name.
    pub fn header(name: &str) -> Behaviour {
        Behaviour::NoHeader(name.parse().expect("a header's name"))
    }
}

/// Treats a `Range` header wrongly.
#[derive(Debug, Clone, Copy)]
pub struct Ranges;

impl Ranges {
    /// 200 and the whole.
    pub fn ignored() -> Behaviour {
        Behaviour::IgnoreRange
    }

    /// 206 from a later byte than was asked for, and says so.
    pub fn shifted_by(bytes: u64) -> Behaviour {
        Behaviour::ShiftRange(bytes)
    }

    /// 206 from the right byte, but the header names another.
    pub fn mislabelled_by(bytes: u64) -> Behaviour {
        Behaviour::MislabelRange(bytes)
    }
}

fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("a header's value")
}

/// One behaviour or several, for [`RuleBuilder::then`](super::RuleBuilder::then).
impl From<Behaviour> for Vec<Behaviour> {
    fn from(behaviour: Behaviour) -> Self {
        vec![behaviour]
    }
}
