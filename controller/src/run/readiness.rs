//! When this replica is ready: when it has what statuses say is served, so that a rolling update takes no old
//! replica away before its content is here. Who leads does not matter, else a new replica would wait for the
//! old one to go, and the update for the new one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::known::Known;
use crate::{
    api::{AvailabilityMode, ClusterCatalog},
    store::Store,
};

/// A registry that is away must not keep an update from going on for ever.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Whether this replica is ready. Once it is, it stays so.
#[derive(Debug, Clone)]
pub(super) struct Readiness {
    began: Instant,
    objects: Known,
    store: Arc<Store>,
    was: Arc<AtomicBool>,
}

impl Readiness {
    pub(super) fn new(objects: Known, store: Arc<Store>) -> Self {
        Self {
            began: Instant::now(),
            objects,
            store,
            was: Arc::default(),
        }
    }

    /// # Errors
    /// What is waited for.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.was.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.began.elapsed() < PATIENCE {
            if !self.objects.is_ready() {
                return Err("the API server was not heard yet".to_owned());
            }
            if let Some(name) = self
                .objects
                .0
                .state()
                .iter()
                .find_map(|catalog| self.lacks(catalog))
            {
                return Err(format!(
                    "the content that the status of ClusterCatalog {name} names is not here yet"
                ));
            }
        }
        self.was.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn lacks(&self, catalog: &ClusterCatalog) -> Option<String> {
        let name = catalog.name();
        let resolved = catalog.resolved()?;
        let is_wanted =
            catalog.spec.availability_mode == AvailabilityMode::Available && !catalog.is_deleting();
        let is_here = self
            .store
            .get(&name)
            .is_some_and(|stored| stored.reference == resolved);
        (is_wanted && !is_here).then_some(name)
    }
}
