//! Ranges of bytes.

use axum::http::{HeaderMap, header};

use crate::content::Section;

/// What of content is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    All,
    /// A part.
    Part(Section),
    /// Nothing that it has.
    None,
}

/// What `Range` wants of so many bytes.
pub(super) fn wanted(headers: &HeaderMap, length: u64) -> Wanted {
    let Some(value) = headers.get(header::RANGE) else {
        return Wanted::All;
    };
    let Some((unit, ranges)) = value.to_str().ok().and_then(|value| value.split_once('=')) else {
        return Wanted::None;
    };
    // Of an empty file a client gets all there is, which saves it an error.
    if !unit.trim().eq_ignore_ascii_case("bytes") || length == 0 {
        return Wanted::All;
    }
    let mut ranges = ranges.split(',').map(str::trim).filter(|range| !range.is_empty());
    match (ranges.next(), ranges.next()) {
        (Some(range), None) => part(range, length).map_or(Wanted::None, Wanted::Part),
        _ => Wanted::All,
    }
}

fn part(range: &str, length: u64) -> Option<Section> {
    let number = |text: &str| match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // What is too large a number is beyond all files too.
        true => Some(text.parse().unwrap_or(u64::MAX)),
        false => None,
    };
    let (first, last) = range.split_once('-')?;
    let (offset, end) = match (first.trim(), last.trim()) {
        ("", last) => (length.saturating_sub(number(last)?), length),
        (first, "") => (number(first)?, length),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (
                first,
                if last < first {
                    return None;
                } else {
                    last.saturating_add(1).min(length)
                },
            )
        }
    };
    (offset < end).then(|| Section {
        offset,
        length: end - offset,
    })
}

/// `Content-Range`.
pub(super) fn describe(wanted: Wanted, length: u64) -> String {
    match wanted {
        Wanted::Part(Section { offset, length: of }) => {
            format!("bytes {offset}-{}/{length}", offset + of - 1)
        }
        Wanted::All | Wanted::None => format!("bytes */{length}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_understood() {
        let part = |offset, length| Wanted::Part(Section { offset, length });
        for (range, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-99", part(0, 100)),
            ("bytes=10-", part(10, 90)),
            ("bytes=90-1000", part(90, 10)),
            ("bytes=90-99999999999999999999999", part(90, 10)),
            ("bytes=-10", part(90, 10)),
            ("bytes=-1000", part(0, 100)),
            ("bytes= 1 - 2 ", part(1, 2)),
            ("Bytes=1-2,", part(1, 2)),
            ("bytes=100-", Wanted::None),
            ("bytes=-0", Wanted::None),
            ("bytes=2-1", Wanted::None),
            ("bytes=a-b", Wanted::None),
            ("bytes=+1-2", Wanted::None),
            ("bytes=-", Wanted::None),
            ("bytes=1", Wanted::None),
            ("bytes", Wanted::None),
            ("bytes=", Wanted::All),
            ("bytes=0-1,5-6", Wanted::All),
            ("lines=0-1", Wanted::All),
        ] {
            let headers = HeaderMap::from_iter([(header::RANGE, range.parse().unwrap())]);
            assert_eq!(wanted(&headers, 100), expected, "{range}");
            assert_eq!(wanted(&headers, 0) == Wanted::None, range == "bytes", "{range}");
        }
        assert_eq!(wanted(&HeaderMap::new(), 100), Wanted::All);
        assert_eq!(describe(part(90, 10), 100), "bytes 90-99/100");
        assert_eq!(describe(Wanted::None, 100), "bytes */100");
    }
}
