//! How often a catalog's status is written.

use std::time::{Duration, Instant};

use crate::status::Urgency;

/// Changes of phase that are written at once, one after the other. A line that breaks again and again makes
/// one or two a second.
const BURST: f64 = 8.0;

/// The writes of one catalog.
#[derive(Debug)]
pub(crate) struct Pace {
    last: Option<Instant>,
    /// Changes of phase that may be written at once.
    left: f64,
    refilled: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last: None,
            left: BURST,
            refilled: now,
        }
    }

    /// Whether a status may be written now; if not, when.
    ///
    /// # Errors
    /// The time until then.
    pub(crate) fn allow(
        &mut self,
        urgency: Urgency,
        interval: Duration,
        now: Instant,
    ) -> Result<(), Duration> {
        let intervals = |time: Duration| match interval.is_zero() {
            true => BURST,
            false => time.as_secs_f64() / interval.as_secs_f64(),
        };
        self.left = (self.left + intervals(now.duration_since(self.refilled))).min(BURST);
        self.refilled = now;
        let since = self.last.map(|last| now.duration_since(last));
        let left = since.map_or(Duration::ZERO, |since| interval.saturating_sub(since));
        let may = match urgency {
            Urgency::Content => true,
            Urgency::Phase => left.is_zero() || self.left >= 1.0,
            Urgency::Progress => left.is_zero(),
        };
        if !may {
            return Err(left);
        }
        self.last = Some(now);
        if urgency == Urgency::Phase {
            self.left = (self.left - 1.0).max(0.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    #[test]
    fn progress_waits_and_phases_do_not() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(pace.allow(Urgency::Progress, INTERVAL, began), Ok(()));
        assert_eq!(
            pace.allow(Urgency::Progress, INTERVAL, at(2)),
            Err(Duration::from_secs(3))
        );
        assert_eq!(pace.allow(Urgency::Phase, INTERVAL, at(2)), Ok(()));
        assert_eq!(
            pace.allow(Urgency::Progress, INTERVAL, at(5)),
            Err(Duration::from_secs(2))
        );
        assert_eq!(pace.allow(Urgency::Progress, INTERVAL, at(7)), Ok(()));
    }

    #[test]
    fn phases_that_flap_become_as_rare_as_progress_and_content_never_waits() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        let mut written = 0;
        for tenth in 0..600 {
            let now = began + Duration::from_millis(100) * tenth;
            written += u32::from(pace.allow(Urgency::Phase, INTERVAL, now).is_ok());
            assert!(tenth % 100 != 0 || pace.allow(Urgency::Content, INTERVAL, now).is_ok());
        }
        assert!((10..=22).contains(&written), "{written} in a minute");
    }

    #[test]
    fn no_interval_is_no_limit() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..100 {
            assert_eq!(pace.allow(Urgency::Phase, Duration::ZERO, now), Ok(()));
            assert_eq!(pace.allow(Urgency::Progress, Duration::ZERO, now), Ok(()));
        }
    }
}
