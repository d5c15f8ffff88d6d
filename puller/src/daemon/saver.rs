//! Writes Images' records, in the background, one at a time.
//!
//! What is queued is the id, not the state: whoever is written gets the state of that moment, so a
//! busy Image costs one write however often it changed meanwhile.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::task::JoinHandle;

use super::Daemon;
use crate::{domain::ImageId, error::Fault, machine::Saved};

/// The queue of records to be written.
#[derive(Debug, Default)]
pub(super) struct Saver {
    queue: Mutex<Queue>,
    pushed: Condvar,
    /// Held while a record is read from the machine and written.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<ImageId>,
    queued: HashSet<ImageId>,
    closed: bool,
}

impl Saver {
    /// The record of this Image is to be written, or removed where there is no such Image.
    pub(super) fn push(&self, id: ImageId) {
        let mut queue = self.lock();
        if queue.queued.insert(id.clone()) {
            queue.order.push_back(id);
            self.pushed.notify_one();
        }
    }

    /// The queue need not write this one.
    fn take(&self, id: &ImageId) {
        self.lock().queued.remove(id);
    }

    /// Nothing more will come; the thread ends when all is written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.pushed.notify_one();
    }

    /// Keeps all others from writing records.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<ImageId> {
        let mut queue = self.lock();
        loop {
            if let Some(id) = queue.order.pop_front() {
                if queue.queued.remove(&id) {
                    return Some(id);
                }
                // Somebody else has taken it.
                continue;
            }
            if queue.closed {
                return None;
            }
            queue = self.pushed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Daemon {
    pub(super) fn spawn_saver(self: &Arc<Self>) -> JoinHandle<()> {
        let daemon = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            while let Some(id) = daemon.saver.next() {
                daemon.save(&id);
            }
        })
    }

    /// Waits until the record is on disk as the Image is now.
    pub(super) async fn save_now(self: &Arc<Self>, id: ImageId) {
        let daemon = Arc::clone(self);
        let saved = tokio::task::spawn_blocking(move || {
            // What was taken from the queue a moment ago may not be written yet, so it is written here in
            // any case.
            daemon.saver.take(&id);
            daemon.save(&id);
        });
        if let Err(panic) = saved.await {
            tracing::error!(%panic, "an image's record could not be written");
        }
    }

    fn save(&self, id: &ImageId) {
        let _writing = self.saver.writing();
        let saved = self.machine().saved(id);
        let written = match saved {
            Some(saved) => self.write(&saved),
            None => self.engine.volume.remove_image(id),
        };
        if let Err(fault) = written {
            // Costs at worst what a crash would cost: a claim or an attempt's number. The next change of
            // this Image tries again.
            tracing::error!(%id, %fault, "an image's record could not be written");
        }
    }

    pub(super) fn write(&self, saved: &Saved) -> Result<(), Fault> {
        self.engine.volume.save_image(&saved.into())
    }
}
