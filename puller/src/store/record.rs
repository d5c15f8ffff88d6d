//! What the records say: plain data, written as JSON by the store.
//!
//! A field that is added later gets `serde(default)`, so that older records load.

use std::{fmt::Display, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::domain::{
    Digest, ImageId, Phase, Platform, Reason, Reference, Scope, Selection, Skipped, UnpackOptions, Wish,
    wish::content_name,
};

/// Attempts that an Image's record remembers.
pub const MAX_ATTEMPTS: usize = 10;

/// An Image as it survives a restart: the wish, who claims it, and how its pulls went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// The wish; the Image's id follows from it.
    #[serde(with = "WishText")]
    pub wish: Wish,
    /// When the wish was first recorded.
    pub created: Timestamp,
    /// Where the Image stood when the record was written.
    pub phase: Phase,
    /// When it entered that phase.
    pub phase_since: Timestamp,
    /// Who claims it.
    #[serde(default)]
    pub claims: Vec<ClaimRecord>,
    /// When the last claim ended; `None`: it is claimed.
    #[serde(default)]
    pub unclaimed_since: Option<Timestamp>,
    /// What the reference stands for.
    #[serde(default)]
    pub resolution: Option<ResolutionRecord>,
    /// The name of the published content, if there is any.
    #[serde(default)]
    pub content: Option<String>,
    /// What the reference stood for when the content was made.
    #[serde(default)]
    pub content_for: Option<Digest>,
    /// The running or last attempt, from 1; 0: none yet.
    #[serde(default)]
    pub attempt: u32,
    /// Failures one after the other, which the back-off follows.
    #[serde(default)]
    pub failures: u32,
    /// When the next attempt begins by itself.
    #[serde(default)]
    pub next_retry: Option<Timestamp>,
    /// The last failure since the last success.
    #[serde(default)]
    pub last_error: Option<ErrorRecord>,
    /// The last attempts that ended, oldest first; at most [`MAX_ATTEMPTS`].
    #[serde(default)]
    pub attempts: Vec<AttemptRecord>,
    /// The layers that the pull wants: their files are kept for it.
    #[serde(default)]
    pub blobs: Vec<Digest>,
}

impl ImageRecord {
    /// A wish of which nothing is known yet.
    pub fn new(wish: Wish, now: Timestamp) -> Self {
        Self {
            wish,
            created: now,
            phase: Phase::Initiated,
            phase_since: now,
            claims: Vec::new(),
            unclaimed_since: None,
            resolution: None,
            content: None,
            content_for: None,
            attempt: 0,
            failures: 0,
            next_retry: None,
            last_error: None,
            attempts: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// The Image's id, which is also the record's name.
    pub fn id(&self) -> ImageId {
        self.wish.id()
    }
}

/// One claimant's hold on an Image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Who.
    pub claimant: String,
    /// Its last Fetch.
    pub renewed: Timestamp,
    /// When the claim ends unless renewed; `None`: never.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// The manifests whose content it still reads.
    #[serde(default)]
    pub in_use: Vec<Digest>,
}

/// What a reference stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolutionRecord {
    /// The digest of an index or a manifest.
    pub digest: Digest,
    /// When it was first resolved to it.
    pub resolved: Timestamp,
    /// When the registry last confirmed it.
    pub checked: Timestamp,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// Its class.
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
    /// Why it failed; `None`: it succeeded.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// What was said about it; empty: it succeeded.
    #[serde(default)]
    pub message: String,
    /// Compressed bytes that it brought over the network.
    #[serde(default)]
    pub bytes: u64,
}

/// A published tree. Its being recorded is what makes it complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentRecord {
    /// The manifest that was unpacked.
    pub manifest_digest: Digest,
    /// The selected path without a leading `/`; empty: everything.
    #[serde(default)]
    pub selected: String,
    /// How it was unpacked.
    pub unpack: UnpackOptions,
    /// Bytes of all regular files.
    pub size: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links that lead out of the tree.
    #[serde(default)]
    pub escaping_links: u64,
    /// What was left out.
    #[serde(default)]
    pub skipped: Skipped,
    /// When it was published; set by [`Volume::publish`](super::Volume::publish).
    pub published: Timestamp,
    /// How long the volume took to make it durable, in microseconds; set there too.
    #[serde(default)]
    pub sync_micros: u64,
}

impl ContentRecord {
    /// The name of the tree and of the record.
    pub fn name(&self) -> String {
        content_name(&self.manifest_digest, &self.selected, &self.unpack)
    }

    /// The tree's root, relative to the volume's.
    pub fn path(&self) -> String {
        format!("{}/{}", super::volume::CONTENT, self.name())
    }
}

/// How a [`Wish`] stands in a record.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Wish")]
struct WishText {
    asked: String,
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    reference: Reference,
    platform: Platform,
    selection: Selection,
    unpack: UnpackOptions,
    scope: Scope,
}

fn to_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}
