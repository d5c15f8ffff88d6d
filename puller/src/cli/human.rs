//! Numbers, times and names as a person reads them.

use std::time::{Duration, SystemTime};

use puller_client::api;

/// Decimal units, as disks and registries count.
const UNITS: [(&str, u64); 5] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

fn unit_of(bytes: u64) -> (&'static str, u64) {
    UNITS
        .into_iter()
        .find(|(_, factor)| bytes >= *factor)
        .unwrap_or(("B", 1))
}

/// Three digits that count: `1.23`, `12.3`, `123`.
fn in_unit(bytes: u64, factor: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = bytes as f64 / factor as f64;
    match value {
        _ if factor == 1 || value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A size, such as `1.23 GB`.
pub(super) fn size(bytes: u64) -> String {
    let (unit, factor) = unit_of(bytes);
    format!("{} {unit}", in_unit(bytes, factor))
}

/// How much of how much, such as `120/300 MB 40%`. Never 100 % before all is there.
pub(super) fn share(done: u64, total: u64) -> String {
    let (unit, factor) = unit_of(total);
    let percent = u128::from(done.min(total)) * 100 / u128::from(total.max(1));
    let percent = if total == 0 { 100 } else { percent };
    format!(
        "{}/{} {unit} {percent}%",
        in_unit(done, factor),
        in_unit(total, factor)
    )
}

/// A duration in its largest unit, such as `90s`, `12m`, `3h`, `5d`: two units would be noise.
pub(super) fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// A moment; `None`: unset, or out of any clock's range.
pub(super) fn time(timestamp: Option<&prost_types::Timestamp>) -> Option<SystemTime> {
    timestamp.and_then(|timestamp| SystemTime::try_from(*timestamp).ok())
}

/// The phase as the documentation writes it.
pub(super) fn phase(image: &api::Image) -> &'static str {
    match image.phase() {
        api::Phase::Unspecified => "Unknown",
        api::Phase::Initiated => "Initiated",
        api::Phase::Pulling => "Pulling",
        api::Phase::Unpacking => "Unpacking",
        api::Phase::Unpacked => "Unpacked",
        api::Phase::Retrying => "Retrying",
        api::Phase::Failed => "Failed",
    }
}

/// How far it is: compressed bytes while they come, then what was made of them.
pub(super) fn progress(image: &api::Image) -> String {
    match (image.phase(), &image.content, &image.progress) {
        (api::Phase::Unpacked, Some(content), _) => size(content.size),
        (api::Phase::Unpacking, _, Some(progress)) => format!("{} written", size(progress.unpacked_bytes)),
        (
            _,
            _,
            Some(api::Progress {
                bytes_done,
                bytes_total: Some(total),
                ..
            }),
        ) => share(*bytes_done, *total),
        _ => "-".to_owned(),
    }
}

/// What a person should know beside the phase: the last error where it is what counts.
pub(super) fn message(image: &api::Image) -> String {
    let failing = matches!(image.phase(), api::Phase::Retrying | api::Phase::Failed);
    match &image.last_error {
        Some(error) if failing => format!("{}: {}", words(error.reason()), error.message),
        _ => image.message.clone(),
    }
}

/// How long until the next attempt begins by itself; `None`: none is planned.
pub(super) fn next_attempt(image: &api::Image, now: SystemTime) -> Option<String> {
    let next = time(image.next_retry.as_ref())?;
    Some(duration(next.duration_since(now).unwrap_or_default()))
}

/// The reason as a person reads it.
pub(super) fn words(reason: api::Reason) -> String {
    match super::pull::reason(reason) {
        Some(reason) => reason.words().to_owned(),
        None => "unknown reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (12_345_678, "12.3 MB"),
            (300_000_000, "300 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(share(120_000_000, 300_000_000), "120/300 MB 40%");
        assert_eq!(share(299_999_999, 300_000_000), "300/300 MB 99%");
        assert_eq!(share(0, 0), "0/0 B 100%");
        assert_eq!(share(u64::MAX, u64::MAX), "18446744/18446744 TB 100%");
    }

    #[test]
    fn durations() {
        for (seconds, text) in [
            (0, "0s"),
            (90, "90s"),
            (600, "10m"),
            (7_200, "2h"),
            (1_000_000, "11d"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
