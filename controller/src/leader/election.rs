//! The Lease, taken, renewed and given up.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use tokio_util::sync::CancellationToken;

use super::Leadership;

/// Longest that a request about the Lease may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a Lease holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait for a holder that does not renew.
    pub duration: Duration,
    /// How long a holder that can't renew goes on. Shorter than `duration`: what is under way when it ceases
    /// has the difference to come to its end.
    pub renew: Duration,
    /// How often it is renewed, or tried for.
    pub retry: Duration,
}

/// Stands for election as long as it runs.
#[derive(Debug)]
pub struct Election {
    api: Api<Lease>,
    name: String,
    identity: String,
    timing: Timing,
    leadership: Leadership,
    /// The Lease of another one as it was seen last, and since when it was seen like that.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Election {
    /// A candidate for the Lease of this name.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, timing: Timing) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing,
            leadership: Leadership::none(),
            seen: None,
        }
    }

    /// What it comes to.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Runs until it is stopped; then the Lease is given up, so that another one leads at once.
    pub async fn run(mut self, stop: CancellationToken) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut changes = pin!(watcher(self.api.clone(), config).default_backoff());
        loop {
            self.stand().await;
            let pause = self.pause();
            let mut news = pin!(async {
                // What this one writes is no news.
                while let Some(event) = changes.next().await {
                    match event {
                        Ok(watcher::Event::Apply(lease)) if !self.is_mine(&lease) => return,
                        Ok(watcher::Event::Delete(_)) => return,
                        _ => {}
                    }
                }
                std::future::pending::<()>().await;
            });
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
                () = &mut news => {}
            }
        }
        self.give_up().await;
    }

    /// Until the next try: the retry period, a little longer each time, and no longer than it leads.
    fn pause(&self) -> Duration {
        let pause = self.timing.retry.mul_f64(1.0 + rand::random::<f64>() / 5.0);
        match self.leadership.leads() {
            true => pause.min(self.leadership.left()),
            false => pause,
        }
    }

    async fn stand(&mut self) {
        let began = Instant::now();
        let tried = tokio::time::timeout(PATIENCE.min(self.timing.retry), self.try_once()).await;
        let led = *self.leadership.0.changed.borrow();
        match tried {
            Ok(Ok(Outcome::Mine)) => {
                self.leadership.set(Some(began + self.timing.renew));
                if !led {
                    tracing::info!(lease = %self.name, identity = %self.identity, "this replica leads");
                }
                return;
            }
            Ok(Ok(Outcome::Anothers)) => {
                self.leadership.set(None);
                if led {
                    tracing::warn!(lease = %self.name, "another replica leads");
                }
                return;
            }
            // Somebody wrote at the same moment; the next try sees what.
            Ok(Ok(Outcome::Conflict)) => {}
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.name, %error, "cannot take or renew the lease; it is tried again");
            }
            Err(_) => tracing::warn!(lease = %self.name, "no answer about the lease; it is tried again"),
        }
        if led && !self.leadership.leads() {
            tracing::warn!(lease = %self.name, "this replica could not renew its lease, and ceases to lead");
            self.leadership.set(None);
        }
    }

    async fn try_once(&mut self) -> Result<Outcome, kube::Error> {
        let params = PostParams::default();
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..Default::default()
                },
                spec: Some(self.spec(None)),
            };
            return taken(self.api.create(&params, &lease).await);
        };
        let old = lease.spec.take().unwrap_or_default();
        if !self.may_take(&old) {
            return Ok(Outcome::Anothers);
        }
        lease.spec = Some(self.spec(Some(&old)));
        // With the resource version that was read: whoever was quicker has it.
        taken(self.api.replace(&self.name, &params, &lease).await)
    }

    fn may_take(&mut self, old: &LeaseSpec) -> bool {
        let holder = old.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            self.seen = None;
            return true;
        }
        let now = Instant::now();
        let since = match &self.seen {
            Some((seen, since)) if seen == old => *since,
            _ => {
                self.seen = Some((old.clone(), now));
                now
            }
        };
        let seconds = old
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(self.timing.duration, Duration::from_secs);
        now.duration_since(since) >= duration
    }

    fn spec(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let mine = old.filter(|old| old.holder_identity.as_deref() == Some(&self.identity));
        let transitions = old.and_then(|old| old.lease_transitions);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.timing.duration.as_secs()).ok(),
            acquire_time: mine
                .and_then(|mine| mine.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: match (mine, old) {
                (None, Some(_)) => Some(transitions.unwrap_or_default().saturating_add(1)),
                _ => Some(transitions.unwrap_or_default()),
            },
            ..old.cloned().unwrap_or_default()
        }
    }

    fn is_mine(&self, lease: &Lease) -> bool {
        let spec = lease.spec.as_ref();
        spec.is_some_and(|spec| spec.holder_identity.as_deref() == Some(&self.identity))
    }

    /// As client-go does: nobody holds it, for a second.
    async fn give_up(&self) {
        let led = self.leadership.leads();
        self.leadership.set(None);
        if !led {
            return;
        }
        let give_up = async {
            let mut lease = self.api.get(&self.name).await?;
            if !self.is_mine(&lease) {
                return Ok(());
            }
            let now = MicroTime(Timestamp::now());
            if let Some(spec) = &mut lease.spec {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                spec.renew_time = Some(now);
            }
            self.api
                .replace(&self.name, &PostParams::default(), &lease)
                .await
                .map(drop)
        };
        match tokio::time::timeout(PATIENCE, give_up).await {
            Ok(Ok(())) => tracing::info!(lease = %self.name, "the lease is given up"),
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.name, %error, "cannot give the lease up; it expires");
            }
            Err(_) => tracing::warn!(lease = %self.name, "no answer; the lease expires"),
        }
    }
}

/// Whose the Lease is.
enum Outcome {
    Mine,
    Anothers,
    Conflict,
}

fn taken<T>(result: Result<T, kube::Error>) -> Result<Outcome, kube::Error> {
    match result {
        Ok(_) => Ok(Outcome::Mine),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
            Ok(Outcome::Conflict)
        }
        Err(error) => Err(error),
    }
}
