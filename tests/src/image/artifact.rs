//! Artifacts: manifests that are no images.

use serde_json::json;

use super::{Blob, BuiltLayer, Content, media_type};

/// A manifest with an `artifactType`, an empty config, and any blobs as layers.
#[derive(Debug, Clone)]
pub struct Artifact {
    kind: String,
    layers: Vec<Blob>,
}

impl Artifact {
    /// An artifact of this type, without layers.
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            layers: Vec::new(),
        }
    }

    /// Adds a file: a layer that is no archive, under its title annotation.
    #[must_use]
    pub fn file(mut self, title: &str, media_type: &str, content: impl AsRef<[u8]>) -> Self {
        let mut blob = Blob::new(media_type, content.as_ref().to_vec());
        blob.annotations
            .insert("org.opencontainers.image.title".to_owned(), title.to_owned());
        self.layers.push(blob);
        self
    }

    /// Adds a layer of this type without any annotation.
    #[must_use]
    pub fn blob(mut self, media_type: &str, content: impl AsRef<[u8]>) -> Self {
        self.layers.push(Blob::new(media_type, content.as_ref().to_vec()));
        self
    }

    /// Has the manifest hold the bytes of its last layer; the registry does not have them then.
    #[must_use]
    pub fn inline(mut self) -> Self {
        if let Some(last) = self.layers.last_mut() {
            last.inline = true;
        }
        self
    }

    /// Adds a layer that is an archive.
    #[must_use]
    pub fn layer(mut self, layer: impl Into<BuiltLayer>) -> Self {
        self.layers.push(layer.into().blob);
        self
    }

    /// The manifest.
    pub fn manifest(&self) -> Blob {
        Blob::json(
            media_type::MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": media_type::MANIFEST,
                "artifactType": self.kind,
                "config": empty_config().descriptor(),
                "layers": self.layers.iter().map(Blob::descriptor).collect::<Vec<_>>(),
            }),
        )
    }

    /// The manifest's digest.
    pub fn digest(&self) -> String {
        self.manifest().digest
    }
}

fn empty_config() -> Blob {
    Blob::new(media_type::EMPTY, &b"{}"[..])
}

impl From<&Artifact> for Content {
    fn from(artifact: &Artifact) -> Self {
        let mut blobs = vec![empty_config()];
        blobs.extend(artifact.layers.iter().filter(|blob| !blob.inline).cloned());
        Self::new(vec![artifact.manifest()], blobs)
    }
}
