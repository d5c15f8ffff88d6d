//! Carries out what is decided, catalog by catalog. Nothing here waits for a registry.

mod object;
mod storing;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::runtime::controller::Action;
use tokio::sync::Semaphore;

pub use self::object::Objects;
use self::storing::Failures;
use crate::{
    api::ClusterCatalog,
    decision::{Answer, Ask, Claim, Content, Decision, Observed, Role, decide},
    error::Error,
    leader::Leadership,
    pace::Pace,
    puller::Puller,
    store::Store,
};

/// Catalogs that are stored side by side. Each takes a core, and memory for a few documents.
const STORED_AT_ONCE: usize = 2;
/// Steps of one reconcile, which is more than any has: the last line of defence against going round for ever.
const MOST_STEPS: usize = 16;

/// All that a reconcile works with.
#[derive(Debug)]
pub struct Reconciler {
    /// The objects of the API server.
    objects: Objects,
    puller: Puller,
    store: Arc<Store>,
    leadership: Leadership,
    settings: Settings,
    storing: Semaphore,
    failures: Failures,
    paces: Mutex<HashMap<String, Pace>>,
}

/// What a reconcile is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the volume that is shared with the puller is mounted here.
    pub volume: PathBuf,
    /// Scheme and host at which content is served.
    pub external_url: String,
    /// Progress is written no more often than this.
    pub progress_interval: Duration,
}

/// What the puller said in this reconcile.
#[derive(Default)]
struct Answers {
    wanted: Option<Answer>,
    resolved: Option<Answer>,
}

impl Reconciler {
    /// Brings them together.
    pub fn new(
        objects: Objects,
        puller: Puller,
        store: Arc<Store>,
        leadership: Leadership,
        settings: Settings,
    ) -> Self {
        Self {
            objects,
            puller,
            store,
            leadership,
            settings,
            storing: Semaphore::new(STORED_AT_ONCE),
            failures: Failures::default(),
            paces: Mutex::default(),
        }
    }

    /// Does all that can be done about a catalog now.
    ///
    /// # Errors
    /// The API server or the disk refused; it is to be tried again after [`Error::retry_after`].
    pub async fn reconcile(&self, catalog: &ClusterCatalog) -> Result<Action, Error> {
        let name = catalog.name();
        let mut catalog = catalog.clone();
        let mut answers = Answers::default();
        for _ in 0..MOST_STEPS {
            let decision = self.decide(&name, &catalog, &answers);
            if let Some(ask) = &decision.ask {
                answers.put(ask, self.puller.ask(&name, ask).await);
                continue;
            }
            match &decision.content {
                Content::Keep => return self.finish(&name, catalog, decision).await,
                Content::Drop => self.remove(&name).await?,
                Content::Store { image, reference } => {
                    let Some(now) = self.store(&name, &catalog, image, reference).await? else {
                        return Ok(Action::await_change());
                    };
                    if !now.is_as_it_was(&catalog) {
                        // What was asked for it need not be what it wants.
                        answers = Answers::default();
                    }
                    catalog = now;
                }
            }
        }
        tracing::warn!(catalog = %name, "there was more to do than a reconcile should have to; it goes on in a moment");
        Ok(Action::requeue(Duration::from_secs(1)))
    }

    fn decide(&self, name: &str, catalog: &ClusterCatalog, answers: &Answers) -> Decision {
        let (stored, claimed) = (self.store.get(name), self.puller.claimed(name));
        let failure = self.failures.get(name);
        decide(&Observed {
            catalog,
            role: self.role(),
            wanted: answers.wanted.clone(),
            resolved: answers.resolved.clone(),
            claimed: &claimed,
            stored: stored.as_ref(),
            failure: failure.as_ref(),
            base_url: &format!("{}/catalogs/{name}", self.settings.external_url),
            now: Timestamp::now(),
        })
    }

    fn role(&self) -> Role {
        match self.leadership.leads() {
            true => Role::Leader,
            false => Role::Follower,
        }
    }

    /// What is left when the content is as it should be: status, claims, finalizer, in this order, so that a
    /// status never names what is gone, and an object is not gone before its content.
    async fn finish(&self, name: &str, catalog: ClusterCatalog, decision: Decision) -> Result<Action, Error> {
        let mut again = decision.again;
        let mut catalog = catalog;
        let (mut did_something, mut wrote) = (false, false);
        // An object that is to have our finalizer has it before anything else is said of it.
        let hold = decision.finalizer == Some(true);
        if hold {
            did_something |= self.mark(&mut catalog, true).await?;
        }
        if let Some(status) = &decision.status {
            let paced = self.pace(name, decision.urgency);
            match paced {
                Ok(()) if !self.leadership.leads() => {}
                Ok(()) => {
                    catalog = self.objects.write_status(&catalog, status).await?;
                    (did_something, wrote) = (true, true);
                }
                Err(wait) => again = Some(again.map_or(wait, |again| again.min(wait))),
            }
        }
        self.publish(name, &catalog, wrote).await?;
        for (claim, id) in &decision.release {
            did_something = true;
            match self.puller.release(name, *claim, id).await {
                Ok(()) => tracing::debug!(catalog = name, image = %id, "released"),
                Err(error) => {
                    tracing::info!(catalog = name, image = %id, %error, "not released; it is tried again");
                }
            }
        }
        if decision.finalizer == Some(false) {
            did_something |= self.mark(&mut catalog, false).await?;
        }
        match did_something {
            true => tracing::info!(catalog = name, "reconcile ending"),
            false => tracing::debug!(catalog = name, "reconcile ending"),
        }
        Ok(again.map_or_else(Action::await_change, Action::requeue))
    }

    /// Whether anything was to be changed.
    async fn mark(&self, catalog: &mut ClusterCatalog, hold: bool) -> Result<bool, Error> {
        if !self.leadership.leads() {
            return Ok(false);
        }
        let Some(marked) = self.objects.mark(catalog, hold).await? else {
            return Ok(false);
        };
        *catalog = marked;
        Ok(true)
    }

    /// What the status names and is stored here may be handed out. A replica that has just begun to lead may
    /// have an object at hand that is older than the last status of the leader before: only an object as the
    /// API server has it, read or `wrote` in this term, says what consumers take the content for.
    async fn publish(&self, name: &str, catalog: &ClusterCatalog, wrote: bool) -> Result<(), Error> {
        let Some(term) = self.leadership.term() else {
            return Ok(());
        };
        let Some(stored) = self.store.get(name) else {
            return Ok(());
        };
        if catalog.resolved() != Some(&stored.reference) || self.store.published(name, term).is_some() {
            return Ok(());
        }
        let is_so = match wrote {
            true => true,
            false => {
                let fresh = self.objects.read(name).await?;
                fresh.is_some_and(|fresh| fresh.resolved() == Some(&stored.reference))
            }
        };
        if is_so {
            self.store.publish(name, &stored.reference, term);
        }
        Ok(())
    }

    fn pace(&self, name: &str, urgency: crate::status::Urgency) -> Result<(), Duration> {
        let now = Instant::now();
        let mut paces = lock(&self.paces);
        let pace = paces.entry(name.to_owned()).or_insert_with(|| Pace::new(now));
        pace.allow(urgency, self.settings.progress_interval, now)
    }

    /// Forgets what is kept in memory of catalogs that are gone.
    pub fn forget_others(&self, catalogs: &[String]) {
        lock(&self.paces).retain(|name, _| catalogs.contains(name));
        self.failures.retain(catalogs);
    }
}

impl Answers {
    fn put(&mut self, ask: &Ask, answer: Answer) {
        match ask.claim {
            Claim::Wanted => self.wanted = Some(answer),
            Claim::Resolved => self.resolved = Some(answer),
        }
    }
}

/// A panic under one of these locks can only come from an allocation that failed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
