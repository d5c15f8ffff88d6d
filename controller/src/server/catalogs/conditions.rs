//! Conditional requests, by RFC 9110.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
};

use super::coding;
use crate::content::{Coding, Content};

const CODINGS: [Coding; 3] = [Coding::Identity, Coding::Gzip, Coding::Zstd];
/// The end of the year 9999, after which dates can't be written.
const END: Duration = Duration::from_secs(253_402_300_800);

/// Whether the conditions of a request hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Yes, or there is none.
    Yes,
    /// The client has the content, in this coding.
    NotModified(Coding),
    /// No.
    Failed,
}

/// By what content is told apart from what it was.
#[derive(Debug)]
pub(super) struct Validators<'a> {
    digest: &'a str,
    /// To the second, as dates are in headers.
    modified: Option<SystemTime>,
}

impl<'a> Validators<'a> {
    pub(super) fn of(content: &'a Content) -> Self {
        Self::new(content.digest(), content.modified())
    }

    fn new(digest: &'a str, modified: SystemTime) -> Self {
        let since = modified
            .duration_since(UNIX_EPOCH)
            .ok()
            .filter(|since| *since < END);
        Self {
            digest,
            modified: since.map(|since| UNIX_EPOCH + Duration::from_secs(since.as_secs())),
        }
    }

    /// Without the quotes.
    fn tag(&self, coding: Coding) -> String {
        match coding::name(coding) {
            None => self.digest.to_owned(),
            Some(name) => format!("{}-{name}", self.digest),
        }
    }

    /// An answer without a body that names the content.
    pub(super) fn answer(&self, status: StatusCode, coding: Coding) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let tag = HeaderValue::try_from(format!("\"{}\"", self.tag(coding))).ok();
        let modified = self.modified.map(httpdate::fmt_http_date);
        let modified = modified.and_then(|modified| modified.try_into().ok());
        let headers = response.headers_mut();
        headers.extend(tag.map(|tag| (header::ETAG, tag)));
        headers.extend(modified.map(|modified: HeaderValue| (header::LAST_MODIFIED, modified)));
        response
    }

    /// Whether the conditions hold, where this coding would be sent. Dates that are none are no condition, and
    /// tags go before dates.
    pub(super) fn hold(&self, headers: &HeaderMap, chosen: Coding) -> Held {
        let unmodified_since = |date| self.modified.is_some_and(|modified| modified <= date);
        let passes = match headers.contains_key(header::IF_MATCH) {
            true => self.named(headers, header::IF_MATCH, chosen, false).is_some(),
            false => date(headers, header::IF_UNMODIFIED_SINCE).is_none_or(unmodified_since),
        };
        if !passes {
            return Held::Failed;
        }
        let had = match headers.contains_key(header::IF_NONE_MATCH) {
            true => self.named(headers, header::IF_NONE_MATCH, chosen, true),
            false => date(headers, header::IF_MODIFIED_SINCE)
                .is_some_and(unmodified_since)
                .then_some(chosen),
        };
        had.map_or(Held::Yes, Held::NotModified)
    }

    /// Whether a range is of what the client has the rest of: the content as it is.
    pub(super) fn range_holds(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::IF_RANGE) else {
            return true;
        };
        let Ok(value) = value.to_str() else {
            return false;
        };
        match httpdate::parse_http_date(value) {
            Ok(date) => self.modified == Some(date),
            Err(_) => tags(value).any(|tag| tag == Tag::Strong(self.digest)),
        }
    }

    /// In which coding a list of tags names the content; `*` names what would be sent.
    fn named(&self, headers: &HeaderMap, name: HeaderName, chosen: Coding, weak: bool) -> Option<Coding> {
        let lists = headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let all: Vec<_> = lists.flat_map(tags).collect();
        let is = |tag: &Tag<'_>, coding| match tag {
            Tag::Any => coding == chosen,
            Tag::Strong(tag) => *tag == self.tag(coding),
            Tag::Weak(tag) => weak && *tag == self.tag(coding),
        };
        let mut codings = [chosen].into_iter().chain(CODINGS);
        codings.find(|coding| all.iter().any(|tag| is(tag, *coding)))
    }
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// One of a list of tags.
#[derive(Debug, PartialEq, Eq)]
enum Tag<'a> {
    Any,
    Strong(&'a str),
    Weak(&'a str),
}

/// The tags of a list, up to the first that is none.
fn tags(list: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('*') {
            rest = after;
            return Some(Tag::Any);
        }
        let (is_weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let (tag, after) = quoted.strip_prefix('"')?.split_once('"')?;
        rest = after;
        Some(if is_weak { Tag::Weak(tag) } else { Tag::Strong(tag) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
    const AT: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const AFTER: &str = "Tue, 14 Nov 2023 22:13:21 GMT";

    fn validators() -> Validators<'static> {
        Validators::new("abc", UNIX_EPOCH + Duration::from_millis(1_700_000_000_999))
    }

    #[test]
    fn conditions_hold_or_do_not() {
        use Coding::{Gzip, Identity, Zstd};
        let cases: &[(&[(HeaderName, &str)], Held)] = &[
            (&[], Held::Yes),
            (&[(header::IF_MODIFIED_SINCE, BEFORE)], Held::Yes),
            (&[(header::IF_MODIFIED_SINCE, AT)], Held::NotModified(Gzip)),
            (&[(header::IF_MODIFIED_SINCE, AFTER)], Held::NotModified(Gzip)),
            (&[(header::IF_MODIFIED_SINCE, "yesterday")], Held::Yes),
            (&[(header::IF_NONE_MATCH, "\"abc\"")], Held::NotModified(Identity)),
            (
                &[(header::IF_NONE_MATCH, "\"abc-zstd\"")],
                Held::NotModified(Zstd),
            ),
            (
                &[(header::IF_NONE_MATCH, "\"x,y\", W/\"abc-gzip\"")],
                Held::NotModified(Gzip),
            ),
            (
                &[(header::IF_NONE_MATCH, "\"abc\",\"abc-gzip\"")],
                Held::NotModified(Gzip),
            ),
            (&[(header::IF_NONE_MATCH, "*")], Held::NotModified(Gzip)),
            (&[(header::IF_NONE_MATCH, "abc")], Held::Yes),
            (&[(header::IF_NONE_MATCH, "\"abcd\"")], Held::Yes),
            (
                &[
                    (header::IF_NONE_MATCH, "\"x\""),
                    (header::IF_MODIFIED_SINCE, AFTER),
                ],
                Held::Yes,
            ),
            (&[(header::IF_MATCH, "*")], Held::Yes),
            (&[(header::IF_MATCH, "\"abc-zstd\"")], Held::Yes),
            (&[(header::IF_MATCH, "W/\"abc\"")], Held::Failed),
            (&[(header::IF_MATCH, "\"x\"")], Held::Failed),
            (
                &[(header::IF_MATCH, "*"), (header::IF_UNMODIFIED_SINCE, BEFORE)],
                Held::Yes,
            ),
            (&[(header::IF_UNMODIFIED_SINCE, BEFORE)], Held::Failed),
            (&[(header::IF_UNMODIFIED_SINCE, AT)], Held::Yes),
            (&[(header::IF_UNMODIFIED_SINCE, "never")], Held::Yes),
            (
                &[(header::IF_MATCH, "\"x\""), (header::IF_NONE_MATCH, "*")],
                Held::Failed,
            ),
        ];
        for (conditions, held) in cases {
            let conditions = conditions.iter().cloned();
            let headers: HeaderMap = conditions
                .map(|(name, value)| (name, value.parse().unwrap()))
                .collect();
            assert_eq!(validators().hold(&headers, Gzip), *held, "{headers:?}");
        }
    }

    #[test]
    fn ranges_are_of_what_the_client_has() {
        for (value, holds) in [
            (AT, true),
            (BEFORE, false),
            (AFTER, false),
            ("\"abc\"", true),
            ("W/\"abc\"", false),
            ("\"abc-gzip\"", false),
            ("*", false),
            ("nonsense", false),
        ] {
            let headers = HeaderMap::from_iter([(header::IF_RANGE, value.parse().unwrap())]);
            assert_eq!(validators().range_holds(&headers), holds, "{value}");
        }
    }

    #[test]
    fn a_date_that_can_not_be_written_is_left_out() {
        for modified in [UNIX_EPOCH - Duration::from_secs(1), UNIX_EPOCH + END] {
            let answer = Validators::new("abc", modified).answer(StatusCode::OK, Coding::Zstd);
            assert_eq!(answer.headers()[header::ETAG], "\"abc-zstd\"");
            assert!(!answer.headers().contains_key(header::LAST_MODIFIED));
        }
    }
}
