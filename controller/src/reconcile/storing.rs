//! From a tree on the puller's volume to content that is served.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use puller_client::{ContentDir, ContentError, api::Image};

use super::{Reconciler, lock};
use crate::{
    api::ClusterCatalog,
    decision::{StoreFailure, tree},
    error::Error,
    store::{Prepared, Store, StoreError},
};

/// When storing that failed is tried again: twice as long each time, up to this. A disk may have room again;
/// a file that is no catalog stays one until the image changes.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

impl Reconciler {
    /// Stores an Image's content, and gives the object as it is by then. None: it is gone. If its spec has
    /// changed meanwhile, nothing is stored.
    pub(super) async fn store(
        &self,
        name: &str,
        catalog: &ClusterCatalog,
        image: &Image,
        reference: &str,
    ) -> Result<Option<ClusterCatalog>, Error> {
        // Before the long part: an API server that is away would make it vain.
        let Some(fresh) = self.objects.read(name).await? else {
            return Ok(None);
        };
        if !fresh.is_as_it_was(catalog) {
            return Ok(Some(fresh));
        }
        let mut catalog = fresh;
        if self.leadership.leads() {
            self.mark(&mut catalog, true).await?;
        }
        let tree = tree(image).unwrap_or_default().to_owned();
        let stored = match self.store.get(name).filter(|stored| stored.tree == tree) {
            Some(_) => self.rename(name, reference).await,
            None => {
                let prepared = match self.prepare(name, image).await {
                    Ok(prepared) => prepared,
                    Err(error) => return self.failed(name, &tree, error).map(|()| Some(catalog)),
                };
                // After the long part: what is wanted may have changed.
                let Some(fresh) = self.objects.read(name).await? else {
                    return Ok(None);
                };
                if !fresh.is_as_it_was(&catalog) {
                    return Ok(Some(fresh));
                }
                catalog = fresh;
                self.swap(name, prepared, reference, &tree).await
            }
        };
        match stored {
            Ok(()) => self.failures.remove(name),
            Err(error) => return self.failed(name, &tree, error).map(|()| Some(catalog)),
        }
        tracing::info!(catalog = name, reference, "stored");
        if let Some(term) = self.leadership.term() {
            // The status names it in a moment; until then nobody can know that it is not what stood there.
            self.store.publish(name, reference, term);
        }
        Ok(Some(catalog))
    }

    /// Drops a catalog's content.
    pub(super) async fn remove(&self, name: &str) -> Result<(), Error> {
        self.failures.remove(name);
        let (store, name) = (Arc::clone(&self.store), name.to_owned());
        Ok(blocking(move || store.remove(&name)).await?)
    }

    async fn prepare(&self, name: &str, image: &Image) -> Result<Prepared, StoreError> {
        // Never closed.
        let _turn = self.storing.acquire().await;
        let (store, name) = (Arc::clone(&self.store), name.to_owned());
        let (volume, image) = (self.settings.volume.clone(), image.clone());
        blocking(move || store.prepare(&name, &ContentDir::open(volume, &image)?)).await
    }

    async fn swap(
        &self,
        name: &str,
        prepared: Prepared,
        reference: &str,
        tree: &str,
    ) -> Result<(), StoreError> {
        let (name, reference, tree) = (name.to_owned(), reference.to_owned(), tree.to_owned());
        self.on_disk(move |store| {
            store
                .swap(&name, prepared, &reference, &tree, Timestamp::now())
                .map(drop)
        })
        .await
    }

    async fn rename(&self, name: &str, reference: &str) -> Result<(), StoreError> {
        let (name, reference) = (name.to_owned(), reference.to_owned());
        self.on_disk(move |store| store.rename(&name, &reference).map(drop))
            .await
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        blocking(move || work(&store)).await
    }

    /// Remembers a failure, so that the status tells it. What is gone was superseded: that is none.
    fn failed(&self, name: &str, tree: &str, error: StoreError) -> Result<(), Error> {
        if matches!(error, StoreError::Tree(ContentError::Gone { .. })) {
            return Err(error.into());
        }
        tracing::warn!(catalog = name, %error, "the content can't be stored");
        self.failures.add(name, tree, &error);
        Ok(())
    }
}

/// Work that blocks, on a thread of its own. It does not panic; were it to, so does whoever waits.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// What could not be stored, by catalog.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<String, (StoreFailure, u32)>>);

impl Failures {
    pub(super) fn get(&self, name: &str) -> Option<StoreFailure> {
        lock(&self.0).get(name).map(|(failure, _)| failure.clone())
    }

    fn add(&self, name: &str, tree: &str, error: &StoreError) {
        let mut failures = lock(&self.0);
        let before = failures.get(name).filter(|(failure, _)| failure.tree == tree);
        let times = before.map_or(0, |(_, times)| times + 1);
        let pause = FIRST_PAUSE
            .saturating_mul(2u32.saturating_pow(times))
            .min(LONGEST_PAUSE);
        let failure = StoreFailure {
            tree: tree.to_owned(),
            message: error.to_string(),
            again: Timestamp::now().checked_add(pause).unwrap_or(Timestamp::MAX),
        };
        failures.insert(name.to_owned(), (failure, times));
    }

    fn remove(&self, name: &str) {
        lock(&self.0).remove(name);
    }

    pub(super) fn retain(&self, catalogs: &[String]) {
        lock(&self.0).retain(|name, _| catalogs.contains(name));
    }
}
