//! What was done in a soak.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::lock;

/// One count.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn up(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    /// At least this.
    pub fn at_least(&self, number: u64) {
        self.0.fetch_max(number, Relaxed);
    }

    /// So far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// All counts. Shown, they are one line.
#[derive(Debug, Default)]
pub struct Counts {
    /// kill -9.
    pub kills: Count,
    /// SIGTERM.
    pub ends: Count,
    /// Starts after one of these.
    pub restarts: Count,
    /// Fetches that were answered, renewals among them.
    pub fetches: Count,
    /// Releases that were answered.
    pub releases: Count,
    /// Calls that found no puller.
    pub unanswered: Count,
    /// Contents published.
    pub pulls: Count,
    /// Tags moved.
    pub moves: Count,
    /// Whole trees read and compared.
    pub reads: Count,
    /// Of them, while the puller was down.
    pub reads_while_down: Count,
    /// Trees that could not be read, whose claim had lapsed meanwhile.
    pub lapsed: Count,
    /// Watch events.
    pub events: Count,
    /// Watches opened.
    pub watches: Count,
    /// Rests that held.
    pub rests: Count,
    /// The largest resident set of the daemon, in bytes.
    pub memory: Count,
    /// The most open file descriptors of the daemon.
    pub descriptors: Count,
    /// The same at rest.
    pub descriptors_at_rest: Count,
    faults: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counts {
    /// So many faults of a kind were served.
    pub fn faults(&self, kind: &'static str, number: u64) {
        *lock(&self.faults).entry(kind).or_default() += number;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("kills", &self.kills),
            ("ends", &self.ends),
            ("restarts", &self.restarts),
            ("fetches", &self.fetches),
            ("releases", &self.releases),
            ("unanswered", &self.unanswered),
            ("pulls", &self.pulls),
            ("moved tags", &self.moves),
            ("reads", &self.reads),
            ("reads while down", &self.reads_while_down),
            ("lapsed", &self.lapsed),
            ("events", &self.events),
            ("watches", &self.watches),
            ("rests", &self.rests),
            ("descriptors", &self.descriptors),
            ("at rest", &self.descriptors_at_rest),
        ];
        for (name, count) in counts {
            write!(f, "{name} {}, ", count.get())?;
        }
        write!(f, "peak memory {} MiB; faults:", self.memory.get() >> 20)?;
        for (kind, number) in &*lock(&self.faults) {
            write!(f, " {kind} {number}")?;
        }
        Ok(())
    }
}
