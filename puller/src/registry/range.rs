//! `Content-Range`, as RFC 9110 section 14.4 has it.

use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_RANGE, CONTENT_TYPE},
};

/// The offset of the first byte that a partial answer holds; `None` if it does not say so soundly, if it
/// is a part of something that is not `size` bytes long, or if its body holds several parts, each with
/// headers of its own.
pub(crate) fn start_of(headers: &HeaderMap, size: u64) -> Option<u64> {
    let several = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..MULTIPART.len()))
        .is_some_and(|start| start.eq_ignore_ascii_case(MULTIPART));
    let range = parse(headers.get(CONTENT_RANGE)?.to_str().ok()?)?;
    let fits = range.last < size && range.total.is_none_or(|total| total == size);
    (!several && fits).then_some(range.first)
}

/// How the type of a body with several ranges begins (RFC 9110 section 14.6).
const MULTIPART: &[u8] = b"multipart/";

/// Whether a status may be due to the `Range` that was sent: some registries refuse any, with whatever
/// client error comes to their mind. Those that would meet a request for the whole as well are not meant.
pub(super) fn is_why_refused(status: StatusCode) -> bool {
    let of_the_blob = matches!(status.as_u16(), 401 | 403 | 404 | 407 | 410 | 429);
    status == StatusCode::NOT_IMPLEMENTED || (status.is_client_error() && !of_the_blob)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    /// `None`: not known (`*`).
    total: Option<u64>,
}

fn parse(text: &str) -> Option<Range> {
    let (unit, range) = text.trim().split_once(' ')?;
    let (range, total) = range.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse::<u64>().ok())?
    };
    let (first, last) = (number(first)?, number(last)?);
    let total = match total {
        "*" => None,
        total => Some(number(total)?),
    };
    let sound = first <= last && total.is_none_or(|total| last < total);
    (unit.eq_ignore_ascii_case("bytes") && sound).then_some(Range { first, last, total })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn takes_sound_ranges_only() {
        for (text, start) in [
            ("bytes 0-9/10", Some(0)),
            ("bytes 5-9/10", Some(5)),
            ("Bytes 5-9/*", Some(5)),
            ("bytes 5-10/10", None),
            ("bytes 9-5/10", None),
            ("bytes */10", None),
            ("bytes 5-/10", None),
            ("bytes 5-9", None),
            ("items 5-9/10", None),
            ("bytes +5-9/10", None),
            ("bytes 99999999999999999999-99999999999999999999/*", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|range| range.first), start, "{text:?}");
        }
    }

    #[test]
    fn a_part_is_of_a_whole_of_the_right_length() {
        let start = |range: &str, content_type: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, range.parse().unwrap());
            headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
            start_of(&headers, 10)
        };
        assert_eq!(start("bytes 5-9/10", "application/octet-stream"), Some(5));
        assert_eq!(start("bytes 5-9/*", ""), Some(5));
        assert_eq!(start("bytes 5-9/11", ""), None);
        assert_eq!(start("bytes 5-10/*", ""), None);
        assert_eq!(start("bytes 5-9/10", "Multipart/byteranges; boundary=x"), None);
    }

    proptest! {
        #[test]
        fn reads_what_is_written(first in 0..1_000_000u64, more in 0..1_000_000u64, rest in 1..1_000_000u64) {
            let last = first + more;
            let total = last + rest;
            let range = Range { first, last, total: Some(total) };
            prop_assert_eq!(parse(&format!("bytes {first}-{last}/{total}")), Some(range));
        }

        #[test]
        fn nothing_makes_it_panic(text in "\\PC{0,40}|bytes [0-9*/-]{0,30}") {
            parse(&text);
        }
    }
}
