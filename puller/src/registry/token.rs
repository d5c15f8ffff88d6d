//! Tokens from token servers, as the distribution project's "Token Authentication Specification" and
//! "OAuth2 Token Authentication" have it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::{
    coding::Coding,
    fault,
    keyring::Credential,
    redirect,
    site::Site,
    wire::{Answer, Call, Wire},
};
use crate::{
    domain::{Activity, Reason, Secret},
    error::Fault,
};

/// Most of a token server's answer that is read.
const CAP: usize = 1 << 20;

/// The life of a token that does not tell its own (Token Authentication Specification).
const UNTOLD_LIFE: Duration = Duration::from_secs(60);

/// Longer than any token lives; keeps the arithmetic of times from overflowing.
pub(crate) const LONGEST_LIFE: Duration = Duration::from_secs(30 * 86_400);

/// A token is not used in the last part of its life, since a request takes time to arrive: a tenth, and
/// at most this.
const MARGIN: Duration = Duration::from_secs(10);

/// Names us to token servers.
const CLIENT_ID: &str = "puller";

/// Where a registry wants its tokens from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Realm {
    pub(super) url: Url,
    pub(super) service: Option<String>,
}

/// A token and until when it is used.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) header: HeaderValue,
    pub(super) expires: Instant,
}

/// Why there is no token.
#[derive(Debug)]
pub(super) enum Denied {
    /// The server does not take these credentials; others may do.
    Credentials(Fault),
    /// Anything else.
    Other(Fault),
}

/// Asks a token server for a token, once.
pub(super) async fn fetch(
    wire: &Wire,
    site: &Site,
    realm: &Realm,
    credential: Option<&Credential>,
    scope: &str,
    activity: &Arc<Activity>,
) -> Result<Token, Denied> {
    let mut call = Call {
        method: Method::GET,
        url: realm.url.clone(),
        headers: HeaderMap::new(),
        authorization: None,
        guest: None,
        form: None,
        plain: site.is_plain(),
        reach: site.reach,
        // A token server of its own is not the endpoint that was called insecure.
        insecure: site.insecure && redirect::same_origin(&realm.url, &site.base),
        activity,
    };
    let service = realm.service.as_deref();
    if let Some(Credential::Identity(token)) = credential {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token")
            .append_pair("client_id", CLIENT_ID)
            .append_pair("refresh_token", token.expose())
            .append_pair("scope", scope);
        if let Some(service) = service {
            form.append_pair("service", service);
        }
        call.method = Method::POST;
        call.form = Some(Secret::new(form.finish()));
    } else {
        add_query(&mut call.url, service, scope);
        if let Some(Credential::Login { username, password }) = credential {
            call.authorization = Some(basic(username, password.expose()));
        }
    }
    let answer = wire.ask(&call).await.map_err(Denied::Other)?;
    let status = answer.status();
    // Who is asked of another host is not quoted: it may be no token server at all.
    let quotable = answer.at_home && redirects_nowhere(&realm.url, site);
    if status.is_success() {
        return read(answer, site, quotable).await.map_err(Denied::Other);
    }
    let fault = refusal(answer, credential, site, quotable).await;
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Denied::Credentials(fault),
        // A refresh token that has expired or been revoked (RFC 6749 section 5.2: invalid_grant).
        StatusCode::BAD_REQUEST if credential.is_some() => Denied::Credentials(fault),
        _ => Denied::Other(fault),
    })
}

/// `Authorization: Basic` (RFC 7617).
pub(super) fn basic(username: &str, password: &str) -> HeaderValue {
    sensitive(format!(
        "Basic {}",
        STANDARD.encode(format!("{username}:{password}"))
    ))
    .expect("base64 is a header value")
}

/// `Authorization: Bearer` (RFC 6750); `None`: the token can't stand in a header.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(format!("Bearer {token}"))
}

fn sensitive(value: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Adds service and scope to the realm's own query.
fn add_query(url: &mut Url, service: Option<&str>, scope: &str) {
    let has = |url: &Url, name: &str, value: Option<&str>| {
        url.query_pairs()
            .any(|(n, v)| n == name && value.is_none_or(|value| v == value))
    };
    if let Some(service) = service
        && !has(url, "service", None)
    {
        url.query_pairs_mut().append_pair("service", service);
    }
    if !has(url, "scope", Some(scope)) {
        url.query_pairs_mut().append_pair("scope", scope);
    }
}

/// Whether the token server is the registry's own origin, or at least its host.
fn redirects_nowhere(realm: &Url, site: &Site) -> bool {
    realm.host() == site.base.host()
}

async fn refusal(answer: Answer, credential: Option<&Credential>, site: &Site, quotable: bool) -> Fault {
    let status = answer.status();
    let registry = &site.registry;
    let remedy = match (status.as_u16(), credential) {
        (401 | 403, None) => format!(
            "{registry} asks for credentials, and {} has none for it",
            site.whose
        ),
        (400 | 401 | 403, Some(Credential::Login { username, .. })) => format!(
            "check the user name ({}) and password for {registry} in {}",
            fault::quoted(username),
            site.whose
        ),
        (400 | 401 | 403, Some(_)) => format!("renew the token for {registry} in {}", site.whose),
        _ => String::new(),
    };
    let mut fault = if quotable {
        answer.into_fault(remedy).await
    } else {
        let happened = format!("the token server {} answered {status}", answer.host);
        let mut fault = Fault::new(fault::reason_of(status), answer.asked(), happened, remedy);
        fault.retry_after = answer.retry_after();
        fault
    };
    fault.reason = match status.as_u16() {
        400 if credential.is_some() => Reason::Unauthorized,
        403 => Reason::Unauthorized,
        // A token server that isn't there is the registry's error, not an image that isn't.
        404 | 410 => Reason::RegistryError,
        _ => fault.reason,
    };
    fault
}

async fn read(answer: Answer, site: &Site, quotable: bool) -> Result<Token, Fault> {
    let asked = answer.asked().to_owned();
    let registry_error = |happened: String| {
        let remedy = format!("check the token server of {}", site.registry);
        Fault::new(Reason::RegistryError, asked.as_str(), happened, remedy)
    };
    let coding = Coding::of(answer.headers());
    let body = answer.into_bytes(CAP).await.map_err(|mut fault| {
        if fault.reason == Reason::LimitExceeded {
            fault.reason = Reason::RegistryError;
        }
        fault
    })?;
    let body = coding
        .and_then(|coding| coding.decoded(&body, CAP))
        .unwrap_or(body);
    let (token, life) = parse(&body, Timestamp::now()).ok_or_else(|| {
        // Some servers answer 200 whatever they have to say.
        let words = fault::words(&body).filter(|_| quotable);
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        registry_error(format!("the answer holds no token{words}"))
    })?;
    let header = bearer(&token)
        .ok_or_else(|| registry_error("the token holds characters that no header may have".to_owned()))?;
    Ok(Token {
        header,
        expires: Instant::now() + (life - MARGIN.min(life / 10)),
    })
}

/// Token and life from a token server's answer. `token` goes before `access_token`.
///
/// The life is what is left of it now, if the answer says when it began: caches give the same token
/// again. A token that would be over already tells of a clock that is wrong, and counts as new.
pub(crate) fn parse(body: &[u8], now: Timestamp) -> Option<(String, Duration)> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let given = |name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .filter(|token| !token.is_empty())
    };
    let token = given("token").or_else(|| given("access_token"))?;
    let life = match value.get("expires_in") {
        Some(Value::String(text)) => text.parse().ok(),
        Some(number) => number.as_f64(),
        None => None,
    };
    let life = life
        .filter(|life: &f64| *life > 0.0)
        .map(|life| Duration::try_from_secs_f64(life).map_or(LONGEST_LIFE, |life| life.min(LONGEST_LIFE)))
        .filter(|life| !life.is_zero())
        .unwrap_or(UNTOLD_LIFE);
    let issued = value.get("issued_at").and_then(Value::as_str);
    let age = issued
        .and_then(|issued| issued.parse::<Timestamp>().ok())
        .and_then(|issued| Duration::try_from(now.duration_since(issued)).ok())
        .unwrap_or_default();
    let life = life
        .checked_sub(age)
        .filter(|left| !left.is_zero())
        .unwrap_or(life);
    Some((token.to_owned(), life))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_all_shapes_of_an_answer() {
        let minute = Duration::from_secs(60);
        for (body, token) in [
            (r#"{"token":"t"}"#, Some(("t", minute))),
            (
                r#"{"access_token":"a","expires_in":300}"#,
                Some(("a", 5 * minute)),
            ),
            (
                r#"{"token":"t","access_token":"a","expires_in":"120"}"#,
                Some(("t", 2 * minute)),
            ),
            (
                r#"{"token":"","access_token":"a","expires_in":0}"#,
                Some(("a", minute)),
            ),
            (r#"{"token":"t","expires_in":-1}"#, Some(("t", minute))),
            (
                r#"{"token":"t","expires_in":1e300}"#,
                Some(("t", Duration::from_secs(30 * 86_400))),
            ),
            (r#"{"token":7}"#, None),
            (r#"{}"#, None),
            ("<html>", None),
        ] {
            let found = parse(body.as_bytes(), Timestamp::now());
            assert_eq!(
                found.as_ref().map(|(t, life)| (t.as_str(), *life)),
                token,
                "{body}"
            );
        }
    }

    #[test]
    fn a_life_begins_when_the_token_was_issued() {
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        for (issued, left) in [
            ("2026-01-01T00:04:00Z", 240),
            ("2026-01-01T01:04:00+01:00", 240),
            ("2026-01-01T00:05:00.000Z", 300),
            // Clocks that go wrong by much, in either direction, and what is no time.
            ("2026-01-01T00:06:00Z", 300),
            ("2026-01-01T00:00:00Z", 300),
            ("1970-01-01T00:00:00Z", 300),
            ("yesterday", 300),
            ("", 300),
        ] {
            let answer = serde_json::json!({"token": "t", "expires_in": 300, "issued_at": issued});
            let (_, life) = parse(answer.to_string().as_bytes(), now).unwrap();
            assert_eq!(life.as_secs(), left, "{issued}");
        }
    }

    #[test]
    fn merges_the_realms_own_query() {
        let query = |realm: &str, service| {
            let mut url = Url::parse(realm).unwrap();
            add_query(&mut url, service, "repository:a/b:pull");
            url.query().unwrap().to_owned()
        };
        assert_eq!(
            query("https://a.io/t?account=x", Some("reg")),
            "account=x&service=reg&scope=repository%3Aa%2Fb%3Apull"
        );
        assert_eq!(query("https://a.io/t", None), "scope=repository%3Aa%2Fb%3Apull");
        assert_eq!(
            query(
                "https://a.io/t?service=own&scope=repository:a/b:pull",
                Some("reg")
            ),
            "service=own&scope=repository:a/b:pull"
        );
    }

    #[test]
    fn headers_are_marked_as_secret() {
        assert!(basic("user", "pa:ss").is_sensitive());
        assert_eq!(basic("user", "pa:ss"), "Basic dXNlcjpwYTpzcw==");
        assert!(bearer("t").unwrap().is_sensitive());
        assert_eq!(bearer("a\nb"), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(body in "\\PC{0,60}", life in any::<f64>()) {
            let now = Timestamp::now();
            parse(body.as_bytes(), now);
            let told = serde_json::json!({"token": "t", "expires_in": life, "issued_at": body});
            parse(told.to_string().as_bytes(), now);
        }
    }
}
