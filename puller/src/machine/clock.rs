//! Time as the machine is told it.

use std::time::Duration;

use jiff::Timestamp;

/// One moment by two clocks. What is planned goes by the monotonic one, so that setting the wall clock
/// neither starts nor delays anything; what is shown, recorded and compared with `max_age` goes by the
/// wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since the process began.
    pub mono: Duration,
    /// UTC.
    pub wall: Timestamp,
}

impl Now {
    /// The wall clock at a moment of the monotonic one, as far as it can be known now.
    pub fn wall_at(&self, mono: Duration) -> Timestamp {
        let ahead = jiff::SignedDuration::try_from(mono.saturating_sub(self.mono))
            .unwrap_or(jiff::SignedDuration::MAX);
        self.wall.checked_add(ahead).unwrap_or(Timestamp::MAX)
    }

    /// The monotonic clock at a moment of the wall clock, not before now.
    pub fn mono_at(&self, wall: Timestamp) -> Duration {
        let ahead = wall.duration_since(self.wall);
        self.mono
            .saturating_add(Duration::try_from(ahead).unwrap_or_default())
    }

    /// Whether `then` is further back than `age`. A time in the future counts as long ago: the clock
    /// that wrote it was wrong.
    pub fn is_older(&self, then: Timestamp, age: Duration) -> bool {
        match Duration::try_from(self.wall.duration_since(then)) {
            Ok(elapsed) => elapsed > age,
            Err(_) => true,
        }
    }
}

/// `then` plus a duration, at most the last timestamp there is.
pub fn after(then: Timestamp, duration: Duration) -> Timestamp {
    let ahead = jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX);
    then.checked_add(ahead).unwrap_or(Timestamp::MAX)
}

/// `then` minus a duration, at least the first timestamp there is.
pub fn before(then: Timestamp, duration: Duration) -> Timestamp {
    let back = jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX);
    then.checked_sub(back).unwrap_or(Timestamp::MIN)
}
