//! A typed value with its origin, and the parsers of single values.

use std::{fmt, path::PathBuf, time::Duration};

use jiff::SignedDuration;

use crate::domain::Reference;

/// Longest duration of a setting. Anything longer is a typing error, and would overflow clocks.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How much of a wrong value an error shows.
const MAX_SHOWN: usize = 100;

/// Where a value was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// In the environment.
    Variable,
    /// In the file, at this line.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
}

/// A value as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The text.
    pub text: String,
    /// Where it stands.
    pub origin: Origin,
}

/// A setting and what was given for it; no values: nothing was.
#[derive(Debug)]
pub struct Setting {
    /// Its name, such as `max-pulls`.
    pub name: String,
    /// From one origin.
    pub values: Vec<Typed>,
}

/// The variable of a setting: `PULLER_MAX_PULLS` for `max-pulls`.
pub fn variable(name: &str) -> String {
    format!("PULLER_{}", name.replace('-', "_").to_ascii_uppercase())
}

/// What went wrong with a setting that was typed at `origin`.
pub(super) fn problem(name: &str, origin: &Origin, what: impl fmt::Display) -> String {
    match origin {
        Origin::Flag => format!("--{name}: {what}"),
        Origin::Variable => format!("{}: {what}", variable(name)),
        Origin::File { path, line } => format!("{}:{line}: {name}: {what}", path.display()),
    }
}

/// A wrong value as an error shows it: bounded and escaped.
pub(super) fn shown(text: &str) -> String {
    let bounded: String = text.chars().take(MAX_SHOWN).collect();
    format!("{bounded:?}{}", if bounded.len() < text.len() { "…" } else { "" })
}

/// A whole number within bounds.
pub(super) fn number(least: u64, most: u64) -> impl Fn(&str) -> Result<u64, String> {
    move |text| {
        let digits = text.replace('_', "");
        match digits.parse() {
            Ok(number) if (least..=most).contains(&number) && !digits.starts_with('+') => Ok(number),
            _ => Err(format!(
                "{} is not a whole number from {least} to {most}",
                shown(text)
            )),
        }
    }
}

/// A duration such as `90s`, `10m` or `1h30m`, at least `least`.
pub fn duration(
    least: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = text
            .parse::<SignedDuration>()
            .ok()
            .and_then(|d| Duration::try_from(d).ok());
        match duration {
            Some(duration) if duration < least => {
                Err(format!("{} is too short: at least {least:?}", shown(text)))
            }
            Some(duration) if duration > MAX_DURATION => {
                Err(format!("{} is longer than a year", shown(text)))
            }
            Some(duration) => Ok(duration),
            None => Err(format!(
                "{} is not a duration such as 90s, 10m or 1h30m",
                shown(text)
            )),
        }
    }
}

/// Units of sizes: decimal ones as disks are sold, binary ones as memory is.
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A size in bytes such as `500MB`, `1.5GiB` or `1048576`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| {
        format!(
            "{} is not a size such as 500MB or 10GiB (units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)",
            shown(text)
        )
    })
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let bytes = whole.parse::<u64>().ok()?.checked_mul(*factor)?;
    if fraction.is_empty() {
        // "1." is a typing error.
        return (!number.ends_with('.')).then_some(bytes);
    }
    // At most twelve digits: beyond a terabyte's last byte they say nothing, and they must not
    // overflow.
    if fraction.len() > 12 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(*factor) * fraction.parse::<u128>().ok()? / scale;
    bytes.checked_add(u64::try_from(part).ok()?)
}

/// A path; only its emptiness is wrong.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("the path is empty".into()),
        text => Ok(PathBuf::from(text)),
    }
}

/// A registry in the form of [`Reference::registry`].
///
/// # Errors
/// It is none; the text says what one looks like.
pub fn registry(text: &str) -> Result<String, String> {
    let as_reference = format!("{text}/repository:tag").parse::<Reference>();
    match as_reference {
        Ok(reference)
            if reference.repository == "repository" || reference.repository == "library/repository" =>
        {
            Ok(reference.registry)
        }
        _ => Err(format!(
            "{} is not a registry such as registry.example.com or localhost:5000",
            shown(text)
        )),
    }
}

/// The same, or `*` for all.
///
/// # Errors
/// It is neither.
pub fn registry_or_all(text: &str) -> Result<String, String> {
    if text == "*" {
        Ok(text.to_owned())
    } else {
        registry(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("1_000", 1000),
            ("500MB", 500_000_000),
            ("500 mb", 500_000_000),
            ("10GiB", 10 << 30),
            ("1.5GiB", 3 << 29),
            ("0.5kB", 500),
            ("16TiB", 16 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "GiB",
            "10G",
            "-1",
            "1.GB",
            "1.2.3GB",
            "ten",
            "99999999999TiB",
            "1e3",
            ".5GB",
        ] {
            assert!(size(text).unwrap_err().contains("10GiB"), "{text}");
        }
    }

    #[test]
    fn durations() {
        let any = duration(Duration::ZERO);
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("10m", 600),
            ("1h30m", 5400),
            ("1h 30m", 5400),
        ] {
            assert_eq!(any(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "10", "10 apples", "-5m", "5m ago", "9000h", "99999999999999h"] {
            assert!(any(text).is_err(), "{text}");
        }
        assert!(
            duration(Duration::from_secs(1))("10ms")
                .unwrap_err()
                .contains("at least 1s")
        );
    }

    #[test]
    fn registries() {
        assert_eq!(
            registry("Registry.Example.com:5000"),
            Ok("registry.example.com:5000".into())
        );
        assert_eq!(registry("localhost"), Ok("localhost".into()));
        assert_eq!(registry("docker.io"), Ok("docker.io".into()));
        for text in ["", "http://a.b", "a.b/c", "a.b:x", "a.b/", "plain"] {
            assert!(registry(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_typed_never_panics(text in ".{0,40}") {
            let _ = (size(&text), registry(&text), path(&text));
            let _ = (duration(Duration::ZERO)(&text), number(1, 10)(&text));
            prop_assert!(shown(&text).chars().all(|c| !c.is_control()));
        }

        #[test]
        fn sizes_with_units_are_exact(number in 0_u64..1_000_000, unit in 0_usize..10) {
            let (name, factor) = UNITS[unit];
            prop_assert_eq!(size(&format!("{number}{name}")), Ok(number * factor));
        }
    }
}
