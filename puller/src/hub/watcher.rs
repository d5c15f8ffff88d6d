//! One watcher: a cursor into the log, and a filter.

use std::{
    collections::{HashSet, VecDeque},
    ops::Bound,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use super::{Hub, InvalidVersion, Log, Record, Version};
use crate::{domain::ImageId, machine::Image};

/// What a watcher wants to hear of.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only what this claimant claims; empty: all.
    pub claimant: String,
    /// Only these; empty: all.
    pub ids: HashSet<ImageId>,
}

impl Filter {
    pub(super) fn wants(&self, image: &Image) -> bool {
        self.claimant.is_empty() || image.claims.contains_key(&self.claimant)
    }

    fn covers(&self, id: &ImageId) -> bool {
        self.ids.is_empty() || self.ids.contains(id)
    }
}

/// One thing to tell a watcher. See `WatchEvent` in the proto file.
#[derive(Debug, Clone)]
pub enum Event {
    /// New or changed.
    Put(Arc<Image>, Version),
    /// Gone, or out of the filter.
    Deleted(ImageId, Version),
    /// A version to resume from.
    Bookmark {
        /// The version.
        version: Version,
        /// All current states have been told.
        synced: bool,
    },
    /// What is not put before the next synced bookmark is gone.
    Reset,
}

/// All current states are told.
#[derive(Debug)]
struct Sync {
    /// The last sequence when it began.
    start: u64,
    /// All is told up to here. An Image that changes meanwhile may escape the cursor, which was not there yet
    /// before the change and will not come there before the end: then the end is put off.
    end: u64,
    /// The Images that were looked at, where it begins anew.
    seen: HashSet<ImageId>,
}

impl Sync {
    fn new(last: u64) -> Self {
        Self {
            start: last,
            end: last,
            seen: HashSet::new(),
        }
    }
}

/// A watcher.
#[derive(Debug)]
pub struct Watcher {
    hub: Arc<Hub>,
    filter: Filter,
    /// The last sequence that was looked at.
    cursor: u64,
    /// The version of the last event.
    told: u64,
    /// Deletions up to here were forgotten already when it began: it was never told of what they deleted.
    horizon: u64,
    /// The current states are being told.
    syncing: Option<Sync>,
    /// What has been put and is in the filter; only kept where an Image can leave the filter.
    put: HashSet<ImageId>,
    /// It resumed: Images that left the filter before may be known to it.
    resumed: bool,
    ready: VecDeque<Event>,
}

impl Watcher {
    pub(super) fn new(hub: Arc<Hub>, after: Option<Version>, filter: Filter) -> Result<Self, InvalidVersion> {
        let (last, horizon) = {
            let log = hub.log();
            (log.last, log.horizon)
        };
        hub.watchers.fetch_add(1, Relaxed);
        let mut watcher = Self {
            filter,
            cursor: 0,
            told: 0,
            horizon,
            syncing: Some(Sync::new(last)),
            put: HashSet::new(),
            resumed: false,
            ready: VecDeque::new(),
            hub,
        };
        match after {
            None => {}
            Some(version) if version > watcher.hub.version(last) => {
                return Err(InvalidVersion(version.to_string()));
            }
            Some(version) if version.epoch == watcher.hub.epoch && version.seq >= horizon => {
                watcher.cursor = version.seq;
                watcher.told = version.seq;
                watcher.resumed = true;
            }
            Some(_) => watcher.ready.push_back(Event::Reset),
        }
        Ok(watcher)
    }

    /// The next event; waits until there is one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Event {
        loop {
            let hub = Arc::clone(&self.hub);
            let changed = hub.changed.notified();
            tokio::pin!(changed);
            // Registered before the log is looked at, so that no change falls between the two.
            changed.as_mut().enable();
            if let Some(event) = self.try_next() {
                return event;
            }
            changed.await;
        }
    }

    /// A bookmark, if things have happened that the filter keeps from this watcher: without one, its
    /// version would fall behind the horizon while nothing is told.
    pub fn bookmark(&mut self) -> Option<Event> {
        if self.syncing.is_some() || self.cursor <= self.told {
            return None;
        }
        self.told = self.cursor;
        Some(Event::Bookmark {
            version: self.hub.version(self.cursor),
            synced: false,
        })
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        let event = self.look()?;
        if let Event::Put(_, version) | Event::Deleted(_, version) | Event::Bookmark { version, .. } = &event
        {
            self.told = version.seq;
        }
        Some(event)
    }

    fn look(&mut self) -> Option<Event> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        let hub = Arc::clone(&self.hub);
        let log = hub.log();
        if log.horizon > self.cursor.max(self.horizon) {
            return Some(self.begin_anew(&log));
        }
        while let Some((seq, record)) = log
            .entries
            .range((Bound::Excluded(self.cursor), Bound::Unbounded))
            .next()
        {
            if let Some(sync) = &self.syncing
                && *seq > sync.end
                && !self.put_end_off(&log)
            {
                return self.synced();
            }
            self.cursor = *seq;
            if let Some(event) = self.event(&log, *seq, record) {
                return Some(event);
            }
        }
        self.synced()
    }

    /// Puts the end off, if an Image that was there when it began anew has escaped it so far; says whether one
    /// has. Each has at most one latest state, so this comes to an end unless they change faster than somebody
    /// reads.
    fn put_end_off(&mut self, log: &Log) -> bool {
        let Some(sync) = self.syncing.as_mut().filter(|_| !self.resumed) else {
            return false;
        };
        let mut later = log
            .entries
            .range((Bound::Excluded(sync.end), Bound::Unbounded))
            .rev();
        let escaped = later.find(|(seq, record)| match record {
            Record::Put { image, .. } => {
                let id = &image.id;
                log.is_latest(**seq, id)
                    && log.born(id).is_some_and(|born| born <= sync.start)
                    && self.filter.covers(id)
                    && !sync.seen.contains(id)
            }
            Record::Deleted(_) => false,
        });
        let Some((seq, _)) = escaped else { return false };
        sync.end = *seq;
        true
    }

    /// It has not read for so long that deletions which it was not told of are forgotten: it gets what is, like
    /// whoever resumes that late.
    fn begin_anew(&mut self, log: &Log) -> Event {
        self.cursor = 0;
        self.told = 0;
        self.horizon = log.horizon;
        self.syncing = Some(Sync::new(log.last));
        self.put.clear();
        self.resumed = false;
        Event::Reset
    }

    fn synced(&mut self) -> Option<Event> {
        let Sync { end, .. } = self.syncing.take()?;
        self.cursor = self.cursor.max(end);
        Some(Event::Bookmark {
            version: self.hub.version(end),
            synced: true,
        })
    }

    fn event(&mut self, log: &Log, seq: u64, record: &Record) -> Option<Event> {
        let version = self.hub.version(seq);
        match record {
            Record::Put { image, .. } => {
                if !self.filter.covers(&image.id) {
                    return None;
                }
                if let Some(sync) = self.syncing.as_mut().filter(|_| !self.resumed) {
                    // Somebody who begins anew gets what is, not how it came to be.
                    let was_there =
                        seq <= sync.start || log.born(&image.id).is_some_and(|born| born <= sync.start);
                    if was_there && !log.is_latest(seq, &image.id) && !sync.seen.contains(&image.id) {
                        return None;
                    }
                    sync.seen.insert(image.id.clone());
                }
                if self.filter.wants(image) {
                    if !self.filter.claimant.is_empty() {
                        self.put.insert(image.id.clone());
                    }
                    return Some(Event::Put(Arc::clone(image), version));
                }
                let known = self.put.remove(&image.id) || self.resumed;
                known.then(|| Event::Deleted(image.id.clone(), version))
            }
            Record::Deleted(id) => {
                // What was gone when it began was never told.
                let anew = !self.resumed && self.syncing.as_ref().is_some_and(|sync| seq <= sync.start);
                let known = self.filter.claimant.is_empty() || self.put.remove(id) || self.resumed;
                (self.filter.covers(id) && known && !anew).then(|| Event::Deleted(id.clone(), version))
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.hub.watchers.fetch_sub(1, Relaxed);
    }
}
