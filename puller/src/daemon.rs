//! The puller itself: the state machine with its clock, the jobs it starts, the records it wants
//! written, and the watchers it tells. Knows nothing of gRPC.
//!
//! Everything goes through [`Daemon::update`]: it locks the machine, changes it, and hands out the
//! effects before it unlocks, so that watchers see changes in the order in which they happened. No
//! effect waits for anything there.

mod collect;
mod jobs;
mod records;
mod saver;
mod scrape;

pub use records::restored;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::{ImageId, Wish},
    hub::{Filter, Hub, InvalidVersion, Version, Watcher},
    machine::{
        ClaimRequest, Effect, Image, Jitter, Job, JobNo, Machine, Now, Refused, Sample, Saved, Settings,
    },
    metrics::Metrics,
    pull::{Engine, Monitor},
    registry::{Keyring, Routes},
};

/// How often progress is told: often enough for a bar to look alive, seldom enough for a thousand
/// watchers.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How often credential files, registries.conf and the policy are looked at: soon enough for somebody who corrects one and
/// waits for the pull, and it costs a stat for each file.
const FILES_INTERVAL: Duration = Duration::from_secs(2);

/// The puller.
pub struct Daemon {
    machine: Mutex<Machine>,
    hub: Arc<Hub>,
    engine: Engine,
    keyring: Arc<Keyring>,
    routes: Arc<Routes>,
    grace_period: Duration,
    started: Instant,
    running: Mutex<HashMap<JobNo, Running>>,
    saver: saver::Saver,
    timer: Notify,
    collect: Notify,
    tasks: TaskTracker,
    stop: CancellationToken,
    metrics: Metrics,
}

struct Running {
    job: Job,
    monitor: Arc<Monitor>,
    cancel: CancellationToken,
    /// What the metrics have of its bytes: fetched, unpacked.
    counted: (u64, u64),
}

impl Running {
    /// The counters now; what is new of them goes into the metrics.
    fn sample(&mut self, metrics: &Metrics) -> Sample {
        let sample = self.monitor.sample();
        let (fetched, unpacked) = self.counted;
        self.counted = (sample.bytes_fetched, sample.unpacked_bytes);
        metrics.moved(
            sample.bytes_fetched.saturating_sub(fetched),
            sample.unpacked_bytes.saturating_sub(unpacked),
        );
        sample
    }
}

/// Why a Fetch was refused.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The machine refused it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The credentials can't be read.
    #[error("{0}")]
    Credentials(String),
    /// The puller is stopping.
    #[error("the puller is stopping; fetch again when it is back")]
    Stopping,
}

impl Daemon {
    /// A puller that goes on from what an earlier run left. It works as soon as [`Daemon::run`] does.
    pub fn new(
        settings: Settings,
        engine: Engine,
        keyring: Arc<Keyring>,
        routes: Arc<Routes>,
        metrics: Metrics,
        saved: Vec<Saved>,
    ) -> Arc<Self> {
        let hub = Hub::new(engine.volume.epoch());
        let daemon = Arc::new(Self {
            grace_period: settings.grace_period,
            saver: saver::Saver::default(),
            machine: Mutex::new(Machine::new(settings, Jitter::random())),
            hub,
            engine,
            keyring,
            routes,
            started: Instant::now(),
            running: Mutex::default(),
            timer: Notify::new(),
            collect: Notify::new(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            metrics,
        });
        daemon.update(|machine, now| machine.restore(saved, now));
        daemon
    }

    // === What clients ask ===

    /// What registries.conf says.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// What is measured.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// "I want this image." Answers with the state at this moment; waits for nothing.
    ///
    /// # Errors
    /// [`FetchError`]; nothing was recorded.
    pub fn fetch(
        self: &Arc<Self>,
        wish: Wish,
        request: ClaimRequest,
        credentials: Option<&[u8]>,
    ) -> Result<(Arc<Image>, Version), FetchError> {
        if self.stop.is_cancelled() {
            return Err(FetchError::Stopping);
        }
        let change = |machine: &mut Machine, now| {
            // With the machine locked, so that nobody forgets the scope before it is used.
            if let Some(json) = credentials {
                let set = self.keyring.set(&wish.scope, json);
                if set.map_err(|error| FetchError::Credentials(error.to_string()))? {
                    machine.credentials(&wish.scope, now);
                }
            }
            machine.fetch(wish, request, now).map_err(FetchError::from)
        };
        // A Fetch that just renews a claim is not told to watchers, so the hub has the state that was
        // told last: the same to whoever asks now.
        self.update_and(change, |id| {
            Ok(self
                .hub
                .get(&id?)
                .unwrap_or_else(|| unreachable!("an Image that was just fetched is claimed")))
        })
    }

    /// The state of one Image.
    pub fn get(&self, id: &ImageId) -> Option<(Arc<Image>, Version)> {
        self.hub.get(id)
    }

    /// The states of all, by reference and id, and the version to watch from.
    pub fn list(&self) -> (Vec<(Arc<Image>, Version)>, Version) {
        let (mut images, version) = self.hub.list();
        images.sort_by(|(a, _), (b, _)| (&a.wish.reference, &a.id).cmp(&(&b.wish.reference, &b.id)));
        (images, version)
    }

    /// Watches.
    ///
    /// # Errors
    /// The version was never given out.
    pub fn watch(&self, after: Option<Version>, filter: Filter) -> Result<Watcher, InvalidVersion> {
        self.hub.watch(after, filter)
    }

    /// "I no longer need it." Holds at once, and is answered when it is on disk: a claim that came back after
    /// a crash would keep its content for ever, since whoever released it does not think of it any more.
    pub async fn release(self: &Arc<Self>, id: &ImageId, claimant: &str) {
        self.update(|machine, now| machine.release(id, claimant, now));
        self.save_now(id.clone()).await;
    }

    // === Life ===

    /// Runs until [`Daemon::stop`]: keeps time, tells progress, collects what nobody needs, looks at the policy.
    pub async fn run(self: &Arc<Self>) {
        let saver = self.spawn_saver();
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.keep_time() => {}
            () = self.tell_progress() => {}
            () = self.collect_when_asked() => {}
            () = self.watch_files() => {}
        }
        for running in self.running().values() {
            running.cancel.cancel();
        }
        self.tasks.close();
        self.tasks.wait().await;
        self.saver.close();
        if let Err(panic) = saver.await {
            tracing::error!(%panic, "the thread that writes records has died");
        }
    }

    /// Cancelled when the puller stops.
    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Asks all to end; their bytes are kept.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    async fn keep_time(self: &Arc<Self>) {
        loop {
            let changed = self.timer.notified();
            let wake = self.machine().next_wake();
            match wake {
                Some(wake) => {
                    let wait = wake.saturating_sub(self.now().mono);
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep(wait) => self.update(Machine::tick),
                    }
                }
                None => changed.await,
            }
        }
    }

    async fn tell_progress(self: &Arc<Self>) {
        let mut interval = tokio::time::interval(PROGRESS_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let samples: Vec<_> = self
                .running()
                .values_mut()
                .map(|running| (running.job.clone(), running.sample(&self.metrics)))
                .collect();
            if !samples.is_empty() {
                self.update(|machine, now| {
                    for (job, sample) in samples {
                        machine.sample(&job, sample, now);
                    }
                });
            }
            self.hub.expire(self.now().mono);
        }
    }

    /// Tries again what was refused once a credential file changes, and what was blocked once
    /// registries.conf or the policy does.
    async fn watch_files(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(FILES_INTERVAL).await;
            let daemon = Arc::clone(self);
            let look = move || {
                let (routes, policy) = (daemon.routes.have_changed(), daemon.engine.policy.has_changed());
                (daemon.keyring.files_have_changed(), routes || policy)
            };
            // A stat may hang on a network file system.
            let (credentials, rules) = tokio::task::spawn_blocking(look).await.unwrap_or_default();
            if credentials {
                tracing::info!("a credential file has changed: what was refused is tried again");
                self.update(Machine::own_credentials_changed);
            }
            if rules {
                tracing::info!("registries.conf or the policy has changed: what was blocked is tried again");
                self.update(Machine::rules_changed);
            }
        }
    }

    // === The one way to change anything ===

    fn update<R>(self: &Arc<Self>, change: impl FnOnce(&mut Machine, Now) -> R) -> R {
        self.update_and(change, |result| result)
    }

    /// Looks at what came of it before anybody else can change anything.
    fn update_and<R, T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Machine, Now) -> R,
        look: impl FnOnce(R) -> T,
    ) -> T {
        let mut machine = self.machine();
        let wake = machine.next_wake();
        let result = change(&mut machine, self.now());
        for effect in machine.take_effects() {
            self.carry_out(effect);
        }
        if machine.next_wake() != wake {
            self.timer.notify_one();
        }
        look(result)
    }

    fn carry_out(self: &Arc<Self>, effect: Effect) {
        match effect {
            Effect::Tell { image, phase } => self.hub.put(*image, phase),
            Effect::Save { id } => self.saver.push(id),
            Effect::Delete { id } => {
                self.hub.delete(&id, self.now().mono);
                self.saver.push(id);
                self.collect.notify_one();
            }
            Effect::Collect => self.collect.notify_one(),
            Effect::Start(job) => self.start(*job),
            Effect::Cancel { job } => {
                if let Some(running) = self.running().get(&job) {
                    running.cancel.cancel();
                }
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            mono: self.started.elapsed(),
            wall: Timestamp::now(),
        }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<JobNo, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the credentials of scopes that no Image has any more.
    fn forget_scopes(&self) {
        let mut machine = self.machine();
        for scope in machine.forget_unused_scopes() {
            self.keyring.forget(&scope);
        }
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon")
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}
