//! `Retry-After`, as RFC 9110 section 10.2.3 has it and as registries send it.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

/// The longest pause that a registry can ask for: a header that is wrong, or hostile, must not stop us
/// for a day.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);

/// The pause that an answer asks for, at most [`LONGEST`].
pub(crate) fn of(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(http::header::RETRY_AFTER)?;
    parse(&String::from_utf8_lossy(value.as_bytes()), now)
}

/// Seconds, an HTTP date in any of its three forms, or a duration with units (`985.86us`, `1m30s`),
/// which some registries write. What can't be understood is `None`; a date in the past is no pause.
fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(date) = httpdate::parse_http_date(text) {
        return Some(date.duration_since(now).unwrap_or_default().min(LONGEST));
    }
    let seconds = match decimal(text) {
        Some((seconds, "")) => seconds,
        _ => duration(text)?,
    };
    Some(
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(LONGEST)
            .min(LONGEST),
    )
}

/// Numbers with units, without spaces between them, in seconds.
fn duration(text: &str) -> Option<f64> {
    // The longer units first, where one begins with the other.
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let (number, after) = decimal(rest)?;
        let after = after.trim_start();
        let (unit, length) = UNITS.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        seconds += number * length;
        rest = &after[unit.len()..];
    }
    (!text.is_empty()).then_some(seconds)
}

/// A leading number of digits with at most one point, and what follows it.
fn decimal(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn understands_all_forms() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, pause) in [
            ("0", Some(Duration::ZERO)),
            ("120", Some(Duration::from_secs(120))),
            (" 1.5 ", Some(Duration::from_millis(1500))),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(Duration::from_secs(60))),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(Duration::from_secs(60))),
            ("Sun Nov  6 08:50:37 1994", Some(Duration::from_secs(60))),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(Duration::ZERO)),
            ("985.86us", Some(Duration::from_nanos(985_860))),
            ("985.86\u{b5}s", Some(Duration::from_nanos(985_860))),
            ("250ms", Some(Duration::from_millis(250))),
            ("30s", Some(Duration::from_secs(30))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("1h0m0.5s", Some(LONGEST)),
            ("99999999999999999999999", Some(LONGEST)),
            ("Sat, 06 Nov 2094 08:50:37 GMT", Some(LONGEST)),
            ("", None),
            ("-5", None),
            ("soon", None),
            ("5 parsecs", None),
            ("1.2.3", None),
            (".", None),
        ] {
            assert_eq!(parse(text, now), pause, "{text:?}");
        }
    }

    #[test]
    fn reads_the_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(of(&headers, SystemTime::now()), None);
        headers.insert(
            http::header::RETRY_AFTER,
            http::HeaderValue::from_bytes("7\u{b5}s".as_bytes()).unwrap(),
        );
        assert_eq!(of(&headers, SystemTime::now()), Some(Duration::from_micros(7)));
    }

    proptest! {
        #[test]
        fn whatever_is_understood_is_bounded(text in "\\PC{0,40}|[0-9.]{1,30}(ms|us|s|m|h)?") {
            if let Some(pause) = parse(&text, SystemTime::now()) {
                prop_assert!(pause <= LONGEST);
            }
        }
    }
}
