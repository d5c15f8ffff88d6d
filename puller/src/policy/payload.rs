//! What cosign signs: a small JSON document of the image's name and digest ("simple signing").

use serde::{Deserialize, de::IgnoredAny};

use super::object::object;
use crate::{domain::Digest, registry::quoted};

/// The only type of payload that stands for "this is a signature of a container image".
const TYPE: &str = "cosign container image signature";

/// What a payload says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The image's name as the signer gave it.
    pub(crate) reference: String,
    /// The manifest, or index, that is signed.
    pub(crate) digest: Digest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    critical: Critical,
    /// The signer's own remarks.
    #[serde(default, rename = "optional")]
    _optional: IgnoredAny,
}

/// A key here that we don't know may restrict what the signature is good for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    identity: Identity,
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    docker_reference: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    docker_manifest_digest: String,
}

impl Payload {
    /// Parses a payload. To be believed only if somebody who is trusted has signed it.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let malformed = |problem: &str| format!("its payload is malformed: {problem}");
        let text = std::str::from_utf8(json).map_err(|_| malformed("it is not UTF-8"))?;
        let Wire { critical, .. } = object(text).map_err(|problem| malformed(&problem))?;
        if critical.r#type != TYPE {
            return Err(format!("its payload is of type {:?}", quoted(&critical.r#type)));
        }
        let digest = critical.image.docker_manifest_digest.parse();
        Ok(Self {
            reference: critical.identity.docker_reference,
            digest: digest
                .map_err(|error: crate::domain::digest::InvalidDigest| malformed(&error.to_string()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn payload() -> Value {
        json!({
            "critical": {
                "identity": { "docker-reference": "quay.io/a/b" },
                "image": { "docker-manifest-digest": Digest::sha256(b"m").to_string() },
                "type": TYPE,
            },
            "optional": null,
        })
    }

    fn parse(payload: &Value) -> Result<Payload, String> {
        Payload::parse(payload.to_string().as_bytes())
    }

    #[test]
    fn reads_what_cosign_writes() {
        let expected = Payload {
            reference: "quay.io/a/b".into(),
            digest: Digest::sha256(b"m"),
        };
        assert_eq!(parse(&payload()).unwrap(), expected);
        let mut with_remarks = payload();
        with_remarks["optional"] = json!({ "creator": "cosign", "timestamp": 1 });
        assert_eq!(parse(&with_remarks).unwrap(), expected);
    }

    #[test]
    fn what_is_not_understood_whole_is_refused() {
        let changes: [fn(&mut Value); 7] = [
            |p| p["critical"]["type"] = json!("cosign container image attestation"),
            |p| p["critical"]["only-on"] = json!("sundays"),
            |p| p["critical"]["identity"]["more"] = json!(1),
            |p| p["critical"]["image"] = json!({}),
            |p| p["critical"]["image"]["docker-manifest-digest"] = json!("sha256:1"),
            |p| p["other"] = json!(1),
            |p| *p = json!([p["critical"]]),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut changed = payload();
            change(&mut changed);
            assert!(parse(&changed).is_err(), "change {at} was accepted");
        }
        let twice = payload()
            .to_string()
            .replacen("{\"critical\"", "{\"optional\":1,\"critical\"", 1);
        assert!(Payload::parse(twice.as_bytes()).is_err(), "{twice}");
    }
}
