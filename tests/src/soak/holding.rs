//! Content that a claimant holds, and for how long it may rely on that.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{GRACE, Life, lock};
use crate::tree::Tree;

/// The content of one claim.
#[derive(Debug)]
pub struct Holding {
    /// Who holds it, and what, for a person.
    pub name: String,
    /// Relative to the volume.
    pub path: PathBuf,
    /// The manifest that it was made of.
    pub digest: String,
    /// When it was published, as the puller tells it: the same path may be published again later.
    pub published: Option<prost_types::Timestamp>,
    /// What it is to be.
    pub tree: Arc<Tree>,
    /// How long its claim holds.
    pub ttl: Option<Duration>,
    renewed: Mutex<Renewed>,
    ended: AtomicBool,
}

/// The last Fetch that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Renewed {
    /// The life of the puller in which it was sent.
    pub life: u64,
    /// When it was sent.
    pub at: Instant,
}

impl Holding {
    /// Found in the answer to a Fetch.
    pub fn new(
        name: String,
        content: &puller_api::v1::Content,
        tree: Arc<Tree>,
        ttl: Option<Duration>,
        renewed: Renewed,
    ) -> Self {
        Self {
            name,
            path: PathBuf::from(&content.path),
            digest: content.manifest_digest.clone(),
            published: content.published,
            tree,
            ttl,
            renewed: Mutex::new(renewed),
            ended: AtomicBool::new(false),
        }
    }

    /// Its claim was renewed.
    pub fn renew(&self, renewed: Renewed) {
        *lock(&self.renewed) = renewed;
    }

    /// When it was renewed last.
    pub fn renewed(&self) -> Renewed {
        *lock(&self.renewed)
    }

    /// It is about to be let go.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Whether it must still be there by what was known `then`. A crash may lose a claim of the last
    /// moments; who comes back within the grace period after a start finds all there.
    pub fn is_assured(&self, then: Renewed, life: Life) -> bool {
        let now = Instant::now();
        let is_known = then.life == life.number || now < life.began + GRACE;
        let lasts = self.ttl.is_none_or(|ttl| now < then.at + ttl);
        !self.ended.load(Ordering::SeqCst) && is_known && lasts
    }
}

/// All that is held.
#[derive(Debug, Default)]
pub struct Holdings(Mutex<Vec<Arc<Holding>>>);

impl Holdings {
    /// One more.
    pub fn add(&self, holding: Arc<Holding>) {
        lock(&self.0).push(holding);
    }

    /// Those that have not ended.
    pub fn all(&self) -> Vec<Arc<Holding>> {
        let mut holdings = lock(&self.0);
        holdings.retain(|holding| !holding.ended.load(Ordering::SeqCst));
        holdings.clone()
    }
}
