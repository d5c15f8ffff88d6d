//! What the controller counts: as controller-runtime's metrics are called where they mean the same, and our own.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};

use super::known::Known;
use crate::{leader::Leadership, server::Requests};

/// The value of the label `controller`: catalogd's.
const CONTROLLER: &str = "catalogd-clustercatalog-controller";
/// Seconds of a reconcile, as controller-runtime has them, up to a minute.
const SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0,
];

/// Which controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

/// Which controller, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    controller: &'static str,
    result: &'static str,
}

/// How catalogs are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
}

/// The metrics of this process.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    ended: Family<Ended, Counter<u64, AtomicU64>>,
    errors: Family<Controller, Counter<u64, AtomicU64>>,
    seconds: Family<Controller, Histogram, fn() -> Histogram>,
    active: Family<Controller, Gauge<i64, AtomicI64>>,
    /// Those of requests for content.
    pub(super) requests: Requests,
    registry: Arc<Registry>,
}

const LABELS: Controller = Controller {
    controller: CONTROLLER,
};

impl Metrics {
    pub(super) fn new(objects: Known, leadership: Leadership) -> Self {
        let mut registry = Registry::default();
        let ended = Family::default();
        let errors = Family::default();
        let seconds: Family<_, _, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(SECONDS));
        let active = Family::default();
        registry.register(
            "controller_runtime_reconcile",
            "Reconciles by how they ended",
            ended.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciles that failed",
            errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long reconciles took",
            seconds.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Reconciles that are under way",
            active.clone(),
        );
        registry.register_collector(Box::new(State { objects, leadership }));
        let requests = Requests::register(&mut registry);
        for result in ["success", "requeue_after", "error"] {
            drop(ended.get_or_create(&Ended {
                controller: CONTROLLER,
                result,
            }));
        }
        drop(errors.get_or_create(&LABELS));
        Self {
            ended,
            errors,
            seconds,
            active,
            requests,
            registry: Arc::new(registry),
        }
    }

    /// All of them, in Prometheus' text format.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = prometheus_client::encoding::prometheus_text::encode(&mut text, &self.registry);
        text
    }

    pub(super) fn begins(&self) {
        self.active.get_or_create(&LABELS).inc();
    }

    /// How a reconcile ended: `success`, `requeue_after` or `error`.
    pub(super) fn ends(&self, result: &'static str, took: Duration) {
        self.active.get_or_create(&LABELS).dec();
        self.seconds.get_or_create(&LABELS).observe(took.as_secs_f64());
        self.ended
            .get_or_create(&Ended {
                controller: CONTROLLER,
                result,
            })
            .inc();
        if result == "error" {
            self.errors.get_or_create(&LABELS).inc();
        }
    }
}

/// What is the case at the moment that somebody asks.
#[derive(Debug)]
struct State {
    objects: Known,
    leadership: Leadership,
}

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let leads = ConstGauge::new(i64::from(self.leadership.leads()));
        let name = [("name", crate::run::LEASE)];
        let mut master = encoder.encode_descriptor(
            "leader_election_master_status",
            "Whether this replica leads",
            None,
            leads.metric_type(),
        )?;
        leads.encode(master.encode_family(&name)?)?;
        let mut conditions = std::collections::BTreeMap::<Condition, i64>::new();
        for catalog in self.objects.0.state() {
            for condition in catalog.status.iter().flat_map(|status| &status.conditions) {
                *conditions
                    .entry(Condition {
                        r#type: condition.type_.clone(),
                        status: condition.status.clone(),
                        reason: condition.reason.clone(),
                    })
                    .or_default() += 1;
            }
        }
        let mut catalogs = encoder.encode_descriptor(
            "catalog_controller_catalogs",
            "ClusterCatalogs by condition",
            None,
            leads.metric_type(),
        )?;
        for (condition, count) in conditions {
            ConstGauge::new(count).encode(catalogs.encode_family(&condition)?)?;
        }
        Ok(())
    }
}
