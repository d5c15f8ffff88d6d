//! The one sentence that says what is going on.

use std::fmt::Write as _;

use crate::{
    domain::{Phase, Reason},
    machine::{Image, Progress},
};

impl Image {
    /// One sentence for a person: what is going on, or what is waited for.
    pub fn message(&self) -> String {
        if self.awaits_credentials && self.phase != Phase::Unpacked {
            return format!(
                "waits for the credentials of scope {:?}: they are kept in memory only and have to come by Fetch",
                self.wish.scope.0
            );
        }
        let mut text = match self.phase {
            Phase::Initiated => String::from("waits for its turn"),
            Phase::Pulling => self.progress.as_ref().map_or_else(String::new, Progress::pulling),
            Phase::Unpacking => self
                .progress
                .as_ref()
                .map_or_else(String::new, Progress::unpacking),
            Phase::Unpacked => String::from("unpacked"),
            Phase::Retrying => self.retrying(),
            Phase::Failed => String::from("rests until the tag, the wish, a policy or a limit changes"),
        };
        if let Some(error) = &self.last_error {
            let what = if self.phase == Phase::Unpacked {
                "; the last check failed"
            } else {
                "; last error"
            };
            let _ = write!(text, "{what}: {}: {}", error.reason.words(), error.message);
            if let Some(next) = self.next_retry.filter(|_| self.phase != Phase::Retrying) {
                let _ = write!(text, "; looked at again at {next:.0}");
            }
        }
        if self.phase == Phase::Initiated && self.unclaimed_since.is_some() {
            text = String::from("was cancelled, since nobody claims it");
        }
        text
    }

    fn retrying(&self) -> String {
        match (&self.next_retry, &self.progress) {
            (Some(next), _) => format!("attempt {} failed, the next one is at {next:.0}", self.attempt),
            (None, Some(progress)) if !progress.waiting_for.is_empty() => {
                format!("attempt {} waits for {}", self.attempt, progress.waiting_for)
            }
            (None, _) => format!("attempt {} runs", self.attempt),
        }
    }

    /// The reason of the last error, if there is one.
    pub fn reason(&self) -> Option<Reason> {
        self.last_error.as_ref().map(|error| error.reason)
    }
}

impl Progress {
    fn pulling(&self) -> String {
        let mut text = match (self.layers_total, self.bytes_total) {
            (Some(layers), Some(bytes)) => {
                let percent = self
                    .bytes_done
                    .saturating_mul(100)
                    .checked_div(bytes)
                    .unwrap_or(100);
                format!(
                    "{} of {layers} layers, {} of {} ({percent} %)",
                    self.layers_done,
                    size(self.bytes_done),
                    size(bytes)
                )
            }
            _ => String::from("asks for the manifest"),
        };
        if !self.waiting_for.is_empty() {
            let _ = write!(text, "; waits for {}", self.waiting_for);
        }
        text
    }

    fn unpacking(&self) -> String {
        format!(
            "{} in {} entries unpacked",
            size(self.unpacked_bytes),
            self.unpacked_entries
        )
    }
}

/// Bytes for a person, in decimal units with three digits at most, as registries' pages show them.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 9.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_at_most() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_960, "10 kB"),
            (120_000_000, "120 MB"),
            (999_600_000, "1.0 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
