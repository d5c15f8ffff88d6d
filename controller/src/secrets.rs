//! Credentials for registries, from Secrets: one that a flag names, and the imagePullSecrets of the pod's own
//! ServiceAccount. They are merged in memory, and go nowhere but to the puller.

mod merge;
mod watch;

use std::fmt;

use bytes::Bytes;

pub use self::watch::{Sources, watch};

/// What the Secrets come to, as one docker config.json.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PullSecrets(Option<Bytes>);

impl PullSecrets {
    /// The config.json; none: there is no Secret with credentials.
    pub fn config(&self) -> Option<&Bytes> {
        self.0.as_ref()
    }
}

/// Says no more than whether there are any.
impl fmt::Debug for PullSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "PullSecrets(…)"
        } else {
            "PullSecrets(none)"
        })
    }
}
