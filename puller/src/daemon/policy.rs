//! Notices a verification policy that changes, for those who rest because of it.

use std::{sync::Arc, time::Duration};

use super::Daemon;
use crate::machine::Machine;

/// How often the policy's files are read: often enough for whoever has just corrected them and watches, and
/// next to nothing for small files that the kernel has in memory. Each pull reads them itself.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Daemon {
    /// Tries again what failed by the policy whenever that changes.
    pub(super) async fn watch_policy(self: &Arc<Self>) {
        // As it was opened, before any job began.
        let mut known = 0;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let policy = Arc::clone(&self.engine.policy);
            match tokio::task::spawn_blocking(move || policy.look()).await {
                Ok(version) if version == known => {}
                Ok(version) => {
                    known = version;
                    self.update(Machine::policy_changed);
                }
                Err(panic) => tracing::error!(%panic, "looking at the policy failed"),
            }
        }
    }
}
