//! The one back-off there is: 1 s doubling to 5 min, with full jitter.

use std::{fmt, time::Duration};

/// The first ceiling.
const FIRST: Duration = Duration::from_secs(1);
/// The last ceiling.
const CAP: Duration = Duration::from_secs(5 * 60);
/// Full jitter may draw zero; an attempt that fails at once should not make a busy loop of it.
const FLOOR: Duration = Duration::from_millis(100);
/// Doublings after which the cap is reached for certain.
const MAX_DOUBLINGS: u32 = 16;
/// A registry's own wish for a pause is followed up to this: an absurd Retry-After must not park an
/// Image for days.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// Draws a delay between zero and a ceiling.
pub struct Jitter(Box<dyn FnMut(Duration) -> Duration + Send>);

impl Jitter {
    /// Uniformly at random.
    pub fn random() -> Self {
        Self(Box::new(|ceiling| ceiling.mul_f64(rand::random::<f64>())))
    }

    /// By a function; for tests.
    pub fn by(draw: impl FnMut(Duration) -> Duration + Send + 'static) -> Self {
        Self(Box::new(draw))
    }

    /// The delay after the `failures`th failure in a row (from 1), not below what the registry asked for.
    pub(super) fn delay(&mut self, failures: u32, retry_after: Option<Duration>) -> Duration {
        let doublings = failures.saturating_sub(1).min(MAX_DOUBLINGS);
        let ceiling = FIRST.saturating_mul(1 << doublings).min(CAP);
        let asked = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        (self.0)(ceiling).max(FLOOR).max(asked)
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_from_one_second_to_five_minutes() {
        let mut jitter = Jitter::by(|ceiling| ceiling);
        let seconds: Vec<_> = (1..12).map(|n| jitter.delay(n, None).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(jitter.delay(u32::MAX, None), CAP);
    }

    #[test]
    fn jitter_is_full_but_never_a_busy_loop() {
        assert_eq!(Jitter::by(|_| Duration::ZERO).delay(5, None), FLOOR);
        let mut random = Jitter::random();
        assert!((0..100).all(|_| random.delay(3, None) <= Duration::from_secs(4)));
    }

    #[test]
    fn what_the_registry_asks_for_is_kept_within_reason() {
        let mut jitter = Jitter::by(|ceiling| ceiling);
        assert_eq!(
            jitter.delay(1, Some(Duration::from_secs(30))),
            Duration::from_secs(30)
        );
        assert_eq!(jitter.delay(1, Some(Duration::MAX)), MAX_RETRY_AFTER);
    }
}
