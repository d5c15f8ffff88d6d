//! What watchers are told: the latest state of every Image, in the order of its changes.
//!
//! One ordered log serves all watchers; each has only a cursor into it, so that a watcher costs no
//! memory however far behind it is, and nobody ever waits for one.
//!
//! ```text
//!   sequence:   3        7        8        9        12
//!            put a    put b    put b    deleted c  put a
//!                   (Pulling) (Unpacking)
//!                     ^ superseded, kept for a while since it entered a phase
//! ```
//!
//! * Of every Image the latest state stays in the log; what it supersedes goes at once, unless it
//!   entered a phase: then it stays among the last [`MAX_PAST`], so that a watcher that keeps up sees
//!   every phase.
//! * A deletion stays for [`HORIZON`]; whoever resumes from before the oldest one kept is `reset`, and so is
//!   whoever has not read for so long.
//! * A version is `epoch.sequence`. The epoch is a number on the volume that is raised at each start,
//!   so versions never fall; one of another epoch is `reset`.

mod version;
mod watcher;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::Notify;
pub use version::{InvalidVersion, Version};
pub use watcher::{Event, Filter, Watcher};

use crate::{domain::ImageId, machine::Image};

/// How long a deletion is remembered: a client that was away for less resumes without a relist.
pub const HORIZON: Duration = Duration::from_secs(10 * 60);

/// Superseded states that are kept since they entered a phase. A watcher misses a phase only when
/// this many phases were entered by others while it did not read.
const MAX_PAST: usize = 4096;

/// Deletions that are kept; with more than this in [`HORIZON`] the horizon is nearer.
const MAX_TOMBSTONES: usize = 20_000;

/// The log, shared by all.
#[derive(Debug)]
pub struct Hub {
    epoch: u64,
    log: Mutex<Log>,
    /// Woken at each change.
    changed: Notify,
    watchers: AtomicUsize,
}

#[derive(Debug)]
struct Log {
    /// The sequence of the last change.
    last: u64,
    entries: BTreeMap<u64, Record>,
    /// Where each Image's latest state, or its deletion, is.
    latest: HashMap<ImageId, Place>,
    /// Superseded states that are kept, oldest first.
    past: VecDeque<u64>,
    /// Deletions, oldest first, with the time they happened.
    tombstones: VecDeque<(u64, Duration)>,
    /// Deletions up to here may have been forgotten.
    horizon: u64,
}

/// Where an Image is in the log.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its latest state, or its deletion.
    seq: u64,
    /// Its first state.
    born: u64,
}

#[derive(Debug, Clone)]
enum Record {
    Put { image: Arc<Image>, phase: bool },
    Deleted(ImageId),
}

impl Hub {
    /// An empty log in a new epoch.
    pub fn new(epoch: u64) -> Arc<Self> {
        Arc::new(Self {
            epoch,
            log: Mutex::new(Log {
                last: 0,
                entries: BTreeMap::new(),
                latest: HashMap::new(),
                past: VecDeque::new(),
                tombstones: VecDeque::new(),
                horizon: 0,
            }),
            changed: Notify::new(),
            watchers: AtomicUsize::new(0),
        })
    }

    /// An Image is new or has changed; `phase`: it has entered another phase.
    pub fn put(&self, image: Image, phase: bool) {
        let mut log = self.log();
        let id = image.id.clone();
        let image = Arc::new(image);
        log.append(id, Record::Put { image, phase });
        drop(log);
        self.changed.notify_waiters();
    }

    /// An Image is gone, at a time of the monotonic clock.
    pub fn delete(&self, id: &ImageId, now: Duration) {
        let mut log = self.log();
        if !log.latest.contains_key(id) {
            return;
        }
        let seq = log.append(id.clone(), Record::Deleted(id.clone()));
        log.tombstones.push_back((seq, now));
        log.forget(now);
        drop(log);
        self.changed.notify_waiters();
    }

    /// Forgets deletions beyond the horizon.
    pub fn expire(&self, now: Duration) {
        self.log().forget(now);
    }

    /// One Image and its version.
    pub fn get(&self, id: &ImageId) -> Option<(Arc<Image>, Version)> {
        let log = self.log();
        let seq = log.latest.get(id)?.seq;
        match log.entries.get(&seq)? {
            Record::Put { image, .. } => Some((Arc::clone(image), self.version(seq))),
            Record::Deleted(_) => None,
        }
    }

    /// All Images with their versions, in the order of their last changes, and the version of the
    /// whole.
    pub fn list(&self) -> (Vec<(Arc<Image>, Version)>, Version) {
        let log = self.log();
        let images = log
            .entries
            .iter()
            .filter_map(|(seq, record)| match record {
                Record::Put { image, .. } if log.is_latest(*seq, &image.id) => {
                    Some((Arc::clone(image), self.version(*seq)))
                }
                _ => None,
            })
            .collect();
        (images, self.version(log.last))
    }

    /// Begins to watch, after a version or (none) from the current states.
    ///
    /// # Errors
    /// This puller can't have given out the version.
    pub fn watch(
        self: &Arc<Self>,
        after: Option<Version>,
        filter: Filter,
    ) -> Result<Watcher, InvalidVersion> {
        Watcher::new(Arc::clone(self), after, filter)
    }

    /// How many watch.
    pub fn watchers(&self) -> usize {
        self.watchers.load(Relaxed)
    }

    fn version(&self, seq: u64) -> Version {
        Version {
            epoch: self.epoch,
            seq,
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // The log is whole after each change, so a panic elsewhere can't have left it half-changed.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn append(&mut self, id: ImageId, record: Record) -> u64 {
        self.last += 1;
        let seq = self.last;
        let old = self.latest.remove(&id);
        let was_there = old.filter(|old| matches!(self.entries.get(&old.seq), Some(Record::Put { .. })));
        let born = was_there.map_or(seq, |old| old.born);
        if let Some(old) = old {
            self.supersede(old.seq);
        }
        self.entries.insert(seq, record);
        self.latest.insert(id, Place { seq, born });
        seq
    }

    fn supersede(&mut self, seq: u64) {
        match self.entries.get(&seq) {
            Some(Record::Put { phase: true, .. }) => {
                self.past.push_back(seq);
                if self.past.len() > MAX_PAST
                    && let Some(oldest) = self.past.pop_front()
                {
                    self.entries.remove(&oldest);
                }
            }
            // A deletion that was superseded by a new Image of the same id is not needed: `put` says more.
            _ => {
                self.entries.remove(&seq);
            }
        }
    }

    fn forget(&mut self, now: Duration) {
        while let Some((seq, at)) = self.tombstones.front().copied() {
            if self.tombstones.len() <= MAX_TOMBSTONES && at.saturating_add(HORIZON) > now {
                break;
            }
            self.tombstones.pop_front();
            self.horizon = self.horizon.max(seq);
            if let Some(Record::Deleted(id)) = self.entries.get(&seq).cloned() {
                self.entries.remove(&seq);
                if self.is_latest(seq, &id) {
                    self.latest.remove(&id);
                }
            }
        }
    }

    fn is_latest(&self, seq: u64, id: &ImageId) -> bool {
        self.latest.get(id).is_some_and(|place| place.seq == seq)
    }

    /// The sequence of its first state since it was there last.
    fn born(&self, id: &ImageId) -> Option<u64> {
        self.latest.get(id).map(|place| place.born)
    }
}

#[cfg(test)]
mod tests;
