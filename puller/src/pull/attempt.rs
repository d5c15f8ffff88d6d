//! The order of one attempt.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, info_span};

use super::{
    Engine, Monitor, Outcome, Ready, Steps,
    download::Download,
    plan::{Pulled, plan},
    slots::MovingSlot,
    unpack::unpack,
};
use crate::{
    domain::{Content, Digest, Reason, Wish},
    error::Fault,
    layer::Summary,
    machine::{Plan, Verdict},
    registry::Repository,
    store::{Blob, Reservation, TreeDir},
};

/// How often the volume is told how much of it has been written.
const ACCOUNTS: Duration = Duration::from_millis(500);

/// By how much threads that unpack are nicer than those that answer calls and take bytes from the network: with all
/// cores busy, a call must not wait for its turn behind them. A thread's own on Linux (sched(7)).
const POLITENESS: i32 = 10;

/// What an attempt ends with when it was cancelled. Nobody is shown it: the machine has forgotten the
/// job by then.
fn cancelled() -> Fault {
    Fault::new(Reason::Internal, "the pull", "was cancelled", "")
}

impl Engine {
    /// Makes one attempt. When it is cancelled it ends soon, with its bytes kept.
    ///
    /// # Errors
    /// Why the attempt failed.
    pub async fn attempt(
        &self,
        wish: &Wish,
        monitor: &Arc<Monitor>,
        steps: &dyn Steps,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Fault> {
        // Dropped on every way out, so that no thread goes on for an attempt that has ended.
        let _stop = StopThreads(monitor);
        let slot = self.slots.moving(Arc::clone(&monitor.activity));
        tokio::select! {
            outcome = self.steps(wish, monitor, steps, &slot) => outcome,
            () = slot.give_back_when_idle() => unreachable!("it never ends"),
            () = cancel.cancelled() => Err(cancelled()),
        }
    }

    async fn steps(
        &self,
        wish: &Wish,
        monitor: &Arc<Monitor>,
        steps: &dyn Steps,
        slot: &MovingSlot,
    ) -> Result<Outcome, Fault> {
        let repository = Repository {
            registry: wish.reference.registry.clone(),
            path: wish.reference.repository.clone(),
            insecure: false,
            scope: wish.scope.clone(),
            by_tag: wish.reference.digest.is_none(),
            activity: Arc::clone(&monitor.activity),
        };
        // What the policy rejects is not asked for at all. A check leaves alone what is unpacked, whatever the
        // policy has become since.
        if !steps.is_check() {
            self.ask_policy(&wish.reference)
                .instrument(info_span!("policy"))
                .await?;
        }
        let _registry_slot = self
            .slots
            .of_registry(&repository.registry, &monitor.activity)
            .await;
        steps.asking();
        let digest = match (&wish.reference.digest, &wish.reference.tag) {
            (Some(digest), _) => digest.clone(),
            (None, tag) => {
                self.registry
                    .resolve(&repository, tag.as_deref().unwrap_or("latest"))
                    .instrument(info_span!("resolve"))
                    .await?
            }
        };
        if steps.resolved(&digest) == Verdict::Stop {
            return Ok(Outcome::Unchanged);
        }
        let pulled = match self.planned(&repository, &digest, wish).await {
            Err(fault) if fault.reason == Reason::NotFound => {
                // HEAD may have told a digest that nobody has, or the tag has moved meanwhile.
                let digest = self.told_anew(&repository, wish, &digest).await.ok_or(fault)?;
                if steps.resolved(&digest) == Verdict::Stop {
                    return Ok(Outcome::Unchanged);
                }
                self.planned(&repository, &digest, wish).await?
            }
            planned => planned?,
        };
        let blobs = pulled
            .layers
            .iter()
            .map(|layer| self.volume.blob(&layer.digest, layer.size))
            .collect::<Result<Vec<_>, _>>()?;
        let different = pulled.different_layers();
        steps.planned(Plan {
            layers: u32::try_from(pulled.layers.len()).unwrap_or(u32::MAX),
            bytes: different.iter().map(|at| pulled.layers[*at].size).sum(),
            blobs: different
                .iter()
                .map(|at| pulled.layers[*at].digest.clone())
                .collect(),
            content: pulled.content_name(),
        });
        if let Some(content) = self.volume.content(&pulled.content_name()) {
            for layer in different.into_iter().map(|at| &pulled.layers[at]) {
                if layer.data.is_none() {
                    self.registry.has_blob(&repository, &layer.digest).await?;
                }
            }
            steps.downloaded();
            return Ok(Outcome::Present(Box::new(content)));
        }
        monitor.set_layers(blobs.clone());
        let missing: u64 = different
            .iter()
            .map(|at| pulled.layers[*at].size.saturating_sub(blobs[*at].received()))
            .sum();
        let (bytes, inodes) = steps.need(&pulled.content_name()).room(missing);
        let room = self.volume.reserve(bytes, inodes)?;
        let (tree, summary) = tokio::select! {
            brought = self.bring(&repository, monitor, steps, slot, &pulled, blobs) => brought?,
            fault = keep_accounts(&room, monitor, missing) => return Err(fault),
        };
        Ok(Outcome::Ready(Box::new(Ready {
            tree,
            content: content(&pulled, &summary),
        })))
    }

    /// What there is to bring, once the policy lets it pass.
    async fn planned(&self, repository: &Repository, digest: &Digest, wish: &Wish) -> Result<Pulled, Fault> {
        let planning = async {
            let chosen = self.verified(repository, digest, wish).await?;
            plan(&*self.registry, repository, chosen, wish, &self.limits).await
        };
        planning.instrument(info_span!("plan", %digest)).await
    }

    /// What a tag stands for, if it is something else than was told at first.
    async fn told_anew(&self, repository: &Repository, wish: &Wish, first: &Digest) -> Option<Digest> {
        if wish.reference.is_pinned() {
            return None;
        }
        let tag = wish.reference.tag.as_deref()?;
        // Should this fail, the first fault is the one to tell.
        let digest = self.registry.reread(repository, tag).await.ok()?;
        (digest != *first).then_some(digest)
    }

    /// Downloads and unpacks, side by side.
    async fn bring(
        &self,
        repository: &Repository,
        monitor: &Arc<Monitor>,
        steps: &dyn Steps,
        slot: &MovingSlot,
        pulled: &Pulled,
        blobs: Vec<Arc<Blob>>,
    ) -> Result<(TreeDir, Summary), Fault> {
        let downloads = stream::iter(pulled.different_layers())
            .map(|at| {
                let (layer, blob) = (&pulled.layers[at], &blobs[at]);
                Download {
                    engine: self,
                    repository,
                    slot,
                    monitor,
                    layer,
                    blob,
                }
                .run()
                .instrument(info_span!("layer", digest = %layer.digest, size = layer.size))
            })
            .buffer_unordered(self.layers_at_a_time.max(1))
            .try_collect::<Vec<()>>();
        tokio::pin!(downloads);

        let unpacking = || async {
            let dir = self.volume.new_tree()?;
            let (pulled, blobs) = (pulled.clone(), blobs.clone());
            let (limits, activity) = (self.limits.clone(), Arc::clone(&monitor.activity));
            on_a_thread(move || unpack(&pulled, &blobs, dir, &limits, &activity))
                .instrument(info_span!("unpack"))
                .await
        };
        let unpack = async {
            // Threads begin with the first bytes only: however many registries hang, they cost none.
            if !blobs.is_empty() {
                monitor.first_bytes().await;
            }
            unpacking().await
        };
        tokio::pin!(unpack);

        let unpacked = tokio::select! {
            // All bytes here and verified: this is looked at first, since the unpack may end with them.
            biased;
            downloaded = &mut downloads => {
                downloaded?;
                steps.downloaded();
                unpack.await
            }
            unpacked = &mut unpack => match unpacked {
                // Before the bytes are blamed they must be known to be those of their digest. Should they not
                // be, that is the fault to tell, and the one that is tried again.
                Err(fault) if !blames_the_bytes(fault.reason) => return Err(fault),
                unpacked => {
                    downloads.await?;
                    steps.downloaded();
                    unpacked
                }
            },
        };
        match unpacked {
            // The bytes are verified now, but it need not be they that were unpacked: another pull or a mirror
            // may have brought other ones first. So they are unpacked anew, and what comes of that holds.
            Err(fault) if blames_the_bytes(fault.reason) => {
                tracing::debug!(%fault, "unpacked again, from bytes that are verified now");
                unpacking().await
            }
            unpacked => unpacked,
        }
    }
}

/// Tells the volume how much of the reserved room is in use, and asks for more where a tree grows
/// larger than was thought; ends when there is none.
async fn keep_accounts(room: &Reservation, monitor: &Monitor, missing: u64) -> Fault {
    loop {
        tokio::time::sleep(ACCOUNTS).await;
        let sample = monitor.sample();
        let written = sample
            .bytes_fetched
            .min(missing)
            .saturating_add(sample.unpacked_bytes);
        room.spent(written, sample.unpacked_entries);
        let to_come = missing.saturating_sub(sample.bytes_fetched);
        if let Err(fault) = room.grow(written.saturating_add(to_come), sample.unpacked_entries) {
            return fault;
        }
    }
}

fn blames_the_bytes(reason: Reason) -> bool {
    !reason.is_retried() || reason == Reason::DigestMismatch
}

/// Runs what takes long on a thread of its own, so that it takes none of those that short work needs.
async fn on_a_thread<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, Fault> + Send + 'static,
) -> Result<R, Fault> {
    let internal = |happened: String| {
        Fault::new(
            Reason::Internal,
            "the unpack",
            happened,
            "look at the puller's log; this should not happen",
        )
    };
    let span = Span::current();
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name("unpack".into())
        // Whoever waited may have gone; what was made goes with the result then.
        .spawn(move || {
            // Those it starts are as polite. Should it not work, it costs callers their place and nothing else.
            let _ = rustix::process::nice(POLITENESS);
            drop(done.send(span.in_scope(work)));
        })
        .map_err(|error| internal(format!("its thread can't be started: {error}")))?;
    result
        .await
        .unwrap_or_else(|_| Err(internal("its thread has died".into())))
}

/// The store adds what only it can know.
fn content(pulled: &Pulled, summary: &Summary) -> Content {
    Content {
        manifest_digest: pulled.manifest.clone(),
        selected: pulled.selected.clone(),
        unpack: pulled.unpack.clone(),
        size: summary.size,
        files: summary.files,
        escaping_links: summary.escaping_links,
        skipped: summary.skipped,
        published: jiff::Timestamp::UNIX_EPOCH,
        sync: std::time::Duration::ZERO,
    }
}

struct StopThreads<'a>(&'a Monitor);

impl Drop for StopThreads<'_> {
    fn drop(&mut self) {
        self.0.activity.cancel();
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[tokio::test]
    async fn who_unpacks_lets_others_go_first() {
        let own = || getpriority_process(None).map_err(|error| panic!("{error}"));
        let before = own().unwrap();
        let within = on_a_thread(own).await.unwrap();
        // 19 is the nicest there is: setpriority(2).
        assert_eq!(within, (before + POLITENESS).min(19));
        assert_eq!(own().unwrap(), before);
    }
}
