//! What the conditions say to people.

use std::fmt::Write as _;

use jiff::Timestamp;
use puller_client::api::{Image, Progress, Reason};

/// Characters of an error of the puller that are repeated: enough for any of its own, and not for a page that
/// a registry sent instead of an answer.
const ERROR_LENGTH: usize = 1_000;

/// "Pulling quay.io/a/b:latest: layer 1 of 3, 120 of 300 MB (40 %), attempt 2; last error: …".
pub(crate) fn pulling(reference: &str, image: &Image) -> String {
    let mut text = format!("Pulling {reference}");
    let progress = image.progress.clone().unwrap_or_default();
    match (progress.layers_total, progress.bytes_total) {
        (Some(layers), Some(bytes)) => {
            let layer = (progress.layers_done + 1).min(layers);
            let done = u128::from(progress.bytes_done.min(bytes));
            let percent = (done * 100).checked_div(bytes.into()).unwrap_or(100);
            let (done, all) = megabytes(progress.bytes_done, bytes);
            push(
                &mut text,
                format_args!(": layer {layer} of {layers}, {done} of {all} MB ({percent} %)"),
            );
        }
        _ => text.push_str(": asking the registry"),
    }
    attempt(&mut text, image, &progress);
    text
}

/// "Unpacking quay.io/a/b:latest: 120 MB in 400 entries so far".
pub(crate) fn unpacking(reference: &str, image: &Image) -> String {
    let progress = image.progress.clone().unwrap_or_default();
    let (done, _) = megabytes(progress.unpacked_bytes, progress.unpacked_bytes);
    let mut text = format!(
        "Unpacking {reference}: {done} MB in {} entries so far",
        progress.unpacked_entries
    );
    attempt(&mut text, image, &progress);
    text
}

fn attempt(text: &mut String, image: &Image, progress: &Progress) {
    if image.attempt > 1 {
        push(text, format_args!(", attempt {}", image.attempt));
    }
    if !progress.waiting_for.is_empty() {
        push(
            text,
            format_args!("; waiting for {}", shorten(&progress.waiting_for, ERROR_LENGTH)),
        );
    }
    if let Some(error) = &image.last_error {
        push(
            text,
            format_args!("; last error: {}", shorten(&error.message, ERROR_LENGTH)),
        );
    }
}

/// "quay.io/a/b:latest: unauthorized: …; attempt 3 failed, the next one begins at …".
pub(crate) fn retrying(reference: &str, image: &Image) -> String {
    let mut text = failure(reference, image);
    match (time(image.next_retry.as_ref()), &image.last_error) {
        (Some(next), Some(error)) => {
            push(
                &mut text,
                format_args!(
                    "; attempt {} failed, the next one begins at {next}",
                    error.attempt
                ),
            );
        }
        (Some(next), None) => push(&mut text, format_args!("; the next attempt begins at {next}")),
        (None, _) => {
            push(&mut text, format_args!("; attempt {} is running", image.attempt));
            let waits = image
                .progress
                .as_ref()
                .map_or("", |progress| progress.waiting_for.as_str());
            if !waits.is_empty() {
                push(
                    &mut text,
                    format_args!(", waiting for {}", shorten(waits, ERROR_LENGTH)),
                );
            }
        }
    }
    text
}

/// A tag that could not be asked for again; what it stood for is here.
pub(crate) fn checking_failed(reference: &str, image: &Image) -> String {
    let mut text = format!(
        "What is served stays, but the tag could not be checked again: {}",
        failure(reference, image)
    );
    if let Some(next) = time(image.next_retry.as_ref()) {
        push(&mut text, format_args!("; it is tried again at {next}"));
    }
    text
}

/// What was pulled can't be content.
pub(crate) fn rests(reference: &str, image: &Image) -> String {
    let mut text = failure(reference, image);
    match time(image.next_retry.as_ref()) {
        Some(next) => push(&mut text, format_args!("; it is looked at again at {next}")),
        None => {
            text.push_str(
                "; the same image is not tried again: name another one, or change what it fails by",
            );
        }
    }
    text
}

fn failure(reference: &str, image: &Image) -> String {
    match &image.last_error {
        Some(error) => format!(
            "{reference}: {}: {}",
            reason(error.reason()),
            shorten(&error.message, ERROR_LENGTH)
        ),
        None => format!("{reference}: {}", shorten(&image.message, ERROR_LENGTH)),
    }
}

/// "not found" for `NOT_FOUND`.
fn reason(reason: Reason) -> String {
    reason.as_str_name().to_lowercase().replace('_', " ")
}

/// RFC 3339, in whole seconds.
fn time(time: Option<&prost_types::Timestamp>) -> Option<String> {
    Some(Timestamp::from_second(time?.seconds).ok()?.to_string())
}

/// Two sizes in MB, with a decimal while the second one is small.
fn megabytes(some: u64, all: u64) -> (String, String) {
    const MEGABYTE: f64 = 1e6;
    /// Below this many MB a decimal says something.
    const SMALL: f64 = 10.0;
    let (some, all) = (some as f64 / MEGABYTE, all as f64 / MEGABYTE);
    let decimals = usize::from(all < SMALL);
    (format!("{some:.decimals$}"), format!("{all:.decimals$}"))
}

/// At most this many characters.
pub(crate) fn shorten(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => text.chars().take(longest - 1).chain(['…']).collect(),
    }
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = text.write_fmt(more);
}

#[cfg(test)]
mod tests {
    use puller_client::api::{AttemptError, Phase};

    use super::*;

    fn image() -> Image {
        Image {
            phase: Phase::Pulling.into(),
            attempt: 2,
            progress: Some(Progress {
                layers_done: 0,
                layers_total: Some(3),
                bytes_done: 120_000_000,
                bytes_total: Some(300_000_000),
                ..Default::default()
            }),
            last_error: Some(AttemptError {
                reason: Reason::NotFound.into(),
                message: "the registry has no such blob".into(),
                attempt: 1,
                ..Default::default()
            }),
            next_retry: Some(prost_types::Timestamp {
                seconds: 86_400,
                nanos: 5,
            }),
            ..Default::default()
        }
    }

    #[test]
    fn they_say_how_far_it_is() {
        assert_eq!(
            pulling("q.io/a/b:v1", &image()),
            "Pulling q.io/a/b:v1: layer 1 of 3, 120 of 300 MB (40 %), attempt 2; last error: the registry has no such blob"
        );
    }

    #[test]
    fn they_say_what_failed_and_when_it_is_tried_again() {
        assert_eq!(
            retrying("q.io/a/b:v1", &image()),
            "q.io/a/b:v1: not found: the registry has no such blob; attempt 1 failed, the next one begins at 1970-01-02T00:00:00Z"
        );
    }

    #[test]
    fn a_total_that_is_wrong_or_nothing_is_no_reason_to_panic() {
        let mut image = image();
        image.progress = Some(Progress {
            layers_total: Some(0),
            bytes_total: Some(0),
            bytes_done: u64::MAX,
            ..Default::default()
        });
        assert!(
            pulling("r", &image).contains("layer 0 of 0"),
            "{}",
            pulling("r", &image)
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }
}
