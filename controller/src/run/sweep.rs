//! What belongs to no catalog any more goes: content on disk and claims in the puller. Reconciles see catalogs
//! that there are; a catalog that went while nobody looked, or whose last reconcile a crash cut off, has none.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, mpsc::UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::known::Known;
use crate::{puller::Puller, reconcile::Reconciler, store::Store};

/// Longest interval between two sweeps, whatever --gc-interval says: one that finds nothing costs nothing.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// When a sweep that could not finish is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Sweeps as long as it runs.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) objects: Known,
    pub(super) store: Arc<Store>,
    pub(super) puller: Puller,
    pub(super) reconciler: Arc<Reconciler>,
    pub(super) interval: Duration,
    /// Says that a catalog or an Image changed such that there may be something to do.
    pub(super) wanted: Arc<Notify>,
    /// Catalogs to look at again.
    pub(super) again: UnboundedSender<String>,
}

impl Sweep {
    pub(super) async fn run(self, stop: CancellationToken) {
        let sweeps = async {
            // Without all catalogs, everything would seem to belong to none.
            if self.objects.0.wait_until_ready().await.is_err() {
                return;
            }
            // Content does not wait for the puller.
            self.disk().await;
            self.puller.synced().await;
            loop {
                let pause = match self.once().await {
                    true => self.interval.min(LONGEST_INTERVAL),
                    false => AGAIN,
                };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.wanted.notified() => {}
                }
            }
        };
        tokio::select! {
            () = sweeps => {}
            () = stop.cancelled() => {}
        }
    }

    /// Whether all that was to go is gone.
    async fn once(&self) -> bool {
        let is_clean = self.disk().await;
        self.reconciler.forget_others(&self.objects.names());
        match self.puller.release_orphans(|| self.objects.names()).await {
            Ok(()) => is_clean,
            Err(error) => {
                tracing::info!(%error, "what no catalog claims any more is not released yet; it is tried again");
                false
            }
        }
    }

    async fn disk(&self) -> bool {
        let (store, objects, again) = (Arc::clone(&self.store), self.objects.clone(), self.again.clone());
        let swept = tokio::task::spawn_blocking(move || {
            let mut is_clean = true;
            // Names on disk first: what is stored by then has its object here.
            let stored = store.names();
            let known = objects.names();
            for name in stored.into_iter().filter(|name| !known.contains(name)) {
                tracing::info!(catalog = %name, "removing the content of a catalog that is no more");
                if let Err(error) = store.remove(&name) {
                    tracing::warn!(catalog = %name, %error, "the content can't be removed; it is tried again");
                    is_clean = false;
                }
                // It may have been made again just now, and stored. Nobody listens at the end, which is fine.
                let _ = again.send(name);
            }
            is_clean
        });
        swept.await.unwrap_or(false)
    }
}
