//! Takes away what nobody needs: content, layers, credentials.

use std::{sync::Arc, time::Duration};

use super::Daemon;
use crate::{domain::Content, store::Collected};

/// Collections are this far apart at least, so that a burst of releases costs one.
const PAUSE: Duration = Duration::from_secs(1);

impl Daemon {
    /// Collects whenever something may have become superfluous. Nothing is collected before a grace
    /// period after the start: claimants may have been lost in a crash, and come back (decision 6).
    pub(super) async fn collect_when_asked(self: &Arc<Self>) {
        tokio::time::sleep(self.grace_period).await;
        loop {
            self.collect_now().await;
            self.collect.notified().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn collect_now(self: &Arc<Self>) {
        let daemon = Arc::clone(self);
        let collected = tokio::task::spawn_blocking(move || {
            let volume = &daemon.engine.volume;
            // A job says first what it is going to publish, and looks then whether that is there already.
            // If it said so after the machine was asked here, its look comes after the mark.
            let mark = volume.mark();
            let (needed, blobs) = {
                let machine = daemon.machine();
                (machine.needed_contents(), machine.needed_blobs())
            };
            let kept = volume
                .contents()
                .iter()
                .filter(|content| needed.has(&content.name(), &content.manifest_digest))
                .map(Content::name)
                .collect();
            daemon.engine.origins.retain(|blob| blobs.contains(blob));
            volume.collect(mark, &blobs, &kept)
        });
        match collected.await {
            Ok(Ok(collected)) if collected == Collected::default() => {}
            Ok(Ok(Collected { blobs, contents })) => tracing::info!(blobs, contents, "collected"),
            Ok(Err(fault)) => tracing::error!(%fault, "collecting failed; the next time tries again"),
            Err(panic) => tracing::error!(%panic, "collecting failed"),
        }
        self.forget_scopes();
    }
}
