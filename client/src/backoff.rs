//! Pauses between attempts to reach the puller.

use std::time::Duration;

/// A restart of the puller takes about this long.
const FIRST: Duration = Duration::from_millis(250);
/// Whoever waits for a puller that is long gone still learns soon that it is back.
const LONGEST: Duration = Duration::from_secs(10);

/// Pauses that double, with jitter, so that many who lost the same puller do not come back at the same
/// moment. This is for the connection only: pulls have their own back-off, in the puller.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Sleeps for the next pause: 250 ms at first, at most 10 s, less up to a half.
    pub async fn sleep(&mut self) {
        let pause = self.next();
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
    }

    /// Begins anew: the puller has answered.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    fn next(&mut self) -> Duration {
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        pause.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let first: Vec<_> = (0..7).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(first, [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000]);
        assert_eq!(Backoff { failures: u32::MAX }.next(), LONGEST);
        backoff.reset();
        assert_eq!(backoff.next(), FIRST);
    }
}
