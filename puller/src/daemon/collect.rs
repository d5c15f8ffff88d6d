//! Takes away what nobody needs: content, layers, credentials. Where room is short, also what nobody claims.

use std::{sync::Arc, time::Duration};

use super::Daemon;
use crate::{domain::Content, error::Fault, store::Collected};

/// Collections are this far apart at least, so that a burst of releases costs one.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the water marks are looked at when nothing happens here: others may use the same file system.
const LOOK_AT_MARKS: Duration = Duration::from_secs(60);

impl Daemon {
    /// Collects whenever something may have become superfluous. Nothing is collected before a grace
    /// period after the start: claimants may have been lost in a crash, and come back (decision 6).
    pub(super) async fn collect_when_asked(self: &Arc<Self>) {
        tokio::time::sleep(self.grace_period).await;
        loop {
            self.collect_now().await;
            tokio::select! {
                () = self.collect.notified() => tokio::time::sleep(PAUSE).await,
                () = tokio::time::sleep(LOOK_AT_MARKS), if self.engine.volume.marks().is_some() => {}
            }
        }
    }

    async fn collect_now(self: &Arc<Self>) {
        let daemon = Arc::clone(self);
        let collected = tokio::task::spawn_blocking(move || {
            let mut all = Collected::default();
            // One Image after the other, so that no more is forgotten than has to be.
            while daemon.forget_for_room() {
                all += daemon.collect_once()?;
            }
            all += daemon.collect_once()?;
            Ok::<_, Fault>(all)
        });
        match collected.await {
            Ok(Ok(collected)) if collected == Collected::default() => {}
            Ok(Ok(Collected { blobs, contents })) => tracing::info!(blobs, contents, "collected"),
            Ok(Err(fault)) => tracing::error!(%fault, "collecting failed; the next time tries again"),
            Err(panic) => tracing::error!(%panic, "collecting failed"),
        }
        self.forget_scopes();
    }

    /// Removes what nobody needs. Blocks.
    fn collect_once(self: &Arc<Self>) -> Result<Collected, Fault> {
        let volume = &self.engine.volume;
        // A job says first what it is going to publish, and looks then whether that is there already.
        // If it said so after the machine was asked here, its look comes after the mark.
        let mark = volume.mark();
        let (needed, blobs) = {
            let machine = self.machine();
            (machine.needed_contents(), machine.needed_blobs())
        };
        let kept = volume
            .contents()
            .iter()
            .filter(|content| needed.has(&content.name(), &content.manifest_digest))
            .map(Content::name)
            .collect();
        self.engine.origins.retain(|blob| blobs.contains(blob));
        let collected = volume.collect(mark, &blobs, &kept)?;
        if collected != Collected::default() {
            // Only once it is deleted is the room there.
            volume.wait_deleted();
            self.update(|machine, now| machine.room_made(None, now));
        }
        Ok(collected)
    }

    /// Forgets what nobody claims if a pull needs its room, or as far as the volume is above its high water mark.
    /// Says whether there was any. Blocks.
    fn forget_for_room(self: &Arc<Self>) -> bool {
        let volume = &self.engine.volume;
        let above = volume.above_low_mark().unwrap_or_else(|fault| {
            tracing::error!(%fault, "the water marks can't be looked at");
            0
        });
        // The lock of the machine is not held while the volume is asked.
        let missing = self.machine().missing_room();
        let refused = |(bytes, inodes)| volume.reserve(bytes, inodes).is_err();
        if above == 0 && !missing.is_some_and(refused) {
            return false;
        }
        let forgotten = self.update(|machine, now| machine.make_room(above.max(1), now));
        if forgotten > 0 {
            tracing::info!(
                images = forgotten,
                "room is short: what nobody claims is forgotten early"
            );
        }
        forgotten > 0
    }
}
