//! What a running attempt has done so far, counted where it happens and read by whoever reports it.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// Counters of one attempt. They are only ever raised, each by the code that does the work; the
/// reporter samples them, so that counting costs one atomic add and nobody waits for a reader.
#[derive(Debug, Default)]
pub struct Activity {
    /// Compressed bytes that came over the network in this attempt.
    pub bytes_fetched: AtomicU64,
    /// Bytes written to the tree.
    pub unpacked_bytes: AtomicU64,
    /// Archive entries handled.
    pub unpacked_entries: AtomicU64,
    /// Whoever works for this attempt on a thread of its own looks here now and then, and stops.
    cancelled: AtomicBool,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    next: u64,
    open: BTreeMap<u64, String>,
}

/// A wait that is going on; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "the wait ends when this is dropped"]
pub struct Wait<'a> {
    activity: &'a Activity,
    key: u64,
}

impl Activity {
    /// Says what is waited for until the returned value is dropped, such as
    /// `an answer from registry.example.com`.
    pub fn waiting_for(&self, what: impl Into<String>) -> Wait<'_> {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let key = waits.next;
        waits.next += 1;
        waits.open.insert(key, what.into());
        Wait { activity: self, key }
    }

    /// What has been waited for longest; empty: nothing.
    pub fn waits_for(&self) -> String {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.open.values().next().cloned().unwrap_or_default()
    }

    /// Asks all that work for this attempt to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Whether the attempt is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// A number that is another one whenever something has moved since.
    pub fn moved(&self) -> u64 {
        let counters = [&self.bytes_fetched, &self.unpacked_bytes, &self.unpacked_entries];
        counters
            .into_iter()
            .fold(0, |sum, counter| sum.wrapping_add(counter.load(Relaxed)))
    }

    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut waits = self.activity.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.open.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_wait_is_told_until_it_ends() {
        let activity = Activity::default();
        let first = activity.waiting_for("one");
        let second = activity.waiting_for("two");
        assert_eq!(activity.waits_for(), "one");
        drop(first);
        assert_eq!(activity.waits_for(), "two");
        drop(second);
        assert_eq!(activity.waits_for(), "");
    }
}
