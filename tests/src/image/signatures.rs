//! Signatures of images, as cosign attaches them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::json;

use super::{Blob, Content, Image, media_type};

/// What cosign calls a payload.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// A key that signs images: ECDSA with P-256, as `cosign generate-key-pair` makes them.
#[derive(Debug)]
pub struct SigningKey(KeyPair);

impl SigningKey {
    /// A new key, trusted by nobody yet.
    ///
    /// # Panics
    /// No key can be made.
    pub fn new() -> Self {
        Self(KeyPair::generate().expect("a key"))
    }

    /// Writes the public key, in PEM, and returns the file.
    ///
    /// # Panics
    /// The directory can't be written.
    pub fn write_public(&self, directory: &Path, name: &str) -> PathBuf {
        let file = directory.join(name);
        fs::write(&file, self.0.public_key_pem()).expect("the public key");
        file
    }
}

impl Default for SigningKey {
    fn default() -> Self {
        Self::new()
    }
}

/// All signatures of one manifest or index, to be pushed under [`Signatures::tag`] of its repository.
#[derive(Debug, Clone)]
pub struct Signatures {
    digest: String,
    payloads: Vec<Blob>,
}

impl Signatures {
    /// None yet.
    pub fn of(digest: &str) -> Self {
        Self {
            digest: digest.to_owned(),
            payloads: Vec::new(),
        }
    }

    /// The tag under which cosign looks for them.
    pub fn tag(&self) -> String {
        format!("{}.sig", self.digest.replace(':', "-"))
    }

    /// Adds one by this key, for an image of this name.
    #[must_use]
    pub fn by(self, key: &SigningKey, name: &str) -> Self {
        let digest = self.digest.clone();
        self.for_digest(key, name, &digest)
    }

    /// Adds one that says another digest than the one that it is attached to.
    ///
    /// # Panics
    /// The key can't sign.
    #[must_use]
    pub fn for_digest(mut self, key: &SigningKey, name: &str, digest: &str) -> Self {
        let mut payload = Blob::json(
            PAYLOAD,
            &json!({
                "critical": {
                    "identity": { "docker-reference": name },
                    "image": { "docker-manifest-digest": digest },
                    "type": "cosign container image signature",
                },
                "optional": null,
            }),
        );
        let signature = key.0.sign(&payload.bytes).expect("a signature");
        payload.annotations.insert(
            "dev.cosignproject.cosign/signature".to_owned(),
            BASE64_STANDARD.encode(signature),
        );
        self.payloads.push(payload);
        self
    }
}

impl From<&Signatures> for Content {
    fn from(signatures: &Signatures) -> Self {
        let config = Image::new().config();
        let layers: Vec<_> = signatures.payloads.iter().map(Blob::descriptor).collect();
        let manifest = Blob::json(
            media_type::MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": media_type::MANIFEST,
                "config": config.descriptor(),
                "layers": layers,
            }),
        );
        let mut blobs = vec![config];
        blobs.extend(signatures.payloads.iter().cloned());
        Self::new(vec![manifest], blobs)
    }
}
