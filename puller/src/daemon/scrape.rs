//! What the metrics' gauges are set to.

use super::Daemon;
use crate::metrics::Snapshot;

impl Daemon {
    /// All metrics as they are now, in the exposition format. It waits for the disk.
    pub fn scrape(&self) -> String {
        let volume = &self.engine.volume;
        let images = self.hub.list().0;
        self.metrics.encode(&Snapshot {
            images: images
                .iter()
                .map(|(image, _)| (image.phase, image.reason()))
                .collect(),
            running: self.running().len(),
            queued: self.engine.slots.queued(),
            space: volume.space().ok(),
            used: volume.used().ok(),
            contents: volume.contents().len(),
            watchers: self.hub.watchers(),
        })
    }
}
