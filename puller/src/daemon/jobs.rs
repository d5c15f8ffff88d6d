//! Jobs: attempts of the engine, and what becomes of them.

use std::{sync::Arc, time::Instant};

use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, field::Empty, info_span};

use super::{Daemon, Running};
use crate::{
    domain::{Content, Digest, Reason},
    error::Fault,
    machine::{Job, Need, Plan, Sample, Verdict},
    metrics::End,
    pull::{Monitor, Outcome, Ready, Steps},
};

impl Daemon {
    pub(super) fn start(self: &Arc<Self>, job: Job) {
        if self.stop.is_cancelled() {
            return;
        }
        let monitor = Arc::new(Monitor::default());
        let cancel = self.stop.child_token();
        let running = Running {
            job: job.clone(),
            monitor: Arc::clone(&monitor),
            cancel: cancel.clone(),
            counted: (0, 0),
        };
        self.running().insert(job.no, running);
        let span = info_span!(
            "pull",
            id = %job.id,
            reference = %job.wish.reference,
            otel.status_code = Empty,
            otel.status_description = Empty
        );
        let daemon = Arc::clone(self);
        self.tasks
            .spawn(async move { daemon.work(job, monitor, cancel).await }.instrument(span));
    }

    async fn work(self: Arc<Self>, job: Job, monitor: Arc<Monitor>, cancel: CancellationToken) {
        let began = Instant::now();
        let steps = Reporter {
            daemon: &self,
            job: &job,
            monitor: &monitor,
        };
        let outcome = self.engine.attempt(&job.wish, &monitor, &steps, &cancel).await;
        let result = match outcome {
            Ok(Outcome::Unchanged) => Ok(End::Unchanged),
            Ok(Outcome::Ready(ready)) => {
                self.publish(&job, *ready, &monitor)
                    .instrument(info_span!("publish"))
                    .await
            }
            Ok(Outcome::Present(content)) => self.announce(&job, *content, &monitor).await,
            Err(fault) => Err(fault),
        };
        let end = match result {
            Ok(end) => end,
            Err(_) if cancel.is_cancelled() => End::Cancelled,
            Err(fault) => {
                tracing::warn!(reason = fault.reason.words(), %fault, "attempt failed");
                self.update(|machine, now| machine.failed(&job, &fault, monitor.sample(), now));
                let span = Span::current();
                span.record("otel.status_code", "ERROR");
                span.record("otel.status_description", fault.reason.words());
                End::Failed(fault.reason)
            }
        };
        if let Some(mut running) = self.running().remove(&job.no) {
            running.sample(&self.metrics);
        }
        self.metrics.attempt_ended(end, began.elapsed());
        let held_room = match end {
            End::Failed(Reason::NoSpace) => {
                self.discard(&monitor);
                self.collect.notify_one();
                // Who was refused before it wrote a byte has none to give. Else two that both can't be would
                // wake each other for ever.
                let Sample {
                    bytes_fetched,
                    unpacked_bytes,
                    ..
                } = monitor.sample();
                bytes_fetched > 0 || unpacked_bytes > 0
            }
            _ => !monitor.layers().is_empty(),
        };
        drop(monitor);
        if held_room && self.machine().missing_room().is_some() {
            self.give_room_back(job).await;
        }
    }

    /// Whoever else waits for room goes on, as soon as what the job left is deleted.
    async fn give_room_back(self: &Arc<Self>, job: Job) {
        let daemon = Arc::clone(self);
        let given = tokio::task::spawn_blocking(move || {
            daemon.engine.volume.wait_deleted();
            daemon.update(|machine, now| machine.room_made(Some(&job.id), now));
        });
        if let Err(panic) = given.await {
            tracing::error!(%panic, "waiting for a deletion failed");
        }
    }

    async fn publish(
        self: &Arc<Self>,
        job: &Job,
        ready: Ready,
        monitor: &Arc<Monitor>,
    ) -> Result<End, Fault> {
        let Ready { tree, content } = ready;
        let volume = Arc::clone(&self.engine.volume);
        let published = blocking(move || volume.publish(tree, content)).await??;
        self.metrics.synced(published.sync);
        let end = self.announce(job, published, monitor).await?;
        self.discard(monitor);
        Ok(end)
    }

    /// Lets go of the layers of a pull that is done, but for those that another one lists. Their files go
    /// with their last user.
    fn discard(&self, monitor: &Monitor) {
        let needed = self.machine().needed_blobs();
        for layer in monitor.layers() {
            if !needed.contains(layer.digest()) {
                layer.discard_when_unused();
            }
        }
    }

    /// Makes the Image's record durable with its content, then tells everybody.
    async fn announce(
        self: &Arc<Self>,
        job: &Job,
        content: Content,
        monitor: &Arc<Monitor>,
    ) -> Result<End, Fault> {
        let (daemon, job, monitor) = (Arc::clone(self), job.clone(), Arc::clone(monitor));
        blocking(move || {
            // Nobody else writes this record in between, so no older one can take its place.
            let writing = daemon.saver.writing();
            let Some(saved) = daemon.machine().saved_as_published(&job, &content) else {
                // What it has published may be nobody's now.
                daemon.collect.notify_one();
                return Ok(End::Cancelled);
            };
            daemon.write(&saved)?;
            tracing::info!(content = %content.name(), bytes = content.size, files = content.files, "unpacked");
            daemon.update(|machine, now| machine.published(&job, content, monitor.sample(), now));
            drop(writing);
            Ok(End::Unpacked)
        })
        .await?
    }
}

/// Runs what waits for the disk on a thread for that.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Fault> {
    let span = Span::current();
    let work = move || span.in_scope(work);
    tokio::task::spawn_blocking(work).await.map_err(|panic| {
        Fault::new(
            Reason::Internal,
            "publishing",
            panic.to_string(),
            "this is a fault of the puller; report it",
        )
    })
}

/// Passes an attempt's steps on to the machine.
struct Reporter<'a> {
    daemon: &'a Arc<Daemon>,
    job: &'a Job,
    monitor: &'a Monitor,
}

impl Steps for Reporter<'_> {
    fn is_check(&self) -> bool {
        self.job.check
    }

    fn asking(&self) {
        self.daemon.update(|machine, now| machine.asking(self.job, now));
    }

    fn resolved(&self, digest: &Digest) -> Verdict {
        self.daemon
            .update(|machine, now| machine.resolved(self.job, digest, now))
    }

    fn planned(&self, plan: Plan) {
        self.daemon
            .update(|machine, now| machine.planned(self.job, plan, now));
    }

    fn need(&self, content: &str) -> Need {
        self.daemon.machine().need(self.job, content)
    }

    fn downloaded(&self) {
        self.daemon
            .update(|machine, now| machine.downloaded(self.job, self.monitor.sample(), now));
    }
}
