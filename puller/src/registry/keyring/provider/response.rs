//! What is said to a provider, and what it answers.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use super::{
    super::{Credential, answers::Cover, config::Config, key::Key},
    duration,
};
use crate::registry::{fault::quoted, token::LONGEST_LIFE};

const KIND: &str = "CredentialProviderResponse";

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) config: Config,
    pub(super) cover: Cover,
    /// `None`: it doesn't say how long it is good.
    pub(super) life: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    cache_key_type: String,
    cache_duration: Option<String>,
    auth: Option<BTreeMap<String, WireLogin>>,
}

#[derive(Deserialize)]
struct WireLogin {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// The request for an image: its repository without tag or digest, as the kubelet gives it.
pub(super) fn request(api: &str, registry: &str, repository: &str) -> Vec<u8> {
    let request = serde_json::json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": api,
        "image": format!("{registry}/{repository}"),
    });
    request.to_string().into_bytes()
}

/// Parses the answer of a program that speaks this API.
///
/// # Errors
/// What is wrong with it, in words that follow "it"; they hold nothing that may be secret.
pub(crate) fn parse(stdout: &[u8], api: &str) -> Result<Response, String> {
    // The error's own text may quote a value.
    let wire: Wire =
        serde_json::from_slice(stdout).map_err(|_| format!("answered no JSON that is a {KIND}"))?;
    if wire.kind != KIND {
        return Err(format!(
            "answered the kind {:?}; {KIND} is right",
            quoted(&wire.kind)
        ));
    }
    if wire.api_version != api {
        return Err(format!(
            "answered in apiVersion {:?}; its config has {api}",
            quoted(&wire.api_version)
        ));
    }
    let cover = match wire.cache_key_type.as_str() {
        "Image" => Cover::Image,
        "Registry" => Cover::Registry,
        "Global" => Cover::Everything,
        other => {
            return Err(format!(
                "answered the cacheKeyType {:?}; one of Image, Registry, Global is right",
                quoted(other)
            ));
        }
    };
    let life = wire.cache_duration.map(|text| {
        let life = duration(&text).ok_or_else(|| {
            format!(
                "answered the cacheDuration {:?}; a duration such as 12h is right",
                quoted(&text)
            )
        })?;
        // What has expired already is not kept.
        Ok::<_, String>(Duration::try_from(life).unwrap_or_default().min(LONGEST_LIFE))
    });
    let logins = wire.auth.unwrap_or_default().into_iter();
    let logins = logins.filter(|(_, login)| !(login.username.is_empty() && login.password.is_empty()));
    let entries = logins.map(|(name, WireLogin { username, password })| {
        (
            Key::parse_loosely(&name),
            Credential::of_login(username, password),
        )
    });
    Ok(Response {
        config: Config::of(entries),
        cover,
        life: life.transpose()?,
    })
}
