//! A published tree.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Digest, Skipped, UnpackOptions, wish::content_name};

/// A published tree: complete, verified, immutable. Its record on the volume is made of this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
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
    /// When it was published; the volume sets it.
    pub published: Timestamp,
    /// How long the volume took to make it durable; set there too.
    #[serde(default)]
    pub sync: Duration,
}

impl Content {
    /// The name of the tree and of its record.
    pub fn name(&self) -> String {
        content_name(&self.manifest_digest, &self.selected, &self.unpack)
    }

    /// The tree's root, relative to the volume's.
    pub fn path(&self) -> String {
        format!("{CONTENT_DIR}/{}", self.name())
    }
}

/// The directory of the volume that holds the published trees.
pub const CONTENT_DIR: &str = "content";
