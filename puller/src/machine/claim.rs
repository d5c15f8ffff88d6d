//! Claims: who wants an Image.

use std::time::Duration;

use crate::domain::Digest;

/// What a Fetch says of its claimant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Who asks.
    pub claimant: String,
    /// How old a tag's last check may be; none: any age.
    pub max_age: Option<Duration>,
    /// How long the claim lives unless it is renewed; none: for ever.
    pub ttl: Option<Duration>,
    /// The manifest digests that the claimant still reads.
    pub in_use: Vec<Digest>,
}
