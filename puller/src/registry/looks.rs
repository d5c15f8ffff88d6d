//! What an answer looks like, for the message that says that it is not what was asked for.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::{fault, wire::Answer};

/// Bytes of a body that are shown: enough to tell a log-in page from an archive.
const SHOWN: usize = 80;

/// What an answer says that its body is.
#[derive(Debug, Clone)]
pub struct Looks {
    content_type: String,
    encoding: Option<String>,
    /// Whether the body's words may be told: not if they are from another host than the one asked.
    quotable: bool,
}

impl Looks {
    pub(super) fn of(answer: &Answer) -> Self {
        let header = |name| {
            let value = answer.headers().get(name)?;
            Some(fault::quoted(&String::from_utf8_lossy(value.as_bytes())))
        };
        Self {
            content_type: header(CONTENT_TYPE).unwrap_or_default(),
            encoding: header(CONTENT_ENCODING),
            quotable: answer.at_home,
        }
    }

    /// The value of `Content-Type`, safe to be shown; empty: there is none.
    pub(super) fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The answer's type, and how its body begins if that may be told.
    pub fn with(&self, body: &[u8]) -> String {
        let mut looks = format!("its type is \"{}\"", self.content_type);
        if let Some(encoding) = &self.encoding {
            looks.push_str(&format!(", its encoding \"{encoding}\""));
        }
        if self.quotable {
            let start = &body[..body.len().min(SHOWN)];
            looks.push_str(&format!(", it begins {:?}", String::from_utf8_lossy(start)));
        }
        looks
    }
}
