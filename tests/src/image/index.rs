//! Image indexes (OCI) and manifest lists (Docker).

use serde_json::{Value, json};

use super::{Blob, Content, Image, media_type};

/// Several images under one name.
#[derive(Debug, Clone, Default)]
pub struct Index {
    entries: Vec<Value>,
    manifests: Vec<Blob>,
    blobs: Vec<Blob>,
    docker: bool,
}

impl Index {
    /// An index of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an image under its platform.
    #[must_use]
    pub fn image(mut self, image: &Image) -> Self {
        let mut entry = image.manifest().descriptor();
        entry["platform"] = image.platform_json();
        self.entries.push(entry);
        self.hold(Content::from(image));
        self
    }

    /// Adds a build attestation of an image, as buildkit does: a manifest for the platform
    /// "unknown/unknown" whose layer is no archive.
    #[must_use]
    pub fn attestation(mut self, image: &Image) -> Self {
        let statement = json!({ "_type": "https://in-toto.io/Statement/v0.1", "subject": [] });
        let layer = Blob::json("application/vnd.in-toto+json", &statement);
        let config = Image::new().platform("unknown", "unknown").config();
        let manifest = Blob::json(
            media_type::MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": media_type::MANIFEST,
                "config": config.descriptor(),
                "layers": [layer.descriptor()],
            }),
        );
        let mut entry = manifest.descriptor();
        entry["platform"] = json!({ "os": "unknown", "architecture": "unknown" });
        entry["annotations"] = json!({
            "vnd.docker.reference.type": "attestation-manifest",
            "vnd.docker.reference.digest": image.digest(),
        });
        self.entries.push(entry);
        self.hold(Content::new(vec![manifest], vec![config, layer]));
        self
    }

    /// Uses the media type of a Docker manifest list.
    #[must_use]
    pub fn docker(mut self) -> Self {
        self.docker = true;
        self
    }

    /// The index itself.
    pub fn manifest(&self) -> Blob {
        let media_type = if self.docker {
            media_type::DOCKER_LIST
        } else {
            media_type::INDEX
        };
        Blob::json(
            media_type,
            &json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": self.entries }),
        )
    }

    /// The index's digest.
    pub fn digest(&self) -> String {
        self.manifest().digest
    }

    fn hold(&mut self, content: Content) {
        self.manifests.extend(content.manifests);
        self.blobs.extend(content.blobs);
    }
}

impl From<&Index> for Content {
    fn from(index: &Index) -> Self {
        let mut manifests = index.manifests.clone();
        manifests.push(index.manifest());
        Self::new(manifests, index.blobs.clone())
    }
}
