//! What is measured, for Prometheus: names, labels and help stand here and in `docs/operations.md`, whose
//! table a test compares with this.
//!
//! Counters and durations are counted where things happen; gauges are set when somebody scrapes
//! ([`Daemon::scrape`](crate::daemon::Daemon::scrape)). No label holds a reference, a registry's name or
//! anything else that clients choose, so the number of series is bounded.

use std::{fmt::Debug, hash::Hash, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, prometheus_text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Metric, Registry, Unit},
};

mod labels;

use labels::{Call, Ended, Outcome, State};

use crate::{
    domain::{Phase, Reason},
    store::Space,
};

/// The `Content-Type` of [`Metrics::encode`].
pub use prometheus_text::CONTENT_TYPE;

/// From half a millisecond, since calls wait for nothing, to what a client notices.
const CALL_SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0];

/// From a small image on loopback to a large one over a bad line.
const ATTEMPT_SECONDS: [f64; 11] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// From a fast disk to one that is the problem.
const SYNC_SECONDS: [f64; 8] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// All metrics of one daemon.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    images: Family<State, Gauge>,
    attempts: Family<Ended, Counter>,
    attempt_seconds: Family<Outcome, Histogram>,
    running: Gauge,
    queued: Gauge,
    fetched: Counter,
    unpacked: Counter,
    sync_seconds: Histogram,
    volume_size: Gauge,
    volume_free: Gauge,
    volume_used: Gauge,
    inodes: Gauge,
    inodes_free: Gauge,
    contents: Gauge,
    set_aside: Counter,
    watchers: Gauge,
    calls: Family<Call, Histogram>,
}

/// How an attempt has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Content was published, or was there already.
    Unpacked,
    /// The tag stands for what is unpacked still.
    Unchanged,
    /// It was cancelled: nobody wants it any more, or the puller stops.
    Cancelled,
    /// It failed.
    Failed(Reason),
}

impl End {
    fn outcome(self) -> &'static str {
        match self {
            Self::Unpacked => "unpacked",
            Self::Unchanged => "unchanged",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }
}

/// What gauges are set to.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The phase of each Image, and the reason of its last error.
    pub images: Vec<(Phase, Option<Reason>)>,
    /// Attempts that run.
    pub running: usize,
    /// Those of them that wait for a slot.
    pub queued: usize,
    /// Room on the volume; `None`: it can't be asked.
    pub space: Option<Space>,
    /// Bytes that the puller uses of it; `None`: it can't be asked.
    pub used: Option<u64>,
    /// Published trees.
    pub contents: usize,
    /// Calls of Watch that are open.
    pub watchers: usize,
}

impl Metrics {
    /// All at zero. `set_aside`: records that did not hold at the start.
    pub fn new(set_aside: u64) -> Self {
        let mut registry = Registry::with_prefix("puller");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version that runs; always 1", build);
        let r = &mut registry;
        let metrics = Self {
            images: plain(r, "images", "Images by phase, and by reason where one is shown"),
            attempts: plain(r, "attempts", "Attempts that have ended, by outcome and reason"),
            attempt_seconds: family(
                r,
                "attempt_duration",
                "How long attempts took, waits for slots included",
                || Histogram::new(ATTEMPT_SECONDS),
            ),
            running: plain(r, "attempts_running", "Attempts that run now"),
            queued: plain(r, "attempts_queued", "Attempts that wait for a slot now"),
            fetched: bytes(r, "fetched", "Compressed layer bytes that came over the network"),
            unpacked: bytes(r, "unpacked", "Bytes written to trees"),
            sync_seconds: seconds(
                r,
                "sync_duration",
                "How long the disk took to make published content durable",
                Histogram::new(SYNC_SECONDS),
            ),
            volume_size: bytes(r, "volume_size", "Bytes of the volume's file system"),
            volume_free: bytes(
                r,
                "volume_free",
                "Bytes of it that may still be used, the reserve included",
            ),
            volume_used: bytes(r, "volume_used", "Bytes of published content and kept layers"),
            inodes: plain(
                r,
                "volume_inodes",
                "Inodes of the volume's file system; 0: no limit",
            ),
            inodes_free: plain(
                r,
                "volume_inodes_free",
                "Inodes of it that may still be used, the reserve included",
            ),
            contents: plain(r, "contents", "Published trees"),
            set_aside: plain(r, "records_set_aside", "Records that did not hold at the start"),
            watchers: plain(r, "watchers", "Calls of Watch that are open"),
            calls: family(
                r,
                "grpc_request_duration",
                "How long calls took to be answered; Watch: to begin",
                || Histogram::new(CALL_SECONDS),
            ),
            registry,
        };
        metrics.set_aside.inc_by(set_aside);
        metrics
    }

    /// An attempt has ended after this time.
    pub fn attempt_ended(&self, end: End, took: Duration) {
        let outcome = end.outcome();
        let reason = match end {
            End::Failed(reason) => reason.name(),
            _ => String::new(),
        };
        self.attempts.get_or_create(&Ended { outcome, reason }).inc();
        self.attempt_seconds
            .get_or_create(&Outcome { outcome })
            .observe(took.as_secs_f64());
    }

    /// So many bytes came, and so many were written.
    pub fn moved(&self, fetched: u64, unpacked: u64) {
        self.fetched.inc_by(fetched);
        self.unpacked.inc_by(unpacked);
    }

    /// Content was made durable.
    pub fn synced(&self, took: Duration) {
        self.sync_seconds.observe(took.as_secs_f64());
    }

    /// A call was answered.
    pub fn called(&self, method: &'static str, code: tonic::Code, took: Duration) {
        let code = format!("{code:?}");
        self.calls
            .get_or_create(&Call { method, code })
            .observe(took.as_secs_f64());
    }

    /// The exposition format, version 0.0.4, with gauges as they are now.
    pub fn encode(&self, now: &Snapshot) -> String {
        self.set_images(&now.images);
        self.running.set(whole(now.running));
        self.queued.set(whole(now.queued));
        self.contents.set(whole(now.contents));
        self.watchers.set(whole(now.watchers));
        if let Some(space) = now.space {
            self.volume_size.set(whole(space.bytes_total));
            self.volume_free.set(whole(space.bytes_free));
            self.inodes.set(whole(space.inodes_total));
            self.inodes_free.set(whole(space.inodes_free));
        }
        if let Some(used) = now.used {
            self.volume_used.set(whole(used));
        }
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = prometheus_text::encode(&mut text, &self.registry);
        text
    }

    /// Each state that there can be has a series, so that an alert does not wait for the first of its kind.
    fn set_images(&self, images: &[(Phase, Option<Reason>)]) {
        let count = |state: &State| {
            let is = |(phase, reason): &&(Phase, Option<Reason>)| *state == State::of(*phase, *reason);
            whole(images.iter().filter(is).count())
        };
        for state in State::all() {
            let n = count(&state);
            self.images.get_or_create(&state).set(n);
        }
    }
}

fn plain<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn bytes<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, Unit::Bytes, metric.clone());
    metric
}

fn seconds<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

fn family<L>(registry: &mut Registry, name: &str, help: &str, new: fn() -> Histogram) -> Family<L, Histogram>
where
    L: EncodeLabelSet + Clone + Debug + Eq + Hash + Send + Sync + 'static,
{
    seconds(registry, name, help, Family::new_with_constructor(new))
}

fn whole(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
