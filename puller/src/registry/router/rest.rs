//! Mirrors that are left alone for a while.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{domain::Reason, error::Fault};

/// How long a mirror that does not work is left alone: about what a restart takes.
const OUT_OF_ORDER: Duration = Duration::from_secs(60);

/// How long one that sent something else than what was asked for is left alone: what it has cached
/// wrongly will be wrong for as long as nobody has looked at it.
const LYING: Duration = Duration::from_secs(3600);

/// The mirrors that rest, by name as endpoints have it, and why.
#[derive(Debug, Default)]
pub(super) struct Resting(Mutex<HashMap<String, (Instant, String)>>);

impl Resting {
    /// Leaves a mirror alone for as long as the fault asks for; a rest is only lengthened.
    pub(super) fn begin(&self, mirror: &str, fault: &Fault) {
        let now = Instant::now();
        let time = match fault.reason {
            Reason::DigestMismatch => LYING,
            _ => fault.retry_after.unwrap_or(OUT_OF_ORDER),
        };
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        resting.retain(|_, (until, _)| *until > now);
        let rest = resting
            .entry(mirror.to_owned())
            .or_insert_with(|| (now, String::new()));
        if now + time > rest.0 {
            *rest = (now + time, fault.happened.clone());
        }
    }

    /// Why a mirror rests; `None`: it does not.
    pub(super) fn why(&self, mirror: &str) -> Option<String> {
        let resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, why) = resting.get(mirror)?;
        (*until > Instant::now()).then(|| why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(reason: Reason, retry_after: Option<u64>) -> Fault {
        let mut fault = Fault::new(reason, "GET x", "it broke", "");
        fault.retry_after = retry_after.map(Duration::from_secs);
        fault
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_and_is_only_lengthened() {
        let resting = Resting::default();
        assert_eq!(resting.why("m.io"), None);
        resting.begin("m.io", &fault(Reason::Network, None));
        resting.begin("m.io", &fault(Reason::RateLimited, Some(1)));
        tokio::time::advance(OUT_OF_ORDER - Duration::from_secs(1)).await;
        assert_eq!(resting.why("m.io").as_deref(), Some("it broke"));
        assert_eq!(resting.why("other.io"), None);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(resting.why("m.io"), None);
        resting.begin("m.io", &fault(Reason::DigestMismatch, None));
        tokio::time::advance(OUT_OF_ORDER * 2).await;
        assert!(resting.why("m.io").is_some(), "a liar rests for longer");
    }
}
