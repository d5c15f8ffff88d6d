//! How far an attempt is, for whoever asks while it runs.

use std::sync::{Arc, OnceLock, atomic::Ordering::Relaxed};

use tokio::sync::Notify;

use crate::{domain::Activity, machine::Sample, store::Blob};

/// An attempt's counters: its own, and those of its layers, which other attempts may be filling.
#[derive(Debug, Default)]
pub struct Monitor {
    /// What the attempt's own work has counted.
    pub activity: Arc<Activity>,
    layers: OnceLock<Vec<Arc<Blob>>>,
    begun: Notify,
}

impl Monitor {
    /// The layers are known, by position: one that stands at several positions counts as a layer at
    /// each, its bytes count once.
    pub(super) fn set_layers(&self, layers: Vec<Arc<Blob>>) {
        // A second call could only repeat the first: one attempt has one plan.
        let _ = self.layers.set(layers);
    }

    /// There is something to unpack.
    pub(super) fn bytes_are_there(&self) {
        self.begun.notify_one();
    }

    /// Waits until there is something to unpack.
    pub(super) async fn first_bytes(&self) {
        self.begun.notified().await;
    }

    /// The layers' files, by position; none before they are known.
    pub fn layers(&self) -> &[Arc<Blob>] {
        self.layers.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// The counters now.
    pub fn sample(&self) -> Sample {
        let layers = self.layers();
        let mut different: Vec<&Arc<Blob>> = Vec::with_capacity(layers.len());
        for layer in layers {
            if !different.iter().any(|seen| Arc::ptr_eq(seen, layer)) {
                different.push(layer);
            }
        }
        let done = layers.iter().filter(|layer| layer.verified()).count();
        Sample {
            layers_done: u32::try_from(done).unwrap_or(u32::MAX),
            bytes_done: different.iter().map(|layer| layer.received()).sum(),
            bytes_fetched: self.activity.bytes_fetched.load(Relaxed),
            unpacked_bytes: self.activity.unpacked_bytes.load(Relaxed),
            unpacked_entries: self.activity.unpacked_entries.load(Relaxed),
            waiting_for: self.activity.waits_for(),
        }
    }
}
