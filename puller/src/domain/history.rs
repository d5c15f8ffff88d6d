//! What has become of a wish so far: what it stands for, and how its attempts went.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Digest, Reason};

/// What the reference stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// Of an index or a manifest.
    pub digest: Digest,
    /// When it was first found to be that.
    pub resolved: Timestamp,
    /// When the last check that confirmed it began.
    pub checked: Timestamp,
}

/// A failure that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptError {
    /// The class.
    pub reason: Reason,
    /// What was asked, what happened, what would be right.
    pub message: String,
    /// When.
    pub time: Timestamp,
    /// In which attempt.
    pub attempt: u32,
}

/// An attempt that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Its number.
    pub attempt: u32,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Why it failed; none: it succeeded.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// What was said about it; empty: it succeeded.
    #[serde(default)]
    pub message: String,
    /// Compressed bytes that it brought over the network.
    #[serde(default)]
    pub bytes: u64,
}
