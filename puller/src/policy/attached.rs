//! Signatures as cosign attaches them to an image: the tag `sha256-….sig` of the same repository names a
//! manifest, each of whose layers is a signed payload with the signature as an annotation.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{domain::Digest, registry::quoted};

/// Signatures of one image that are looked at. Each costs a request; images with more than a handful are
/// unheard of.
pub const MAX_SIGNATURES: usize = 50;

/// Bytes of a payload. A name, a digest and the signer's remarks are a few hundred.
const MAX_PAYLOAD: u64 = 256 << 10;

const PAYLOAD_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// The tag that names the signatures of a manifest or index.
pub fn signature_tag(digest: &Digest) -> String {
    format!("{}.sig", digest.file_name())
}

/// What is attached to an image.
#[derive(Debug)]
pub struct Attached {
    /// The signatures, in the manifest's order.
    pub signatures: Vec<AttachedSignature>,
    /// How many more there are, beyond [`MAX_SIGNATURES`].
    pub left_out: usize,
}

/// One signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedSignature {
    /// The payload's.
    pub digest: Digest,
    /// The payload's.
    pub size: u64,
    /// Base64, as it came.
    pub signature: String,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    #[serde(default)]
    media_type: String,
    digest: Digest,
    size: u64,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl Attached {
    /// Parses the manifest of the tag. What is attached beside signatures is left out.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(manifest: &[u8]) -> Result<Self, String> {
        let manifest: Manifest = serde_json::from_slice(manifest)
            .map_err(|error| format!("it is no manifest: {}", quoted(&error.to_string())))?;
        let signature = |layer: Layer| {
            let signature = layer.annotations.unwrap_or_default().remove(SIGNATURE);
            let ours = layer.media_type == PAYLOAD_TYPE && layer.size <= MAX_PAYLOAD;
            ours.then_some(AttachedSignature {
                digest: layer.digest,
                size: layer.size,
                signature: signature?,
            })
        };
        let mut signatures: Vec<_> = manifest.layers.into_iter().filter_map(signature).collect();
        let left_out = signatures.len().saturating_sub(MAX_SIGNATURES);
        signatures.truncate(MAX_SIGNATURES);
        Ok(Self { signatures, left_out })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_tag_is_cosigns() {
        let digest = Digest::sha256(b"");
        assert_eq!(
            signature_tag(&digest),
            "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.sig"
        );
    }

    #[test]
    fn only_signatures_count_and_not_without_end() {
        let digest = Digest::sha256(b"p");
        let signature = json!({
            "mediaType": PAYLOAD_TYPE, "digest": digest, "size": 200, "annotations": { SIGNATURE: "c2ln" },
        });
        let attestation = json!({
            "mediaType": "application/vnd.dsse.envelope.v1+json", "digest": digest, "size": 9, "annotations": { SIGNATURE: "" },
        });
        let bare = json!({ "mediaType": PAYLOAD_TYPE, "digest": digest, "size": 200 });
        let huge = json!({
            "mediaType": PAYLOAD_TYPE, "digest": digest, "size": 1 << 30, "annotations": { SIGNATURE: "c2ln" },
        });
        let mut layers = vec![attestation, bare, huge];
        layers.extend(vec![signature; MAX_SIGNATURES + 3]);
        let attached = Attached::parse(json!({ "layers": layers }).to_string().as_bytes()).unwrap();
        assert_eq!(
            (attached.signatures.len(), attached.left_out),
            (MAX_SIGNATURES, 3)
        );
        assert_eq!(attached.signatures[0].signature, "c2ln");
    }

    #[test]
    fn anything_else_is_no_manifest() {
        for bytes in ["", "[1]", r#"{"layers": [{"digest": "x", "size": 1}]}"#] {
            assert!(Attached::parse(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        assert!(Attached::parse(b"{}").unwrap().signatures.is_empty());
    }
}
