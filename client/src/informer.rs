//! A local copy of the puller's Images that keeps itself up to date, and says when to look at it.

mod cache;
mod triggers;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::StreamExt as _;
use puller_api::v1 as api;
use tokio::{sync::watch, task::AbortHandle};

use self::cache::Cache;
pub use self::triggers::Triggers;
use crate::{Backoff, Client, Error};

/// Which Images are of interest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only what this claimant claims; empty: all.
    pub claimant: String,
    /// Only these ids; empty: all.
    pub ids: Vec<String>,
}

/// Watches the puller for as long as it (or a clone, or one of its [`Triggers`]) lives, over restarts of
/// the puller and broken connections.
///
/// The copy may lag behind, and while the puller can't be reached it is as old as
/// [`Informer::last_error`] says; it never holds a state that the puller did not have.
#[derive(Debug, Clone)]
pub struct Informer {
    shared: Arc<Shared>,
    /// Held, never read: its end is the task's.
    _task: Arc<Task>,
}

/// The task ends with the last who is interested.
#[derive(Debug)]
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
struct Shared {
    cache: Mutex<Cache>,
    subscribers: Mutex<Vec<triggers::Subscriber>>,
    synced: watch::Sender<bool>,
    last_error: Mutex<Option<Error>>,
}

impl Informer {
    /// Begins to watch. Must be called within a tokio runtime.
    pub fn start(client: Client, filter: Filter) -> Self {
        let shared = Arc::new(Shared {
            cache: Mutex::default(),
            subscribers: Mutex::default(),
            synced: watch::Sender::new(false),
            last_error: Mutex::default(),
        });
        let task = tokio::spawn(run(client, filter, Arc::clone(&shared))).abort_handle();
        Self {
            shared,
            _task: Arc::new(Task(task)),
        }
    }

    /// The state of one Image; `None`: the puller has none by this id, or it was not told yet (see
    /// [`Informer::has_synced`]).
    pub fn get(&self, id: &str) -> Option<Arc<api::Image>> {
        lock(&self.shared.cache).images().get(id).cloned()
    }

    /// The states of all, by id.
    pub fn list(&self) -> BTreeMap<String, Arc<api::Image>> {
        lock(&self.shared.cache).images().clone()
    }

    /// Whether the copy was complete once. Before that, what is missing here need not be missing there.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until the copy was complete once.
    pub async fn synced(&self) {
        // The sender is in `self`, so it can't be gone.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Why the puller can't be watched at this moment; `None`: it can.
    pub fn last_error(&self) -> Option<Error> {
        lock(&self.shared.last_error).clone()
    }

    /// The ids of Images that have changed or gone, first of all those that are here already. The store
    /// holds the change (or a later one) before its trigger comes. The stream never ends; several changes
    /// of one Image may come as one trigger, so its memory is bounded by the number of Images.
    pub fn triggers(&self) -> Triggers {
        // Under the cache's lock, so that no change falls between what is here and what comes.
        let cache = lock(&self.shared.cache);
        let (subscriber, triggers) = triggers::channel(cache.images().keys().cloned(), self.clone());
        lock(&self.shared.subscribers).push(subscriber);
        triggers
    }
}

/// A panic under one of these locks can only come from an allocation that failed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(client: Client, filter: Filter, shared: Arc<Shared>) {
    let mut backoff = Backoff::default();
    loop {
        let error = watch_once(&client, &filter, &shared, &mut backoff).await;
        // The puller does not know our version: its volume is another one.
        if matches!(error, Error::InvalidArgument(_)) && lock(&shared.cache).forget_version() {
            continue;
        }
        *lock(&shared.last_error) = Some(error);
        backoff.sleep().await;
    }
}

/// One connection, until it breaks.
async fn watch_once(client: &Client, filter: &Filter, shared: &Shared, backoff: &mut Backoff) -> Error {
    let version = lock(&shared.cache).begin();
    let Filter { claimant, ids } = filter.clone();
    let mut watch = match client
        .watch(api::WatchRequest {
            version,
            claimant,
            ids,
        })
        .await
    {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    while let Some(event) = watch.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => return error,
        };
        backoff.reset();
        *lock(&shared.last_error) = None;
        let mut cache = lock(&shared.cache);
        let changed = cache.apply(event);
        if !changed.is_empty() {
            lock(&shared.subscribers).retain(|subscriber| subscriber.tell(&changed));
        }
        let synced = cache.is_synced();
        drop(cache);
        shared
            .synced
            .send_if_modified(|old| std::mem::replace(old, synced) != synced);
    }
    Error::Unavailable("it ended the watch".into())
}
