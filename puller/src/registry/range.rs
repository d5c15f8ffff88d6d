//! `Content-Range`, as RFC 9110 section 14.4 has it.

use http::{HeaderMap, header::CONTENT_RANGE};

/// The offset of the first byte that a partial answer holds; `None` if it does not say so soundly.
pub(crate) fn start_of(headers: &HeaderMap) -> Option<u64> {
    parse(headers.get(CONTENT_RANGE)?.to_str().ok()?)
}

fn parse(text: &str) -> Option<u64> {
    let (unit, range) = text.trim().split_once(' ')?;
    let (range, total) = range.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse::<u64>().ok())?
    };
    let (first, last) = (number(first)?, number(last)?);
    let total_sound = total == "*" || number(total).is_some_and(|total| last < total);
    (unit.eq_ignore_ascii_case("bytes") && first <= last && total_sound).then_some(first)
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
            assert_eq!(parse(text), start, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_what_is_written(first in 0..1_000_000u64, more in 0..1_000_000u64, rest in 1..1_000_000u64) {
            let last = first + more;
            prop_assert_eq!(parse(&format!("bytes {first}-{last}/{}", last + rest)), Some(first));
        }

        #[test]
        fn nothing_makes_it_panic(text in "\\PC{0,40}|bytes [0-9*/-]{0,30}") {
            parse(&text);
        }
    }
}
