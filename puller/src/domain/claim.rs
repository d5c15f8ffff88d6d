//! Who wants an Image.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Digest;

/// A claimant's hold on an Image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The claimant's last Fetch.
    pub renewed: Timestamp,
    /// When it ends unless renewed; none: never.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// The manifests whose content the claimant still reads.
    #[serde(default)]
    pub in_use: Vec<Digest>,
}
