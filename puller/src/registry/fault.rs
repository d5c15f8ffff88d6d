//! Faults of requests: what a person reads, and the reason that a machine switches on.

use std::{error::Error as StdError, io};

use http::StatusCode;
use rustls::AlertDescription;
use serde_json::Value;
use url::Url;

use super::address::Refused;
use crate::{domain::Reason, error::Fault};

/// Longest text of a registry in a message: a sentence or two.
const LONGEST_QUOTE: usize = 300;

/// A URL as it may be shown: query and userinfo may hold secrets.
pub(super) fn shown(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), authority(url), url.path())
}

/// Host and port, as a person would write them.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Text from outside, bounded and without anything that could move a terminal's cursor or forge a line
/// of a log.
pub(crate) fn quoted(text: &str) -> String {
    let mut quote = String::new();
    for c in text.trim().chars() {
        if quote.len() >= LONGEST_QUOTE {
            quote.push('…');
            break;
        }
        match c {
            '"' | '\'' => quote.push(c),
            c => quote.extend(c.escape_debug()),
        }
    }
    quote
}

/// What a registry or token server says of an error: its [`words`], or the beginning of the body.
pub(crate) fn said(body: &[u8]) -> String {
    words(body).unwrap_or_else(|| quoted(&String::from_utf8_lossy(body)))
}

/// The words of an error: in the distribution-spec's envelope (`{"errors": [{"code", "message"}]}`), or in the
/// shapes that token servers use. Nothing else of a body is told, which may hold secrets.
pub(super) fn words(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let word = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let one = |error: &Value| match (word(error, "code"), word(error, "message")) {
        (Some(code), Some(message)) if !message.is_empty() => Some(format!("{code}: {message}")),
        (code, message) => message.or(code),
    };
    let envelope = value.get("errors").and_then(Value::as_array).map(|errors| {
        let texts: Vec<_> = errors.iter().filter_map(one).collect();
        texts.join(", ")
    });
    let flat = ["error_description", "message", "details", "detail", "error"];
    let said = envelope
        .filter(|texts| !texts.is_empty())
        .or_else(|| flat.iter().find_map(|name| word(&value, name)))?;
    Some(quoted(&said))
}

/// The reason that a status stands for.
pub(super) fn reason_of(status: StatusCode) -> Reason {
    match status {
        StatusCode::UNAUTHORIZED => Reason::Unauthorized,
        StatusCode::FORBIDDEN => Reason::Forbidden,
        StatusCode::NOT_FOUND | StatusCode::GONE => Reason::NotFound,
        StatusCode::TOO_MANY_REQUESTS => Reason::RateLimited,
        _ => Reason::RegistryError,
    }
}

/// A failure on the way: no answer, or a body that broke off.
pub(super) fn of_transport(asked: &str, host: &str, error: &reqwest::Error) -> Fault {
    if let Some(refused) = find::<Refused>(error) {
        return refused_address(asked, refused);
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        let (happened, remedy) = match tls {
            rustls::Error::InvalidMessage(_) => (
                format!("{host} does not speak TLS"),
                format!("if it may use plain HTTP, list {host} among the hosts that may"),
            ),
            rustls::Error::InvalidCertificate(problem) => (
                format!("the certificate of {host} is not accepted: {problem}"),
                format!(
                    "renew the certificate, or add the authority that signed it: to the CA files, or for {host} alone as a .crt in its directory under certs-dir"
                ),
            ),
            rustls::Error::AlertReceived(
                alert @ (AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::HandshakeFailure),
            ) => (
                format!(
                    "{host} ended the TLS handshake ({alert:?}): it may want a client certificate, or another one"
                ),
                format!(
                    "put a client certificate that {host} accepts into its directory under certs-dir, as NAME.cert and NAME.key"
                ),
            ),
            other => (
                format!("the TLS handshake with {host} failed: {other}"),
                format!("check the TLS settings of {host} and the CA files"),
            ),
        };
        return Fault::new(Reason::Tls, asked, happened, remedy);
    }
    let cause = cause(error);
    if error.is_timeout() {
        return Fault::new(
            Reason::Timeout,
            asked,
            format!("no connection to {host} came about in time"),
            format!("check that {host} can be reached from here"),
        );
    }
    let (happened, remedy) = if error.is_dns() {
        (
            format!("the name {host} could not be resolved: {cause}"),
            "check the name and the DNS of this machine".to_owned(),
        )
    } else if error.is_connect() {
        (
            format!("{host} could not be connected to: {cause}"),
            format!("check that {host} is up and can be reached from here"),
        )
    } else {
        (format!("the connection to {host} broke: {cause}"), String::new())
    };
    Fault::new(Reason::Network, asked, happened, remedy)
}

/// An address that is not dialled.
pub(super) fn refused_address(asked: &str, refused: &Refused) -> Fault {
    Fault::new(
        Reason::BlockedByPolicy,
        asked,
        refused.to_string(),
        refused.remedy(),
    )
}

/// Nothing moved.
pub(super) fn idle(asked: &str, host: &str, idle: std::time::Duration) -> Fault {
    Fault::new(
        Reason::Timeout,
        asked,
        format!("nothing came from {host} for {} s", idle.as_secs_f64()),
        format!("check {host} and the network on the way to it"),
    )
}

/// Whether the other end spoke something that is not TLS, or a peer closed on us, so that what is
/// remembered of its protocol is in doubt.
pub(super) fn doubts_protocol(fault: &Fault) -> bool {
    matches!(fault.reason, Reason::Tls | Reason::Network)
}

/// The first error of a type in a chain. An [`io::Error`] hides what it wraps from `source`, so it
/// is opened.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// The text of the innermost error, which says most; the outer ones repeat the URL.
pub(super) fn cause(error: &(dyn StdError + 'static)) -> String {
    chain(error)
        .last()
        .map(|error| quoted(&error.to_string()))
        .unwrap_or_default()
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_secrets() {
        let url = Url::parse("https://user:pass@x.io:5000/v2/a?X-Amz-Signature=s#f").unwrap();
        assert_eq!(shown(&url), "https://x.io:5000/v2/a");
    }

    #[test]
    fn a_quote_is_bounded_and_cannot_forge_a_line() {
        assert_eq!(
            quoted(" it's \"so\"\r\n\u{1b}[2J "),
            "it's \"so\"\\r\\n\\u{1b}[2J"
        );
        assert!(quoted(&"x".repeat(10_000)).len() < LONGEST_QUOTE + 10);
    }

    #[test]
    fn finds_the_message_in_each_shape() {
        for (body, text) in [
            (
                r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#,
                "MANIFEST_UNKNOWN: manifest unknown",
            ),
            (
                r#"{"errors":[{"code":"DENIED"},{"message":"no\nway"}]}"#,
                "DENIED, no\\nway",
            ),
            (
                r#"{"details":"incorrect username or password"}"#,
                "incorrect username or password",
            ),
            (
                r#"{"error":"invalid_grant","error_description":"expired"}"#,
                "expired",
            ),
            (
                r#"{"error":"Invalid Username or Password"}"#,
                "Invalid Username or Password",
            ),
            (r#"{"errors":[]}"#, r#"{"errors":[]}"#),
            ("<html>", "<html>"),
            ("", ""),
        ] {
            assert_eq!(said(body.as_bytes()), text);
        }
    }

    #[test]
    fn opens_what_an_io_error_wraps() {
        let inner = rustls::Error::General("x".into());
        let outer = io::Error::other(io::Error::other(inner));
        assert!(find::<rustls::Error>(&outer).is_some());
        assert!(find::<Refused>(&outer).is_none());
    }
}
