//! An Image: everything that is told of one wish. See the message of that name in the proto file.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    domain::{Digest, ImageId, Phase, Reason, Skipped, UnpackOptions, Wish},
    error::Fault,
    machine::Claim,
};

/// Attempts that are remembered.
pub const MAX_ATTEMPTS: usize = 10;

/// The state of one wish.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Its name.
    pub id: ImageId,
    /// What is wanted.
    pub wish: Wish,
    /// By whom.
    pub claims: BTreeMap<String, Claim>,
    /// Where it stands.
    pub phase: Phase,
    /// Since when.
    pub phase_since: Timestamp,
    /// How far the running or last attempt is.
    pub progress: Option<Progress>,
    /// The published tree.
    pub content: Option<Content>,
    /// What the reference stands for.
    pub resolution: Option<Resolution>,
    /// The running or last attempt.
    pub attempt: u32,
    /// The last failure since the last success.
    pub last_error: Option<AttemptError>,
    /// The last attempts that ended, oldest first.
    pub attempts: VecDeque<AttemptRecord>,
    /// When the next attempt begins.
    pub next_retry: Option<Timestamp>,
    /// When it was first wished.
    pub created: Timestamp,
    /// When the last claim ended.
    pub unclaimed_since: Option<Timestamp>,
    /// No attempt can begin before its scope's credentials come by Fetch.
    pub awaits_credentials: bool,
}

/// See `Progress` in the proto file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the proto file documents each field")]
pub struct Progress {
    pub layers_done: u32,
    pub layers_total: Option<u32>,
    pub bytes_done: u64,
    pub bytes_total: Option<u64>,
    pub unpacked_bytes: u64,
    pub unpacked_entries: u64,
    pub waiting_for: String,
    pub started: Timestamp,
    pub pulling_since: Option<Timestamp>,
    pub unpacking_since: Option<Timestamp>,
    pub unpacked_at: Option<Timestamp>,
}

/// A published tree, as its record on the volume has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The directory's name below `content/`.
    pub name: String,
    /// The digest of the manifest that was unpacked.
    pub manifest_digest: Digest,
    /// The selected path; empty: everything.
    pub selected: String,
    /// How it was unpacked.
    pub unpack: UnpackOptions,
    /// Bytes of all regular files.
    pub size: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links that lead out of the tree.
    pub escaping_links: u64,
    /// What was left out.
    pub skipped: Skipped,
    /// When it was published.
    pub published: Timestamp,
    /// How long making it durable took.
    pub sync: Duration,
}

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
    /// The fault's text.
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
    pub error: Option<(Reason, String)>,
    /// Compressed bytes it brought over the network.
    pub bytes: u64,
}

impl Image {
    /// A wish that was just recorded.
    pub fn new(id: ImageId, wish: Wish, now: Timestamp) -> Self {
        Self {
            id,
            wish,
            claims: BTreeMap::new(),
            phase: Phase::Initiated,
            phase_since: now,
            progress: None,
            content: None,
            resolution: None,
            attempt: 0,
            last_error: None,
            attempts: VecDeque::new(),
            next_retry: None,
            created: now,
            unclaimed_since: None,
            awaits_credentials: false,
        }
    }

    pub(super) fn remember(&mut self, record: AttemptRecord) {
        if self.attempts.len() == MAX_ATTEMPTS {
            self.attempts.pop_front();
        }
        self.attempts.push_back(record);
    }

    pub(super) fn set_error(&mut self, fault: &Fault, now: Timestamp) {
        self.last_error = Some(AttemptError {
            reason: fault.reason,
            message: fault.to_string(),
            time: now,
            attempt: self.attempt,
        });
    }
}

impl Progress {
    pub(super) fn begin(now: Timestamp) -> Self {
        Self {
            layers_done: 0,
            layers_total: None,
            bytes_done: 0,
            bytes_total: None,
            unpacked_bytes: 0,
            unpacked_entries: 0,
            waiting_for: String::new(),
            started: now,
            pulling_since: None,
            unpacking_since: None,
            unpacked_at: None,
        }
    }
}
