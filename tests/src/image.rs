//! Images made by hand, byte for byte as a scenario wants them.
//!
//! ```
//! use puller_tests::image::{Image, Layer};
//!
//! let image = Image::new()
//!     .label("version", "1")
//!     .layer(Layer::gzip().dir("etc").file("etc/motd", "hello\n").symlink("motd", "etc/motd"))
//!     .layer(Layer::zstd().whiteout("etc/motd").noise(20, 1 << 10));
//! assert!(image.digest().starts_with("sha256:"));
//! ```
//!
//! Everything is deterministic: the same calls give the same digests, on every machine.

mod artifact;
mod content;
mod entry;
mod index;
mod layer;
mod signatures;

pub use artifact::Artifact;
pub use content::{Blob, Content, sha256};
pub use entry::Entry;
pub use index::Index;
pub use layer::{BuiltLayer, Compression, Layer};
pub use signatures::{Signatures, SigningKey};

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Media types, by the OCI image-spec and by Docker's "image manifest version 2, schema 2".
pub mod media_type {
    /// OCI index.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// OCI manifest.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// OCI image config.
    pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// The config of an artifact that has none.
    pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
    /// OCI layer, not compressed.
    pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    /// OCI layer, gzip.
    pub const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    /// OCI layer, zstd.
    pub const LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
    /// Docker manifest list.
    pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// Docker manifest.
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// Docker image config.
    pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
    /// Docker layer: gzip by its name, whatever it is by its bytes.
    pub const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
}

/// The label of a catalog image that names the catalog's directory.
pub const CATALOG_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// One image of one platform: a config and layers.
#[derive(Debug, Clone)]
pub struct Image {
    layers: Vec<BuiltLayer>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    platform: (String, String, Option<String>),
    docker: bool,
}

impl Default for Image {
    fn default() -> Self {
        Self::new()
    }
}

impl Image {
    /// An image without layers, for the platform of this machine, with OCI media types.
    pub fn new() -> Self {
        Self {
            layers: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            platform: ("linux".to_owned(), machine_architecture().to_owned(), None),
            docker: false,
        }
    }

    /// A file-based catalog: the label is set and the files are under `/configs`.
    pub fn catalog(layer: impl Into<BuiltLayer>) -> Self {
        Self::new().label(CATALOG_LABEL, "/configs").layer(layer)
    }

    /// Adds a layer on top. It is built now: adding one [`BuiltLayer`] to two images costs nothing.
    #[must_use]
    pub fn layer(mut self, layer: impl Into<BuiltLayer>) -> Self {
        self.layers.push(layer.into());
        self
    }

    /// Sets a label of the config.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets an annotation of the manifest.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Makes it an image for another platform.
    #[must_use]
    pub fn platform(mut self, os: &str, architecture: &str) -> Self {
        self.platform = (os.to_owned(), architecture.to_owned(), None);
        self
    }

    /// Sets the platform's variant, such as `v7`.
    #[must_use]
    pub fn variant(mut self, variant: &str) -> Self {
        self.platform.2 = Some(variant.to_owned());
        self
    }

    /// Uses Docker's schema 2 media types.
    #[must_use]
    pub fn docker(mut self) -> Self {
        self.docker = true;
        self
    }

    /// The layers, lowest first.
    pub fn layers(&self) -> &[BuiltLayer] {
        &self.layers
    }

    /// The layers' compressed bytes in all, each digest once, as the puller counts them.
    pub fn layer_bytes(&self) -> u64 {
        let sizes: BTreeMap<&str, u64> = self
            .layers
            .iter()
            .map(|layer| (layer.blob.digest.as_str(), layer.blob.size()))
            .collect();
        sizes.values().sum()
    }

    /// The config.
    pub fn config(&self) -> Blob {
        let (os, architecture, variant) = &self.platform;
        let mut config = json!({
            "created": "1970-01-01T00:00:00Z",
            "os": os,
            "architecture": architecture,
            "config": { "Labels": self.labels },
            "rootfs": {
                "type": "layers",
                "diff_ids": self.layers.iter().map(|layer| layer.diff_id.as_str()).collect::<Vec<_>>(),
            },
        });
        if let Some(variant) = variant {
            config["variant"] = json!(variant);
        }
        Blob::json(
            if self.docker {
                media_type::DOCKER_CONFIG
            } else {
                media_type::CONFIG
            },
            &config,
        )
    }

    /// The manifest.
    pub fn manifest(&self) -> Blob {
        let media_type = if self.docker {
            media_type::DOCKER_MANIFEST
        } else {
            media_type::MANIFEST
        };
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| {
                let mut descriptor = layer.blob.descriptor();
                if self.docker {
                    descriptor["mediaType"] = json!(media_type::DOCKER_LAYER);
                }
                descriptor
            })
            .collect();
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": self.config().descriptor(),
            "layers": layers,
        });
        if !self.annotations.is_empty() {
            manifest["annotations"] = json!(self.annotations);
        }
        Blob::json(media_type, &manifest)
    }

    /// The manifest's digest, `sha256:…`.
    pub fn digest(&self) -> String {
        self.manifest().digest
    }

    /// The platform as an index names it.
    fn platform_json(&self) -> Value {
        let (os, architecture, variant) = &self.platform;
        let mut platform = json!({ "os": os, "architecture": architecture });
        if let Some(variant) = variant {
            platform["variant"] = json!(variant);
        }
        platform
    }
}

impl From<&Image> for Content {
    fn from(image: &Image) -> Self {
        let mut blobs = vec![image.config()];
        blobs.extend(image.layers.iter().map(|layer| layer.blob.clone()));
        Self::new(vec![image.manifest()], blobs)
    }
}

/// This machine's architecture by the name that images use.
pub fn machine_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests;
