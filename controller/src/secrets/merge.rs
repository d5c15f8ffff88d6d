//! Several Secrets, one config.json.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use super::PullSecrets;

/// The keys of a Secret that hold credentials, with the newer format first.
const CONFIG: &str = ".dockerconfigjson";
const LEGACY_CONFIG: &str = ".dockercfg";

/// Of a registry or repository that several name, the last one's credentials count. A Secret that holds none,
/// or can't be read, is left out, with a line in the log; the others count all the same.
pub(super) fn merge<'a>(secrets: impl Iterator<Item = &'a Secret>) -> PullSecrets {
    let mut merged = Map::new();
    for secret in secrets {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        match auths(secret) {
            Ok(auths) => merged.extend(auths),
            Err(problem) => tracing::warn!(secret = name, problem, "a pull secret is left out"),
        }
    }
    PullSecrets(match merged.is_empty() {
        true => None,
        false => Some(json!({ "auths": merged }).to_string().into()),
    })
}

/// The texts of errors here don't quote: what they would quote may be a password.
fn auths(secret: &Secret) -> Result<Map<String, Value>, &'static str> {
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    let parse = |bytes: &[u8]| match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err("it holds no JSON object"),
    };
    if let Some(config) = data.get(CONFIG) {
        match parse(&config.0)?.remove("auths") {
            Some(Value::Object(auths)) => Ok(auths),
            None | Some(Value::Null) => Ok(Map::new()),
            Some(_) => Err("its auths are no JSON object"),
        }
    } else if let Some(config) = data.get(LEGACY_CONFIG) {
        parse(&config.0)
    } else {
        Err("it has neither .dockerconfigjson nor .dockercfg")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(key: &str, value: &str) -> Secret {
        Secret {
            data: Some([(key.to_owned(), ByteString(value.into()))].into()),
            ..Default::default()
        }
    }

    fn merged(secrets: &[Secret]) -> Value {
        let merged = merge(secrets.iter());
        merged
            .config()
            .map_or(Value::Null, |config| serde_json::from_slice(config).unwrap())
    }

    #[test]
    fn the_last_one_counts_and_entries_are_kept_whole() {
        let first = secret(
            CONFIG,
            r#"{"auths":{"a":{"auth":"1"},"b":{"auth":"2"}},"credsStore":"x"}"#,
        );
        let second = secret(LEGACY_CONFIG, r#"{"b":{"username":"u","password":"p"}}"#);
        let expected = json!({"auths":{"a":{"auth":"1"},"b":{"username":"u","password":"p"}}});
        assert_eq!(merged(&[first, second]), expected);
    }

    #[test]
    fn one_that_cant_be_read_does_not_spoil_the_others() {
        let good = secret(CONFIG, r#"{"auths":{"a":{"auth":"1"}}}"#);
        for bad in [
            secret(CONFIG, "no json"),
            secret(CONFIG, r#"{"auths":[]}"#),
            secret(CONFIG, "[]"),
            secret("password", "x"),
            Secret::default(),
        ] {
            assert_eq!(merged(&[good.clone(), bad]), json!({"auths":{"a":{"auth":"1"}}}));
        }
    }

    #[test]
    fn no_credentials_are_none() {
        assert_eq!(merged(&[]), Value::Null);
        assert_eq!(merged(&[secret(CONFIG, "{}")]), Value::Null);
    }

    #[test]
    fn they_cant_be_printed() {
        let secrets = merge([secret(CONFIG, r#"{"auths":{"a":{"auth":"topsecret"}}}"#)].iter());
        assert!(!format!("{secrets:?}").contains("topsecret"));
    }
}
