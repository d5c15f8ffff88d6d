//! One attempt: from a reference to a published tree.
//!
//! ```text
//!   policy -> registry slot -> resolve -> policy, signatures -> plan (index, manifest, config) -> room
//!        |
//!        +-- download, a few layers at a time:  registry -> blob file (hash, write)
//!        +-- unpack, one thread, layer by layer: blob file -> inflate -> tree
//!        |
//!   all layers verified -> tree finished -> publish
//! ```
//!
//! The unpack follows the blob files while they grow, so that neither waits for the other; whatever it
//! makes of bytes that turn out to be wrong is thrown away with its private tree.

mod attempt;
mod download;
mod monitor;
mod plan;
pub mod slots;
mod unpack;
mod verify;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

pub use monitor::Monitor;
pub use slots::Slots;

use crate::{
    domain::{Content, Digest, Scope},
    layer,
    machine::{Need, Plan, Verdict},
    policy,
    registry::Registry,
    store::Volume,
};

/// What an attempt needs of the world.
pub struct Engine {
    /// Where manifests and blobs come from.
    pub registry: Arc<dyn Registry>,
    /// Where everything is kept.
    pub volume: Arc<Volume>,
    /// Which images may be pulled.
    pub policy: Arc<policy::Source>,
    /// Who may go on.
    pub slots: Arc<Slots>,
    /// What an image may hold.
    pub limits: layer::Limits,
    /// Layers of one pull that are downloaded at a time.
    pub layers_at_a_time: usize,
    /// Who has proved that he may have which blob.
    pub origins: Origins,
}

/// What an attempt tells of its steps, while it runs.
pub trait Steps: Send + Sync {
    /// Whether the attempt only looks if what is unpacked is current still.
    fn is_check(&self) -> bool;
    /// It has its turn and asks the registry.
    fn asking(&self);
    /// The reference stands for this digest; whether to go on.
    fn resolved(&self, digest: &Digest) -> Verdict;
    /// The manifest is known.
    fn planned(&self, plan: Plan);
    /// What is known of the room that this content needs.
    fn need(&self, content: &str) -> Need;
    /// All compressed bytes are verified.
    fn downloaded(&self);
}

/// How an attempt ends well.
#[derive(Debug)]
pub enum Outcome {
    /// There was nothing to do.
    Unchanged,
    /// The tree is ready and private; [`Volume::publish`] makes it visible.
    Ready(Box<Ready>),
    /// The same content is published already, and the registry has confirmed that this pull may have it.
    Present(Box<Content>),
}

/// A finished tree, and what is to be recorded of it.
#[derive(Debug)]
pub struct Ready {
    /// The tree.
    pub tree: crate::store::TreeDir,
    /// Its record; the store adds the time of publishing and of the sync.
    pub content: Content,
}

/// Remembers which repositories, and with whose credentials, have been given a blob: such a one may
/// use the copy on the volume. Anybody else has to ask his registry first (decision 2).
#[derive(Debug, Default)]
pub struct Origins(Mutex<HashMap<Digest, Vec<Origin>>>);

/// Registry, repository and credential scope.
type Origin = (String, String, Scope);

impl Origins {
    pub(crate) fn add(&self, digest: &Digest, repository: &crate::registry::Repository) {
        let mut origins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = origins.entry(digest.clone()).or_default();
        let origin = origin(repository);
        if !known.contains(&origin) {
            known.push(origin);
        }
    }

    pub(crate) fn has(&self, digest: &Digest, repository: &crate::registry::Repository) -> bool {
        let origins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        origins
            .get(digest)
            .is_some_and(|known| known.contains(&origin(repository)))
    }

    /// Forgets all but these: what is not on the volume needs no origin.
    pub fn retain(&self, kept: impl Fn(&Digest) -> bool) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|digest, _| kept(digest));
    }
}

fn origin(repository: &crate::registry::Repository) -> Origin {
    (
        repository.registry.clone(),
        repository.path.clone(),
        repository.scope.clone(),
    )
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}
