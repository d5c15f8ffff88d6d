//! Which image of an index is wanted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Descriptor, Kind, descriptor::WireDescriptor, fault, kind_of, texts, unsupported};
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
    /// Of a manifest or another index. One that is unsound is the fault of whoever picks it only: the index
    /// has others.
    pub descriptor: Result<Descriptor, Fault>,
    /// `None`: the index does not say. A platform that is no sound one matches nothing.
    pub platform: Option<Result<Platform, String>>,
    /// Whether it wants features of the system that are not known here (`os.features`).
    pub features: bool,
    /// Whether it is an attestation of another entry.
    pub attestation: bool,
}

/// What says for whom an entry is.
#[derive(Default, Deserialize)]
struct WireEntry {
    #[serde(default)]
    platform: Option<WirePlatform>,
    #[serde(default, deserialize_with = "texts")]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct WirePlatform {
    #[serde(default)]
    os: Option<String>,
    #[serde(default)]
    architecture: Option<String>,
    #[serde(default)]
    variant: Option<String>,
    #[serde(default, rename = "os.features")]
    features: Option<Vec<String>>,
}

impl Index {
    pub(super) fn new(entries: &[Box<RawValue>], asked: &str) -> Self {
        let entries = entries.iter().enumerate();
        Self {
            entries: entries
                .map(|(position, json)| Entry::new(json, position, asked))
                .collect(),
        }
    }

    /// The manifest for a platform; it may be an index again (see [`Entry::is_index`]).
    ///
    /// The variant is the same or, as for containerd and Docker, the highest below: what is made for
    /// `arm/v6` runs on `arm/v7`. An entry without one matches any. A wish without a variant takes an entry
    /// without one first, else the first. `arm64` is `arm64/v8`, and so are other names of the same thing.
    /// What is sound, of a known type and wants no features of the system goes before what is not.
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
    fn new(json: &RawValue, position: usize, asked: &str) -> Self {
        let what = format!("manifest {}", position + 1);
        let descriptor = serde_json::from_str::<WireDescriptor>(json.get())
            .map_err(|error| {
                let problem = fault::quoted(&error.to_string());
                unsupported(asked, format!("its {what} is unsound: {problem}"))
            })
            .and_then(|wire| Descriptor::check(wire, &what, asked));
        let WireEntry {
            platform,
            annotations,
        } = serde_json::from_str(json.get()).unwrap_or_default();
        let features = platform.as_ref().and_then(|platform| platform.features.as_ref());
        let features = features.is_some_and(|features| !features.is_empty());
        let platform = platform.and_then(WirePlatform::check);
        let unknown = platform.as_ref().is_some_and(|platform| {
            let is_unknown = |p: &Platform| p.os == "unknown" && p.architecture == "unknown";
            platform.as_ref().is_ok_and(is_unknown)
        });
        Self {
            attestation: unknown || annotations.contains_key(REFERENCE_TYPE),
            descriptor,
            platform,
            features,
        }
    }

    fn kind(&self) -> Option<Kind> {
        kind_of(&self.descriptor.as_ref().ok()?.media_type)
    }

    /// Whether what it describes says of itself that it is an index.
    pub fn is_index(&self) -> bool {
        self.kind() == Some(Kind::Index)
    }

    /// How well it matches; the least is the best.
    fn rank(&self, wanted: &Platform) -> Option<impl Ord + Copy + use<>> {
        let own = normal(self.platform.as_ref()?.as_ref().ok()?);
        let wanted = normal(wanted);
        if own.os != wanted.os || own.architecture != wanted.architecture {
            return None;
        }
        let variant = variant_rank(&own, &wanted)?;
        Some((
            self.descriptor.is_err(),
            self.kind().is_none(),
            self.features,
            variant,
        ))
    }
}

/// How well the variant of an entry matches, for one operating system and architecture.
fn variant_rank(own: &Platform, wanted: &Platform) -> Option<u32> {
    // Whatever the levels are, these come last.
    const UNKNOWN: u32 = u32::MAX;
    if own.variant == wanted.variant {
        return Some(0);
    }
    match (level(own), level(wanted)) {
        _ if wanted.variant.is_empty() => Some(UNKNOWN),
        (Some(own), Some(wanted)) if own <= wanted => Some(1 + u32::from(wanted - own)),
        _ => own.variant.is_empty().then_some(UNKNOWN),
    }
}

/// Orders the variants of an architecture whose later ones run what is made for earlier ones. Without a
/// variant it is what the architecture has at least, or for arm what nearly all images are made for.
fn level(platform: &Platform) -> Option<u8> {
    let of = |variant: &str| variant.strip_prefix('v')?.parse().ok();
    match (platform.architecture.as_str(), platform.variant.as_str()) {
        ("amd64", "") => Some(1),
        ("arm", "") => Some(7),
        ("arm64", "") => Some(8),
        ("amd64" | "arm" | "arm64", variant) => of(variant),
        _ => None,
    }
}

/// The platform by its usual name, as containerd has it, without the variant that an architecture has
/// anyhow. Tools that do not go by Go's names write others.
fn normal(platform: &Platform) -> Platform {
    let os = platform.os.to_ascii_lowercase();
    let architecture = platform.architecture.to_ascii_lowercase();
    let variant = platform.variant.to_ascii_lowercase();
    let (architecture, variant) = match (architecture.as_str(), variant.as_str()) {
        ("x86_64" | "x86-64" | "amd64", "" | "v1" | "1") => ("amd64", ""),
        ("x86_64" | "x86-64", variant) => ("amd64", variant),
        ("aarch64" | "arm64", "" | "v8" | "8") => ("arm64", ""),
        ("aarch64", variant) => ("arm64", variant),
        ("i386", _) => ("386", ""),
        ("armhf", _) => ("arm", "v7"),
        ("armel", _) => ("arm", "v6"),
        ("arm", "5") => ("arm", "v5"),
        ("arm", "6") => ("arm", "v6"),
        ("arm", "7") => ("arm", "v7"),
        ("arm", "8") => ("arm", "v8"),
        others => others,
    };
    Platform {
        architecture: architecture.to_owned(),
        variant: variant.to_owned(),
        os: match os.as_str() {
            "macos" => "darwin".to_owned(),
            _ => os,
        },
    }
}

impl WirePlatform {
    /// `None`: it says nothing.
    fn check(self) -> Option<Result<Platform, String>> {
        let (os, architecture) = (self.os.unwrap_or_default(), self.architecture.unwrap_or_default());
        if os.is_empty() && architecture.is_empty() {
            return None;
        }
        let variant = self.variant.unwrap_or_default();
        let platform = Platform::new(&os, &architecture, &variant);
        Some(platform.map_err(|_| fault::quoted(&format!("{os}/{architecture}/{variant}"))))
    }
}
