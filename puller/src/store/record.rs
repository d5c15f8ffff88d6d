//! What the records say: plain data, written as JSON by the store.
//!
//! A field that is added later gets `serde(default)`, so that older records load.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Display,
    str::FromStr,
};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::domain::{
    AttemptError, AttemptRecord, Claim, Digest, ImageId, Phase, Platform, Reference, Resolution, Scope,
    Selection, UnpackOptions, Wish,
};

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
    pub claims: BTreeMap<String, Claim>,
    /// When the last claim ended; `None`: it is claimed.
    #[serde(default)]
    pub unclaimed_since: Option<Timestamp>,
    /// What the reference stands for.
    #[serde(default)]
    pub resolution: Option<Resolution>,
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
    pub last_error: Option<AttemptError>,
    /// The last attempts that ended, oldest first.
    #[serde(default)]
    pub attempts: VecDeque<AttemptRecord>,
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
            claims: BTreeMap::new(),
            unclaimed_since: None,
            resolution: None,
            content: None,
            content_for: None,
            attempt: 0,
            failures: 0,
            next_retry: None,
            last_error: None,
            attempts: VecDeque::new(),
            blobs: Vec::new(),
        }
    }

    /// The Image's id, which is also the record's name.
    pub fn id(&self) -> ImageId {
        self.wish.id()
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
