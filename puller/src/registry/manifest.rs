//! Manifests, indexes and configs: bytes in, our own types out.
//!
//! A document's kind is decided by its `mediaType`, then by the registry's `Content-Type`, then by its
//! shape: registries and build tools get the first two wrong in every possible way. Everything else is
//! taken from outside as it comes and checked here once, so that whoever gets a [`Descriptor`] has a
//! sound one.

use std::collections::BTreeMap;

use oci_client::manifest::{
    IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE, IMAGE_MANIFEST_LIST_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};

use super::{RawManifest, fault};
use crate::{domain::Reason, error::Fault};

mod config;
mod descriptor;
mod index;

pub use config::Config;
pub use descriptor::{Descriptor, Layer, LayerForm};
pub use index::{Entry, Index};

use descriptor::WireDescriptor;

/// Docker's manifests of before 2016.
const SCHEMA_1: [&str; 2] = [
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
];

/// A document that a tag or a digest stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifest {
    /// Manifests of the same thing for several platforms.
    Index(Index),
    /// A container image.
    Image(Image),
    /// Anything else that is kept in registries: charts, modules, bundles, single files.
    Artifact(Artifact),
}

/// A container image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Of a [`Config`].
    pub config: Descriptor,
    /// The lowest first. The same digest may occur several times, and counts each time.
    pub layers: Vec<Layer>,
}

/// Something that is no container image. Its config is nobody's business but its maker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// `artifactType`, or else the config's media type.
    pub artifact_type: String,
    /// Often empty (`application/vnd.oci.empty.v1+json`).
    pub config: Descriptor,
    /// In the manifest's order.
    pub layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a JSON object")]
struct Wire {
    schema_version: Option<u64>,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<WireDescriptor>,
    layers: Option<Vec<WireDescriptor>>,
    // As they are: one that is odd is no reason to refuse the others.
    manifests: Option<Vec<Box<RawValue>>>,
    fs_layers: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Index,
    Manifest,
}

impl Manifest {
    /// The fault that a document of Docker's schema 1 is, if it and its registry say that it is one. Asked
    /// of bytes that are not those of their digest: a signed one has the digest of what is signed.
    pub(super) fn refused_as_schema_1(raw: &RawManifest, asked: &str) -> Option<Fault> {
        let told = SCHEMA_1.contains(&essence(&raw.content_type).as_str());
        let wire: Wire = serde_json::from_slice(&raw.bytes).ok().filter(|_| told)?;
        (wire.schema_version == Some(1)).then(|| schema_1(asked))
    }

    /// Makes sense of a document. `asked` begins the faults, such as `the manifest of quay.io/a/b:v1`.
    ///
    /// # Errors
    /// `unsupported media type`: it is none of these, is of Docker's schema 1, or holds an unsound
    /// descriptor; `digest mismatch`: inline data does not match its descriptor.
    pub fn parse(raw: &RawManifest, asked: &str) -> Result<Self, Fault> {
        let content_type = essence(&raw.content_type);
        if SCHEMA_1.contains(&content_type.as_str()) {
            return Err(schema_1(asked));
        }
        let wire: Wire = serde_json::from_slice(&raw.bytes).map_err(|error| {
            let problem = format!(
                "it is no manifest, its type is {:?}: {}",
                fault::quoted(&content_type),
                fault::quoted(&error.to_string())
            );
            unsupported(asked, problem)
        })?;
        let is_dockers = wire.is_dockers(&content_type);
        match wire.kind(&content_type, asked)? {
            Kind::Index => {
                let entries = wire.manifests.unwrap_or_default();
                Ok(Self::Index(Index::new(&entries, asked)))
            }
            Kind::Manifest => {
                let config = wire
                    .config
                    .ok_or_else(|| unsupported(asked, "it has no config"))?;
                let config = Descriptor::check(config, "config", asked)?;
                let layers = wire.layers.unwrap_or_default();
                let generic =
                    wire.artifact_type.is_none() && is_untold_config(&config.media_type, is_dockers, &layers);
                if generic || is_image_config(&config.media_type) {
                    let layers = layers.into_iter().enumerate();
                    let layers = layers
                        .map(|(i, layer)| Layer::of_image(layer, i, asked))
                        .collect::<Result<_, _>>()?;
                    return Ok(Self::Image(Image { config, layers }));
                }
                let layers = layers.into_iter().enumerate();
                let layers = layers
                    .map(|(i, layer)| Layer::of_artifact(layer, i, asked))
                    .collect::<Result<_, _>>()?;
                Ok(Self::Artifact(Artifact {
                    artifact_type: match wire.artifact_type {
                        Some(given) if !given.is_empty() => fault::quoted(&given),
                        _ => config.media_type.clone(),
                    },
                    config,
                    layers,
                }))
            }
        }
    }
}

impl Wire {
    /// Whether it is a manifest of Docker's own, which knows images and plugins only.
    fn is_dockers(&self, content_type: &str) -> bool {
        let own_type = self.media_type.as_deref().map(essence).unwrap_or_default();
        let told = if own_type.is_empty() {
            content_type
        } else {
            &own_type
        };
        told == IMAGE_MANIFEST_MEDIA_TYPE
    }

    fn kind(&self, content_type: &str, asked: &str) -> Result<Kind, Fault> {
        let own_type = self.media_type.as_deref().map(essence).unwrap_or_default();
        if SCHEMA_1.contains(&own_type.as_str()) || self.schema_version == Some(1) || self.fs_layers.is_some()
        {
            return Err(schema_1(asked));
        }
        if self.schema_version.is_some_and(|version| version != 2) {
            return Err(unsupported(asked, "its schemaVersion is not 2"));
        }
        let has_index = self.manifests.is_some();
        let has_image = self.config.is_some() || self.layers.is_some();
        // One document must not be two things to two readers (CVE-2021-41190).
        if has_index && has_image {
            return Err(unsupported(asked, "it is both an index and a manifest"));
        }
        let kind = kind_of(&own_type)
            .or_else(|| kind_of(content_type))
            .or(match (has_index, has_image) {
                (true, _) => Some(Kind::Index),
                (_, true) => Some(Kind::Manifest),
                _ => None,
            });
        match kind {
            Some(Kind::Index) if has_image => Err(unsupported(
                asked,
                "it says that it is an index and is a manifest",
            )),
            Some(Kind::Manifest) if has_index => Err(unsupported(
                asked,
                "it says that it is a manifest and is an index",
            )),
            Some(kind) => Ok(kind),
            None => {
                let own_type = if own_type.is_empty() {
                    content_type
                } else {
                    &own_type
                };
                Err(unsupported(
                    asked,
                    format!("its type is {:?}", fault::quoted(own_type)),
                ))
            }
        }
    }
}

fn kind_of(media_type: &str) -> Option<Kind> {
    match media_type {
        OCI_IMAGE_INDEX_MEDIA_TYPE | IMAGE_MANIFEST_LIST_MEDIA_TYPE => Some(Kind::Index),
        OCI_IMAGE_MEDIA_TYPE | IMAGE_MANIFEST_MEDIA_TYPE => Some(Kind::Manifest),
        _ => None,
    }
}

fn is_image_config(media_type: &str) -> bool {
    matches!(
        media_type,
        IMAGE_CONFIG_MEDIA_TYPE | IMAGE_DOCKER_CONFIG_MEDIA_TYPE
    )
}

/// Whether a config of a type that says nothing is an image's. Old clients of Docker wrote such types
/// into their manifests (docker/distribution#1621), and Docker pulls them to this day. Elsewhere a config
/// without a type is one if all that it is for are layers.
fn is_untold_config(media_type: &str, is_dockers: bool, layers: &[WireDescriptor]) -> bool {
    match media_type {
        "application/octet-stream" | "application/json" | "text/html" => is_dockers,
        "" => is_dockers || (!layers.is_empty() && layers.iter().all(WireDescriptor::is_tar)),
        _ => false,
    }
}

/// A map of texts. Values that are none are left out: `null` is what some tools write for nothing, and
/// nobody needs the others.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = Option::<BTreeMap<String, Value>>::deserialize(deserializer)?.unwrap_or_default();
    let text = |(name, value)| match value {
        Value::String(text) => Some((name, text)),
        _ => None,
    };
    Ok(map.into_iter().filter_map(text).collect())
}

/// A media type without its parameters, in lower case (RFC 9110 section 8.3.1).
fn essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn unsupported(asked: &str, happened: impl Into<String>) -> Fault {
    Fault::new(
        Reason::UnsupportedMediaType,
        asked,
        happened,
        "an OCI or Docker (schema 2) manifest or index is supported",
    )
}

fn schema_1(asked: &str) -> Fault {
    unsupported(
        asked,
        "it is a Docker manifest of schema 1 (schema1), which is obsolete; push the image anew",
    )
}

#[cfg(test)]
mod tests;
