//! The ClusterCatalogs of the API server, as far as they are known here.

use std::fmt;

use futures_util::FutureExt as _;
use kube::runtime::reflector;

use crate::api::ClusterCatalog;

/// The objects, as far as they are known here.
#[derive(Clone)]
pub(super) struct Known(pub(super) reflector::Store<ClusterCatalog>);

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Known").field(&self.0.len()).finish()
    }
}

impl Known {
    /// Whether all are known that there were at the start.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.0.wait_until_ready().now_or_never(), Some(Ok(())))
    }

    /// Their names.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.state().iter().map(|catalog| catalog.name()).collect()
    }
}
