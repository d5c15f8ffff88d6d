//! Which image of an index is wanted.

use serde::Deserialize;

use super::{Descriptor, Kind, descriptor::WireDescriptor, fault, kind_of};
use crate::{
    domain::{Platform, Reason},
    error::Fault,
};

/// Marks what BuildKit keeps beside images: it is of no platform and is not unpacked.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// Most platforms that a message names.
const MOST_NAMED: usize = 12;

/// An index (OCI) or manifest list (Docker).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// In the index's order.
    pub entries: Vec<Entry>,
}

/// One manifest of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Of a manifest or another index.
    pub descriptor: Descriptor,
    /// `None`: the index does not say. A platform that is no sound one matches nothing.
    pub platform: Option<Result<Platform, String>>,
    /// Whether it is an attestation of another entry.
    pub attestation: bool,
}

#[derive(Deserialize)]
pub(super) struct WireEntry {
    #[serde(flatten)]
    descriptor: WireDescriptor,
    platform: Option<WirePlatform>,
}

#[derive(Deserialize)]
struct WirePlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

impl Index {
    pub(super) fn new(entries: Vec<WireEntry>, asked: &str) -> Result<Self, Fault> {
        let entry = |(position, wire): (usize, WireEntry)| {
            let what = format!("manifest {}", position + 1);
            let descriptor = Descriptor::check(wire.descriptor, &what, asked)?;
            let platform = wire
                .platform
                .filter(|platform| !platform.os.is_empty() || !platform.architecture.is_empty());
            let unknown = platform
                .as_ref()
                .is_some_and(|p| p.os == "unknown" && p.architecture == "unknown");
            Ok(Entry {
                attestation: unknown || descriptor.annotations.contains_key(REFERENCE_TYPE),
                platform: platform.map(WirePlatform::check),
                descriptor,
            })
        };
        let entries = entries
            .into_iter()
            .enumerate()
            .map(entry)
            .collect::<Result<_, Fault>>()?;
        Ok(Self { entries })
    }

    /// The manifest for a platform; it may be an index again (see [`Entry::is_index`]).
    ///
    /// The variant must be the same, or the entry has none; of several the exact one goes first. A
    /// wish without a variant takes an entry without one first, else the first. `arm64` is `arm64/v8`.
    /// An entry that does not tell its platform is taken if nothing matches and it is an index or the
    /// only one.
    ///
    /// # Errors
    /// `platform not found`, with the platforms that there are.
    pub fn pick(&self, platform: &Platform, asked: &str) -> Result<&Entry, Fault> {
        let images = || self.entries.iter().filter(|entry| !entry.attestation);
        let best = images()
            .filter_map(|entry| Some((entry.rank(platform)?, entry)))
            // The first of the best.
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, entry)| entry);
        let untold = || images().filter(|entry| entry.platform.is_none());
        best.or_else(|| untold().find(|entry| entry.is_index()))
            .or_else(|| untold().next().filter(|_| images().count() == 1))
            .ok_or_else(|| self.not_found(platform, asked))
    }

    fn not_found(&self, platform: &Platform, asked: &str) -> Fault {
        let mut there: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| !entry.attestation)
            .map(|entry| match &entry.platform {
                Some(Ok(platform)) => platform.to_string(),
                Some(Err(text)) => text.clone(),
                None => "one without a platform".to_owned(),
            })
            .collect();
        let more = there.len().saturating_sub(MOST_NAMED);
        there.truncate(MOST_NAMED);
        if more > 0 {
            there.push(format!("{more} more"));
        }
        let there = if there.is_empty() {
            "nothing".to_owned()
        } else {
            there.join(", ")
        };
        Fault::new(
            Reason::PlatformNotFound,
            asked,
            format!("the index has no image for {platform}; it has {there}"),
            "ask for a platform that it has, or push an image for this one",
        )
    }
}

impl Entry {
    /// Whether what it describes says of itself that it is an index.
    pub fn is_index(&self) -> bool {
        kind_of(&self.descriptor.media_type) == Some(Kind::Index)
    }

    /// How well it matches, the best being 0.
    fn rank(&self, wanted: &Platform) -> Option<u8> {
        let own = self.platform.as_ref()?.as_ref().ok()?;
        if own.os != wanted.os || own.architecture != wanted.architecture {
            return None;
        }
        match (variant(own), variant(wanted)) {
            (own, wanted) if own == wanted => Some(0),
            ("", _) => Some(1),
            (_, "") => Some(2),
            _ => None,
        }
    }
}

/// The variant, without the one that an architecture has anyhow.
fn variant(platform: &Platform) -> &str {
    match (platform.architecture.as_str(), platform.variant.as_str()) {
        ("arm64", "v8") | ("amd64", "v1") => "",
        (_, variant) => variant,
    }
}

impl WirePlatform {
    fn check(self) -> Result<Platform, String> {
        let variant = self.variant.unwrap_or_default();
        Platform::new(&self.os, &self.architecture, &variant)
            .map_err(|_| fault::quoted(&format!("{}/{}/{variant}", self.os, self.architecture)))
    }
}
