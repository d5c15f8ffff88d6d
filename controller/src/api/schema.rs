//! The parts of the schema that types alone don't say: lengths, and the rules that the API server evaluates
//! ([CEL](https://kubernetes.io/docs/reference/using-api/cel/); its regular expressions are RE2, and `matches`
//! looks for a match anywhere unless the pattern has anchors).
//!
//! The rules accept and refuse what those of catalogd accept and refuse.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Longest reference, in characters.
const MAX_REFERENCE: u32 = 1000;
/// Longest URL, in characters: a name of 253, a host of 253, and what is between them.
const MAX_URL: u32 = 525;

/// `image` exactly where the type is Image.
pub(super) fn union_rule() -> Value {
    json!([{
        "rule": "(self.type == 'Image') == has(self.image)",
        "message": "image must be set where type is Image, and only there",
    }])
}

/// What never changes is never asked for again.
pub(super) fn poll_rule() -> Value {
    json!([{
        "rule": "!has(self.pollIntervalMinutes) || !self.ref.matches('@.*:')",
        "message": "pollIntervalMinutes must not be set where ref has a digest: a digest never stands for anything else",
    }])
}

pub(super) fn reference(_: &mut SchemaGenerator) -> Schema {
    let mut rules = vec![domain(), name(), identifier()];
    rules.extend(tag());
    rules.extend(digest());
    text(MAX_REFERENCE, &rules)
}

/// The same, by digest.
pub(super) fn resolved_reference(_: &mut SchemaGenerator) -> Schema {
    let identifier = json!({
        "rule": "self.matches('@.*:')",
        "message": "a digest is required, as in registry.example.com/catalog@sha256:…",
    });
    let mut rules = vec![domain(), name(), identifier];
    rules.extend(digest());
    text(MAX_REFERENCE, &rules)
}

fn domain() -> Value {
    const LABEL: &str = "[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?";
    json!({
        "rule": format!(r"self.matches('^{LABEL}(\\.{LABEL})*(:[0-9]+)?\\b')"),
        "message": "the reference must begin with the registry's host name: letters, digits and inner hyphens in parts that dots separate, and a port where it has one",
    })
}

fn name() -> Value {
    json!({
        "rule": "self.matches('/[a-z0-9]')",
        "message": "the registry must be followed by a repository: parts of lower case letters and digits that /, ., _, __ or hyphens separate",
    })
}

fn identifier() -> Value {
    json!({
        "rule": "self.matches('@.*:') || self.matches(':.*$')",
        "message": "the reference must end with a tag (:latest) or a digest (@sha256:…)",
    })
}

/// Where there is no digest. The text after the first colon counts, be that the port's.
fn tag() -> [Value; 2] {
    [
        json!({
            "rule": "self.matches('@.*:') || self.find(':.*$').size() <= 128",
            "message": "the tag must have 127 characters at most",
        }),
        json!({
            "rule": r"self.matches('@.*:') || !self.matches(':.*$') || self.matches(':\\w[\\w.-]*$')",
            "message": "the tag must begin with a letter, digit or underscore, and go on with these, dots and hyphens",
        }),
    ]
}

/// Where there is one.
fn digest() -> [Value; 3] {
    const PART: &str = "[A-Za-z][A-Za-z0-9]*";
    [
        json!({
            "rule": format!("!self.matches('@.*:') || self.find('@.*:').matches('@{PART}([-_+.]{PART})*:')"),
            "message": "the digest's algorithm must begin with a letter, as each of its parts that -, _, + or . separate",
        }),
        json!({
            "rule": "!self.matches('@.*:') || self.find(':.*$').size() >= 33",
            "message": "the digest must have 32 hexadecimal digits at least",
        }),
        json!({
            "rule": "!self.matches('@.*:') || self.matches(':[0-9A-Fa-f]*$')",
            "message": "the digest must consist of hexadecimal digits after the colon",
        }),
    ]
}

fn text(longest: u32, rules: &[Value]) -> Schema {
    json_schema!({ "type": "string", "maxLength": longest, "x-kubernetes-validations": rules })
}

pub(super) fn poll_interval(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1 })
}

pub(super) fn base_url(_: &mut SchemaGenerator) -> Schema {
    text(
        MAX_URL,
        &[
            json!({ "rule": "isURL(self)", "message": "it must be a URL" }),
            json!({
                "rule": "!isURL(self) || url(self).getScheme() in ['http', 'https']",
                "message": "the URL's scheme must be http or https",
            }),
        ],
    )
}

/// [`Condition`](k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition) with the bounds that Kubernetes
/// recommends.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "What the condition is about.",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds.",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "type": "string",
                    "description": "Why, in a word for programs.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "description": "Why, in a sentence for people.",
                    "maxLength": crate::status::MAX_MESSAGE,
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The generation of the spec that it is about.",
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When its status last changed.",
                },
            },
        },
    })
}
