//! What `make soak` is made of: everything at once, at random, for as long as wanted, and every promise
//! checked meanwhile.
//!
//! - [`pool`]: overlapping images under tags that move; [`faults`]: what their registry does wrong.
//! - [`claimant`]: who fetches, renews and releases; what it claims is a [`holding::Holding`].
//! - [`reader`]: reads what is held, byte for byte, also while the puller is down.
//! - [`watcher`]: follows the Watch by its words alone, and checks each event.
//! - [`rest`]: what must be so once nothing happens any more.
//! - [`counts`]: what was done.

pub mod claimant;
pub mod counts;
pub mod faults;
pub mod holding;
pub mod pool;
pub mod reader;
pub mod rest;
pub mod watcher;

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use self::{counts::Counts, holding::Holdings, pool::Pool};

/// How long the puller keeps what nobody claims. Longer than claimants need to come back after a start.
pub const GRACE: Duration = Duration::from_secs(6);

/// What all parts of a soak share.
#[derive(Debug)]
pub struct Ground {
    /// The puller's volume.
    pub volume: PathBuf,
    /// What there is to fetch.
    pub pool: Pool,
    /// What was done so far.
    pub counts: Counts,
    /// What is claimed, and read.
    pub holdings: Holdings,
    life: Mutex<Life>,
    broken: mpsc::UnboundedSender<String>,
}

/// The puller's present life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Its number, from 1.
    pub number: u64,
    /// When it began, or a little earlier.
    pub began: Instant,
    /// Whether all come to rest: nothing new is fetched, and nothing released.
    pub rests: bool,
}

impl Ground {
    /// Around a volume; what is found broken is sent to the receiver.
    pub fn new(volume: PathBuf, pool: Pool) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (broken, findings) = mpsc::unbounded_channel();
        let life = Life {
            number: 1,
            began: Instant::now(),
            rests: false,
        };
        let ground = Self {
            volume,
            pool,
            counts: Counts::default(),
            holdings: Holdings::default(),
            life: Mutex::new(life),
            broken,
        };
        (ground, findings)
    }

    /// The puller's present life.
    pub fn life(&self) -> Life {
        *lock(&self.life)
    }

    /// The puller is about to be started again.
    pub fn new_life(&self) {
        let mut life = lock(&self.life);
        life.number += 1;
        life.began = Instant::now();
    }

    /// Comes to rest, or goes on.
    pub fn rest(&self, rests: bool) {
        lock(&self.life).rests = rests;
    }

    /// A promise does not hold: the soak ends with this.
    pub fn broken(&self, what: impl Into<String>) {
        // Nobody listens any more: another finding was first.
        let _ = self.broken.send(what.into());
    }
}

/// A panic under one of these locks ends the soak by itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
