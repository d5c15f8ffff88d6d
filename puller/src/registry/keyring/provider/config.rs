//! The kubelet's `CredentialProviderConfig`: which programs there are, and for which images.

use std::{collections::BTreeSet, time::Duration};

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use super::{super::key::Key, duration};
use crate::registry::{fault::quoted, token::LONGEST_LIFE};

const KIND: &str = "CredentialProviderConfig";
const GROUP: &str = "kubelet.config.k8s.io/";
/// The versions of both APIs differ in nothing that is read or written here.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
/// The API that is spoken with the programs.
const PROVIDER_GROUP: &str = "credentialprovider.kubelet.k8s.io/";

/// One program, and for which images it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provider {
    /// Its file's name.
    pub(crate) name: String,
    images: Vec<Key>,
    /// How long an answer is kept that doesn't say so.
    pub(super) default_life: Duration,
    /// The API and its version that the program speaks.
    pub(super) api: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
}

// As the kubelet has it, an unknown key is an error: it may be a misspelt one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    api_version: String,
    kind: String,
    #[serde(default)]
    providers: Vec<WireProvider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireProvider {
    name: String,
    #[serde(default)]
    match_images: Vec<String>,
    default_cache_duration: Option<String>,
    #[serde(default)]
    api_version: String,
    args: Option<Vec<String>>,
    env: Option<Vec<WireVariable>>,
    token_attributes: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireVariable {
    name: String,
    value: String,
}

/// Parses a config, YAML or JSON; beside it, what of it is ignored.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Vec<Provider>, Vec<String>), String> {
    let wire: Wire = read(bytes)?;
    if wire.kind != KIND {
        return Err(format!("its kind is {}; {KIND} is right", quoted(&wire.kind)));
    }
    check_version("apiVersion", &wire.api_version, GROUP)?;
    if wire.providers.is_empty() {
        return Err("it has no providers; at least one is right".to_owned());
    }
    let mut names = BTreeSet::new();
    let mut providers = Vec::new();
    let mut ignored = Vec::new();
    for provider in wire.providers {
        let name = quoted(&provider.name);
        if !names.insert(provider.name.clone()) {
            return Err(format!("two providers are named {name}"));
        }
        let needs_token = provider.token_attributes.is_some();
        let provider = provider
            .check()
            .map_err(|problem| format!("provider {name}: {problem}"))?;
        if needs_token {
            ignored.push(format!(
                "provider {name}: its tokenAttributes want a service account's token, which only the kubelet has; it is never asked"
            ));
        } else {
            providers.push(provider);
        }
    }
    Ok((providers, ignored))
}

/// JSON is read as such: where tabs indent it, it is no YAML.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| quoted(&error.to_string()));
    }
    serde_saphyr::from_str(text).map_err(|error| quoted(&error.without_snippet().to_string()))
}

fn check_version(what: &str, version: &str, group: &str) -> Result<(), String> {
    if version
        .strip_prefix(group)
        .is_some_and(|version| VERSIONS.contains(&version))
    {
        return Ok(());
    }
    let right = VERSIONS.map(|version| format!("{group}{version}")).join(", ");
    Err(format!(
        "its {what} is {:?}; one of {right} is right",
        quoted(version)
    ))
}

impl WireProvider {
    fn check(self) -> Result<Provider, String> {
        check_name(&self.name)?;
        check_version("apiVersion", &self.api_version, PROVIDER_GROUP)?;
        if self.match_images.is_empty() {
            return Err("it has no matchImages; at least one is right".to_owned());
        }
        for image in &self.match_images {
            check_image(image)
                .map_err(|problem| format!("matchImages has {:?}, {problem}", quoted(image)))?;
        }
        let default = self
            .default_cache_duration
            .as_deref()
            .ok_or("it has no defaultCacheDuration")?;
        let default_life = duration(default)
            .and_then(|duration| Duration::try_from(duration).ok())
            .ok_or_else(|| {
                format!(
                    "its defaultCacheDuration is {:?}; a duration such as 12h or 0s is right",
                    quoted(default)
                )
            })?;
        let environment = self.env.unwrap_or_default().into_iter();
        let environment: Vec<_> = environment
            .map(|variable| (variable.name, variable.value))
            .collect();
        let arguments = self.args.unwrap_or_default();
        let texts = environment
            .iter()
            .flat_map(|(name, value)| [name, value])
            .chain(&arguments);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Err("args or env hold a NUL".to_owned());
        }
        if environment
            .iter()
            .any(|(name, _)| name.is_empty() || name.contains('='))
        {
            return Err("env has a name that is empty or has a =".to_owned());
        }
        Ok(Provider {
            images: self
                .match_images
                .iter()
                .map(|image| Key::parse_loosely(image))
                .collect(),
            default_life: default_life.min(LONGEST_LIFE),
            api: self.api_version,
            name: self.name,
            arguments,
            environment,
        })
    }
}

impl Provider {
    /// Whether it is asked for the images of a repository.
    pub(crate) fn is_for(&self, registry: &str, repository: &str) -> bool {
        self.images
            .iter()
            .any(|image| image.matches(registry, repository))
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = !name.is_empty() && !name.contains(|c: char| c == '/' || c == ' ' || c.is_control());
    if plain && name != "." && name != ".." {
        return Ok(());
    }
    Err("its name is no plain name of a file, without '/' and spaces".to_owned())
}

fn check_image(image: &str) -> Result<(), &'static str> {
    if image.contains("://") {
        return Err("which has a scheme; host[:port][/path] is right");
    }
    if image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("which has spaces or control characters");
    }
    let host = image.split('/').next().unwrap_or_default();
    let (name, port) = match host.rsplit_once(':') {
        // What follows the last colon of an IPv6 address is no port.
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    if name.is_empty() {
        return Err("which has no host");
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("whose port is no number");
    }
    Ok(())
}
