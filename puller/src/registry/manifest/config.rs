//! An image's config, as far as a puller needs it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{fault, texts, unsupported};
use crate::{
    domain::{Digest, Reason},
    error::Fault,
};

/// What an image's config says of its layers and labels (image-spec, "OCI Image Configuration").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The digests of the uncompressed layers, the lowest first; one for each layer of the manifest.
    pub diff_ids: Vec<Digest>,
    /// `config.Labels`.
    pub labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
struct Wire {
    rootfs: Option<RootFs>,
    config: Option<Execution>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct RootFs {
    diff_ids: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Execution {
    #[serde(rename = "Labels", default, deserialize_with = "texts")]
    labels: BTreeMap<String, String>,
}

impl Config {
    /// Parses the config of an image with so many layers. `asked` begins the faults.
    ///
    /// # Errors
    /// `unsupported media type`: it is no config. `verification failed`: it has not one sound diffID
    /// for each layer, so that the layers' contents can't be verified.
    pub fn parse(bytes: &[u8], layers: usize, asked: &str) -> Result<Self, Fault> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| {
            unsupported(
                asked,
                format!("its config is none: {}", fault::quoted(&error.to_string())),
            )
        })?;
        let unverifiable = |happened: String| {
            Fault::new(
                Reason::VerificationFailed,
                asked,
                happened,
                "have the image built anew: its config must name the digest of each uncompressed layer",
            )
        };
        let diff_ids = wire.rootfs.and_then(|rootfs| rootfs.diff_ids).unwrap_or_default();
        if diff_ids.len() != layers {
            return Err(unverifiable(format!(
                "its config has {} diffIDs for {layers} layers",
                diff_ids.len()
            )));
        }
        let diff_ids = diff_ids
            .iter()
            .map(|text| {
                text.parse()
                    .map_err(|error| unverifiable(format!("its config's diffIDs: {error}")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            diff_ids,
            labels: wire.config.map(|config| config.labels).unwrap_or_default(),
        })
    }
}
