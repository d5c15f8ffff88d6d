//! The policy file: JSON in, requirements out.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    ReadKey, Requirement, Signed,
    identity::SignedIdentity,
    key::Key,
    object::{OnlyType, Unique, given, kind, object},
    scope,
};
use crate::registry::quoted;

/// The only transport whose scopes count here: images from registries.
const TRANSPORT: &str = "docker";

/// What the file says.
pub(super) struct Parsed {
    pub(super) default: Vec<Requirement>,
    pub(super) scopes: BTreeMap<String, Vec<Requirement>>,
}

type List = Vec<Box<RawValue>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: List,
    /// The other transports are other programs' business, so theirs are not looked into.
    #[serde(default, deserialize_with = "given")]
    transports: Option<Unique<Box<RawValue>>>,
}

/// Parses the file.
pub(super) fn parse(json: &[u8], read_key: ReadKey<'_>) -> Result<Parsed, String> {
    let text = std::str::from_utf8(json).map_err(|_| "it is not UTF-8".to_owned())?;
    let File { default, transports } = object(text)?;
    let default = requirements(&default, read_key).map_err(|problem| format!("default: {problem}"))?;
    let docker = transports.and_then(|Unique(mut transports)| transports.remove(TRANSPORT));
    let mut scopes = BTreeMap::new();
    if let Some(docker) = docker {
        let at = format!("transports.{TRANSPORT}");
        let Unique(lists) =
            object::<Unique<List>>(docker.get()).map_err(|problem| format!("{at}: {problem}"))?;
        for (scope, list) in lists {
            let parsed = scope::check(&scope).and_then(|()| requirements(&list, read_key));
            let parsed = parsed.map_err(|problem| format!("{at}.{:?}: {problem}", quoted(&scope)))?;
            scopes.insert(scope, parsed);
        }
    }
    Ok(Parsed { default, scopes })
}

fn requirements(list: &List, read_key: ReadKey<'_>) -> Result<Vec<Requirement>, String> {
    if list.is_empty() {
        return Err(
            "the list is empty; a scope that needs nothing says insecureAcceptAnything, one that \
                    allows nothing says reject"
                .to_owned(),
        );
    }
    let mut parsed = Vec::with_capacity(list.len());
    for (at, json) in list.iter().enumerate() {
        let requirement =
            requirement(json, read_key).map_err(|problem| format!("requirement {}: {problem}", at + 1))?;
        parsed.push(requirement);
    }
    Ok(parsed)
}

/// `signedBy`, whose keys are not read, since nobody here could use them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SignedBy {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    key_type: String,
    #[serde(default, deserialize_with = "given")]
    key_path: Option<String>,
    #[serde(default, deserialize_with = "given")]
    key_paths: Option<Vec<String>>,
    #[serde(default, deserialize_with = "given")]
    key_data: Option<String>,
    #[serde(default, deserialize_with = "given")]
    signed_identity: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SignedBaseLayer {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    #[serde(rename = "baseLayerIdentity")]
    _base_layer_identity: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SigstoreSigned {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    #[serde(default, deserialize_with = "given")]
    key_path: Option<String>,
    #[serde(default, deserialize_with = "given")]
    key_paths: Option<Vec<String>>,
    #[serde(default, deserialize_with = "given")]
    key_data: Option<String>,
    #[serde(default, deserialize_with = "given")]
    key_datas: Option<Vec<String>>,
    #[serde(default, deserialize_with = "given")]
    fulcio: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "given")]
    pki: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "given")]
    rekor_public_key_path: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "given")]
    rekor_public_key_paths: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "given")]
    rekor_public_key_data: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "given")]
    rekor_public_key_datas: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "given")]
    signed_identity: Option<Box<RawValue>>,
}

fn requirement(json: &RawValue, read_key: ReadKey<'_>) -> Result<Requirement, String> {
    let text = json.get();
    match kind(json)?.as_str() {
        "insecureAcceptAnything" => object::<OnlyType>(text).map(|_| Requirement::Accept),
        "reject" => object::<OnlyType>(text).map(|_| Requirement::Reject),
        "signedBy" => signed_by(&object(text)?),
        "signedBaseLayer" => object::<SignedBaseLayer>(text)
            .map(|_| Requirement::Unsupported("a signature of the base layer (signedBaseLayer)".to_owned())),
        "sigstoreSigned" => sigstore_signed(object(text)?, read_key),
        other => Err(format!(
            "the type {:?} is not known; there are insecureAcceptAnything, reject, sigstoreSigned and signedBy",
            quoted(other)
        )),
    }
}

fn signed_by(wire: &SignedBy) -> Result<Requirement, String> {
    // The others are in the specification too, though nothing supports them.
    let types = [
        "GPGKeys",
        "signedByGPGKeys",
        "X509Certificates",
        "signedByX509CAs",
    ];
    if !types.contains(&wire.key_type.as_str()) {
        return Err(format!("the keyType {:?} is not known", quoted(&wire.key_type)));
    }
    exactly_one(&[
        ("keyPath", wire.key_path.is_some()),
        ("keyPaths", wire.key_paths.is_some()),
        ("keyData", wire.key_data.is_some()),
    ])?;
    identity(wire.signed_identity.as_deref())?;
    Ok(Requirement::Unsupported("a GPG signature (signedBy)".to_owned()))
}

fn sigstore_signed(wire: SigstoreSigned, read_key: ReadKey<'_>) -> Result<Requirement, String> {
    exactly_one(&[
        ("keyPath", wire.key_path.is_some()),
        ("keyPaths", wire.key_paths.is_some()),
        ("keyData", wire.key_data.is_some()),
        ("keyDatas", wire.key_datas.is_some()),
        ("fulcio", wire.fulcio.is_some()),
        ("pki", wire.pki.is_some()),
    ])?;
    let rekor = [
        &wire.rekor_public_key_path,
        &wire.rekor_public_key_paths,
        &wire.rekor_public_key_data,
        &wire.rekor_public_key_datas,
    ];
    let rekor = rekor.into_iter().flatten().count();
    if rekor > 1 {
        return Err("there is more than one of the rekorPublicKey fields".to_owned());
    }
    let identity = identity(wire.signed_identity.as_deref())?;
    let unsupported = [
        (
            wire.fulcio.is_some(),
            "a certificate of Fulcio (sigstoreSigned with fulcio)",
        ),
        (
            wire.pki.is_some(),
            "a certificate of one's own authority (sigstoreSigned with pki)",
        ),
        (
            rekor > 0,
            "an entry in a transparency log (sigstoreSigned with rekorPublicKey)",
        ),
    ];
    if let Some((_, what)) = unsupported.into_iter().find(|(is, _)| *is) {
        return Ok(Requirement::Unsupported(what.to_owned()));
    }
    let paths = wire
        .key_path
        .into_iter()
        .chain(wire.key_paths.into_iter().flatten());
    let mut keys: Vec<_> = paths
        .map(|path| Key::new(quoted(&path), read_key(Path::new(&path))))
        .collect();
    let data = wire
        .key_data
        .into_iter()
        .chain(wire.key_datas.into_iter().flatten());
    for (at, data) in data.enumerate() {
        let name = format!("keyData {}", at + 1);
        let pem = BASE64_STANDARD
            .decode(&data)
            .map_err(|_| format!("{name} is not base64"))?;
        keys.push(Key::new(name, Ok(pem)));
    }
    if keys.is_empty() {
        return Err("its list of keys is empty".to_owned());
    }
    Ok(Requirement::Signed(Arc::new(Signed { keys, identity })))
}

fn identity(json: Option<&RawValue>) -> Result<SignedIdentity, String> {
    match json {
        None => Ok(SignedIdentity::RepoDigestOrExact),
        Some(json) => SignedIdentity::parse(json).map_err(|problem| format!("signedIdentity: {problem}")),
    }
}

fn exactly_one(fields: &[(&str, bool)]) -> Result<(), String> {
    let given: Vec<_> = fields
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    match given.as_slice() {
        [_] => Ok(()),
        [] => {
            let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
            Err(format!("one of {} is missing", names.join(", ")))
        }
        several => Err(format!("there are {}; one is right", several.join(" and "))),
    }
}
