//! An Image: everything that is told of one wish. See the message of that name in the proto file.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::{
    domain::{AttemptError, AttemptRecord, Claim, Content, ImageId, Phase, Resolution, Wish},
    error::Fault,
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
