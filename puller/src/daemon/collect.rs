//! Takes away what nobody needs: content, layers, credentials. Where room is short, also what nobody claims.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::Daemon;
use crate::{
    domain::Content,
    error::Fault,
    machine::Machine,
    pull::{Monitor, RESERVED_PER_BYTE},
    store::Collected,
};

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

    /// An attempt has failed for want of room: what it will need at least is made room for.
    pub(super) fn short_of_room(&self, monitor: &Monitor) {
        let sample = monitor.sample();
        let compressed: u64 = monitor.layers().iter().map(|layer| layer.size()).sum();
        // What it had come to was not the end.
        let unpacked = sample.unpacked_bytes.saturating_mul(2);
        let bytes = compressed.saturating_mul(RESERVED_PER_BYTE).max(unpacked);
        let inodes = sample.unpacked_entries.saturating_mul(2);
        let mut short = self.short.lock().unwrap_or_else(PoisonError::into_inner);
        *short = Some(short.map_or((bytes, inodes), |(b, i)| (b.max(bytes), i.max(inodes))));
        drop(short);
        self.collect.notify_one();
    }

    async fn collect_now(self: &Arc<Self>) {
        let daemon = Arc::clone(self);
        let collected = tokio::task::spawn_blocking(move || {
            daemon.make_room();
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
            let collected = volume.collect(mark, &blobs, &kept)?;
            if collected != Collected::default() {
                // Only now is the room there.
                volume.wait_deleted();
                daemon.update(Machine::room_made);
            }
            Ok::<_, Fault>(collected)
        });
        match collected.await {
            Ok(Ok(collected)) if collected == Collected::default() => {}
            Ok(Ok(Collected { blobs, contents })) => tracing::info!(blobs, contents, "collected"),
            Ok(Err(fault)) => tracing::error!(%fault, "collecting failed; the next time tries again"),
            Err(panic) => tracing::error!(%panic, "collecting failed"),
        }
        self.forget_scopes();
    }

    /// Forgets what nobody claims, as far as a pull needs its room or the volume is above its high water mark.
    /// Blocks.
    fn make_room(self: &Arc<Self>) {
        let volume = &self.engine.volume;
        let short = self.short.lock().unwrap_or_else(PoisonError::into_inner).take();
        let missing = match short {
            // What was removed since, its own tree with it, may be room enough.
            Some((bytes, inodes)) if volume.reserve(bytes, inodes).is_err() => bytes.max(1),
            _ => 0,
        };
        let above = volume.above_low_mark().unwrap_or_else(|fault| {
            tracing::error!(%fault, "the water marks can't be looked at");
            0
        });
        let bytes = missing.max(above);
        if bytes > 0 {
            let forgotten = self.update(|machine, now| machine.make_room(bytes, now));
            tracing::info!(
                bytes,
                forgotten,
                "room is short: what nobody claims is forgotten early"
            );
        }
    }
}
