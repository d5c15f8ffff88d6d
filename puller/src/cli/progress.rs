//! Progress on stderr: a bar on a terminal, plain lines off it.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant, SystemTime},
};

use indicatif::{ProgressBar, ProgressStyle};
use puller_client::api::{self, Phase};

use super::{escape, human};

/// Plain lines that tell only of bytes come this often: a log must stay readable.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The bar moves this often although nothing is told, so that a person sees that it lives.
const TICK: Duration = Duration::from_millis(120);

/// Shows the states of one pull.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines(Lines),
}

impl Progress {
    /// On stderr: a bar where it is a terminal.
    pub fn on_stderr() -> Self {
        let shown = match io::stderr().is_terminal() {
            true => {
                let bar = ProgressBar::new_spinner();
                bar.enable_steady_tick(TICK);
                Shown::Bar(bar)
            }
            false => Shown::Lines(Lines::default()),
        };
        Self {
            begun: Instant::now(),
            shown,
        }
    }

    /// Shows a state.
    pub fn show(&mut self, image: &api::Image) {
        match &mut self.shown {
            Shown::Bar(bar) => show_bar(bar, image),
            Shown::Lines(lines) => {
                if let Some(line) = lines.next(image, self.begun.elapsed(), SystemTime::now()) {
                    say(&line);
                }
            }
        }
    }

    /// Says something beside the states.
    pub fn note(&mut self, text: &str) {
        let text = escape::line(text);
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| say(&text)),
            Shown::Lines(_) => say(&text),
        }
    }

    /// Takes the bar away; what comes after it on the terminal stands alone.
    pub fn finish(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A line on stderr. Nobody may be there to read it, and that is no reason to end.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

const PULLING: &str = "{spinner} {prefix} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} {wide_msg}";
const OTHERWISE: &str = "{spinner} {prefix} {wide_msg}";

fn show_bar(bar: &ProgressBar, image: &api::Image) {
    let known = image
        .progress
        .as_ref()
        .and_then(|progress| Some((progress.bytes_done, progress.bytes_total?)));
    let template = match (image.phase(), known) {
        (Phase::Pulling, Some((done, total))) => {
            bar.set_length(total.max(1));
            bar.set_position(done);
            PULLING
        }
        _ => OTHERWISE,
    };
    // The templates are our own; `the_templates_are_valid` holds them to it.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(human::phase(image));
    bar.set_message(details(image, false, SystemTime::now()));
}

/// Plain lines: one for each change that matters, and now and then one for bytes.
#[derive(Debug, Default)]
struct Lines {
    last: Option<(Matter, Duration)>,
}

/// What gets a line at once when it changes.
#[derive(Debug, PartialEq)]
struct Matter {
    phase: i32,
    attempt: u32,
    waiting_for: String,
    error: Option<api::AttemptError>,
}

impl Lines {
    /// The line for a state, `elapsed` after the beginning; `None`: it is not worth one.
    fn next(&mut self, image: &api::Image, elapsed: Duration, now: SystemTime) -> Option<String> {
        let matter = Matter {
            phase: image.phase,
            attempt: image.attempt,
            waiting_for: image
                .progress
                .as_ref()
                .map(|p| p.waiting_for.clone())
                .unwrap_or_default(),
            error: image.last_error.clone(),
        };
        if let Some((last, at)) = &self.last
            && *last == matter
            && elapsed.saturating_sub(*at) < LINE_EVERY
        {
            return None;
        }
        self.last = Some((matter, elapsed));
        let details = details(image, true, now);
        Some(
            format!(
                "{:7.1}s {:<9} {details}",
                elapsed.as_secs_f64(),
                human::phase(image)
            )
            .trim_end()
            .to_owned(),
        )
    }
}

/// What is known beside the phase, escaped.
fn details(image: &api::Image, bytes: bool, now: SystemTime) -> String {
    let mut text = String::new();
    let mut add = |part: &str| {
        if !part.is_empty() {
            let gap = if text.is_empty() { "" } else { ", " };
            // Writing to a String can't fail.
            let _ = write!(text, "{gap}{part}");
        }
    };
    if let Some(progress) = &image.progress {
        if bytes && matches!(image.phase(), Phase::Pulling | Phase::Unpacking | Phase::Unpacked) {
            add(&human::progress(image));
        }
        if let (Phase::Pulling, Some(total)) = (image.phase(), progress.layers_total) {
            add(&format!("{} of {total} layers", progress.layers_done));
        }
        if image.phase() == Phase::Unpacking {
            add(&format!("{} entries", progress.unpacked_entries));
        }
        if !progress.waiting_for.is_empty() {
            add(&format!("waits for {}", progress.waiting_for));
        }
    }
    match image.phase() {
        Phase::Unpacked => {
            if let Some(content) = &image.content {
                add(&format!("{} files in {}", content.files, content.path));
            }
        }
        Phase::Retrying | Phase::Failed => {
            add(&format!("attempt {}", image.attempt));
            if let Some(wait) = human::next_attempt(image, now) {
                add(&format!("the next in {wait}"));
            }
            add(&human::message(image));
        }
        Phase::Unspecified | Phase::Initiated | Phase::Pulling | Phase::Unpacking => {}
    }
    escape::line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(phase: Phase, bytes: u64) -> api::Image {
        let progress = api::Progress {
            bytes_done: bytes,
            bytes_total: Some(300_000_000),
            layers_total: Some(3),
            ..Default::default()
        };
        api::Image {
            phase: phase.into(),
            attempt: 1,
            progress: Some(progress),
            ..Default::default()
        }
    }

    #[test]
    fn the_templates_are_valid() {
        for template in [PULLING, OTHERWISE] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn plain_lines_tell_what_matters_at_once_and_bytes_now_and_then() {
        let mut lines = Lines::default();
        let mut at = |image: &api::Image, seconds: f64| {
            lines.next(image, Duration::from_secs_f64(seconds), SystemTime::UNIX_EPOCH)
        };
        let first = at(&image(Phase::Pulling, 0), 0.0);
        assert_eq!(
            first.as_deref(),
            Some("    0.0s Pulling   0.00/300 MB 0%, 0 of 3 layers")
        );
        assert_eq!(at(&image(Phase::Pulling, 1_000_000), 1.0), None);
        let later = at(&image(Phase::Pulling, 120_000_000), 5.0);
        assert_eq!(
            later.as_deref(),
            Some("    5.0s Pulling   120/300 MB 40%, 0 of 3 layers")
        );
        let mut waiting = image(Phase::Pulling, 120_000_000);
        waiting.progress.as_mut().unwrap().waiting_for = "quay.io\n".into();
        assert!(at(&waiting, 5.1).unwrap().ends_with("waits for quay.io\\n"));
        let unpacking = at(&image(Phase::Unpacking, 300_000_000), 5.2);
        assert_eq!(
            unpacking.as_deref(),
            Some("    5.2s Unpacking 0 B written, 0 entries")
        );

        let error = api::AttemptError {
            reason: api::Reason::Tls.into(),
            message: "no".into(),
            ..Default::default()
        };
        let retrying = api::Image {
            last_error: Some(error),
            next_retry: Some(prost_types::Timestamp { seconds: 8, nanos: 0 }),
            ..image(Phase::Retrying, 0)
        };
        let line = at(&retrying, 6.0);
        assert_eq!(
            line.as_deref(),
            Some("    6.0s Retrying  attempt 1, the next in 8s, TLS: no")
        );
    }
}
