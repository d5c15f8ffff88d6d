//! Blobs, and what a registry or a layout directory holds of an image.

use std::{collections::BTreeMap, fs, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The digest of some bytes, `sha256:…`.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Bytes with a media type: a manifest, a config, a layer.
#[derive(Clone)]
pub struct Blob {
    /// What a descriptor calls it.
    pub media_type: String,
    /// The bytes.
    pub bytes: Bytes,
    /// Their digest.
    pub digest: String,
    /// The descriptor's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether descriptors hold the bytes themselves.
    pub inline: bool,
}

impl Blob {
    /// A blob of these bytes.
    pub fn new(media_type: &str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            media_type: media_type.to_owned(),
            digest: sha256(&bytes),
            bytes,
            annotations: BTreeMap::new(),
            inline: false,
        }
    }

    /// A blob of a JSON document.
    pub fn json(media_type: &str, document: &Value) -> Self {
        Self::new(
            media_type,
            serde_json::to_vec_pretty(document).expect("a JSON value has a text"),
        )
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The descriptor that points at it.
    pub fn descriptor(&self) -> Value {
        let mut descriptor =
            json!({ "mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len() });
        if !self.annotations.is_empty() {
            descriptor["annotations"] = json!(self.annotations);
        }
        if self.inline {
            descriptor["data"] = json!(STANDARD.encode(&self.bytes));
        }
        descriptor
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} ({} bytes)",
            self.media_type,
            self.digest,
            self.bytes.len()
        )
    }
}

/// All that belongs to one image, index or artifact, ready to be held by a registry.
#[derive(Debug, Clone)]
pub struct Content {
    /// Manifests and indexes, each after what it points at; the last one is what a tag stands for.
    pub manifests: Vec<Blob>,
    /// Configs and layers.
    pub blobs: Vec<Blob>,
}

impl Content {
    /// Content whose last manifest is its root.
    pub fn new(manifests: Vec<Blob>, blobs: Vec<Blob>) -> Self {
        assert!(!manifests.is_empty(), "content has at least one manifest");
        Self { manifests, blobs }
    }

    /// What a tag stands for.
    pub fn root(&self) -> &Blob {
        self.manifests.last().expect("content has at least one manifest")
    }

    /// Writes an OCI image layout, in which `tag` names the root.
    ///
    /// # Errors
    /// The directory can't be written.
    pub fn write_layout(&self, directory: &Path, tag: &str) -> io::Result<()> {
        let blobs = directory.join("blobs/sha256");
        fs::create_dir_all(&blobs)?;
        for blob in self.manifests.iter().chain(&self.blobs) {
            let hex = blob
                .digest
                .strip_prefix("sha256:")
                .expect("our digests are SHA-256");
            fs::write(blobs.join(hex), &blob.bytes)?;
        }
        let mut root = self.root().descriptor();
        root["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
        fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        fs::write(
            directory.join("index.json"),
            json!({ "schemaVersion": 2, "manifests": [root] }).to_string(),
        )
    }
}

/// What is made by hand can be handed over whole, too.
macro_rules! content_of_whole {
    ($($whole:ty),+) => {$(
        impl From<$whole> for Content {
            fn from(whole: $whole) -> Self {
                Self::from(&whole)
            }
        }
    )+};
}

content_of_whole!(super::Image, super::Index, super::Artifact, super::Signatures);
