//! Who leads: the one whose name stands in a Lease, as with client-go's leader election, so that replicas of
//! catalogd and of this program can take turns.
//!
//! Why not a library: the one on this version of kube takes the time that stands in the Lease for the
//! present by its own clock, so that two replicas whose clocks differ can lead at once. Here no clock is
//! compared with another one's: a Lease has expired when it was *seen* unchanged for its whole duration, and
//! who holds it counts from before the request that renewed it.

mod election;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::watch;

pub use self::election::{Election, Timing};

/// Whether this replica leads at this moment. Clones share it.
#[derive(Debug, Clone)]
pub struct Leadership(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// Milliseconds after `began`.
    until: AtomicU64,
    /// Grows with each time that it begins to lead.
    term: AtomicU64,
    changed: watch::Sender<bool>,
}

impl Leadership {
    /// Nobody else is there.
    pub fn alone() -> Self {
        Self::until_millis(u64::MAX)
    }

    /// It does not lead, before an [`Election`] says so.
    pub fn none() -> Self {
        Self::until_millis(0)
    }

    fn until_millis(until: u64) -> Self {
        Self(Arc::new(Shared {
            began: Instant::now(),
            until: AtomicU64::new(until),
            term: AtomicU64::new(0),
            changed: watch::Sender::new(until > 0),
        }))
    }

    /// Whether it leads. It is the time that says so, and not an event: a process that was stopped for a while
    /// does not lead when it goes on.
    pub fn leads(&self) -> bool {
        let now = self.0.began.elapsed().as_millis();
        now < u128::from(self.0.until.load(Ordering::Relaxed))
    }

    /// Tells the times that it led from each other; none: it does not lead. What was known in one term need not
    /// hold in the next: another one may have led between.
    pub fn term(&self) -> Option<u64> {
        let term = self.0.term.load(Ordering::Acquire);
        self.leads().then_some(term)
    }

    /// True, or false, from when it begins, or ceases, to lead.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.0.changed.subscribe()
    }

    /// It leads until then; none: not any more.
    fn set(&self, until: Option<Instant>) {
        let until = until.map_or(0, |until| {
            let millis = until.saturating_duration_since(self.0.began).as_millis();
            u64::try_from(millis).unwrap_or(u64::MAX)
        });
        if !self.leads() {
            self.0.term.fetch_add(1, Ordering::Release);
        }
        self.0.until.store(until, Ordering::Relaxed);
        self.0
            .changed
            .send_if_modified(|leads| std::mem::replace(leads, until > 0) != (until > 0));
    }

    fn left(&self) -> Duration {
        let until = Duration::from_millis(self.0.until.load(Ordering::Relaxed));
        until.saturating_sub(self.0.began.elapsed())
    }
}
