//! Docker's `config.json`, also as Kubernetes keeps it in Secrets: parsing and lookup.

use std::{collections::BTreeMap, sync::Arc};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::HeaderValue;
use serde::Deserialize;
use serde_json::Value;

use super::key::{Key, canonical_host};
use crate::{domain::Secret, registry::fault::quoted};

/// Docker writes padding; people who make the file by hand forget it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The user name with which a password is an identity token.
const TOKEN_USER: &str = "<token>";

/// A way to show who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A user name and a password, or an access token in its place.
    Login {
        /// Who.
        username: String,
        /// The password.
        password: Secret<String>,
    },
    /// An OAuth 2 refresh token for the token server.
    Identity(Secret<String>),
    /// A bearer token for the registry itself.
    Registry(Secret<String>),
}

/// Why a text is no usable config. It never holds anything of the text but the names of registries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the registry credentials are not usable: {0}")]
pub struct InvalidConfig(String);

impl InvalidConfig {
    pub(super) fn daemon_scope() -> Self {
        Self("the empty scope is the daemon's own and takes no values; name a scope".into())
    }
}

/// One config.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    entries: Vec<Entry>,
    /// Credential helpers of single registries, by the registry.
    helpers: BTreeMap<String, String>,
    /// The credential helper of all others.
    store: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    key: Key,
    credential: Credential,
}

#[derive(Deserialize)]
struct Wire {
    auths: Option<BTreeMap<String, Value>>,
    // Of any type here: what is wrong with them is no reason to refuse `auths`.
    #[serde(rename = "credsStore")]
    store: Option<Value>,
    #[serde(rename = "credHelpers")]
    helpers: Option<Value>,
}

#[derive(Default, Deserialize)]
struct WireEntry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    identitytoken: Option<String>,
    #[serde(default)]
    registrytoken: Option<String>,
}

impl Config {
    /// Parses a config; beside it, what of it is ignored. Without `auths` it may be the older form
    /// (`.dockercfg`), which is the map alone.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, Vec<String>), InvalidConfig> {
        let (config, ignored, bad) = Self::parse_entries(bytes)?;
        match bad.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok((config, ignored)),
        }
    }

    /// The same of a file, whose bad entries are ignored: the others must not go without credentials for
    /// them. Whoever sends a config can be told instead.
    pub(super) fn parse_file(bytes: &[u8]) -> Result<(Self, Vec<String>), InvalidConfig> {
        let (config, mut ignored, bad) = Self::parse_entries(bytes)?;
        ignored.extend(bad.into_iter().map(|InvalidConfig(problem)| problem));
        Ok((config, ignored))
    }

    fn parse_entries(bytes: &[u8]) -> Result<(Self, Vec<String>, Vec<InvalidConfig>), InvalidConfig> {
        // Editors on Windows put a mark before the text.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
        let older = wire.auths.is_none() && wire.helpers.is_none() && wire.store.is_none();
        let mut ignored = Vec::new();
        let (helpers, store) = helpers_of(wire.helpers, wire.store, &mut ignored);
        let auths = match wire.auths {
            Some(auths) => auths,
            // In the older form each value is an entry; a newer one without `auths` has others.
            None if older => {
                let mut values: BTreeMap<String, Value> = serde_json::from_slice(bytes).unwrap_or_default();
                values.retain(|_, value| WireEntry::deserialize(&*value).is_ok());
                values
            }
            None => BTreeMap::new(),
        };
        let mut entries = Vec::new();
        let mut bad = Vec::new();
        for (name, value) in auths {
            let wrong_type =
                || InvalidConfig(format!("the entry for {} is of the wrong type", quoted(&name)));
            let entry = Option::<WireEntry>::deserialize(value).map_err(|_| wrong_type());
            match entry.and_then(|entry| entry.unwrap_or_default().credential(&name)) {
                Ok(Some(credential)) => entries.push(Entry {
                    key: Key::parse(&name),
                    credential,
                }),
                Ok(None) => {}
                Err(problem) => bad.push(problem),
            }
        }
        let config = Self {
            entries,
            helpers,
            store,
        };
        Ok((config, ignored, bad))
    }

    /// What a program gave.
    pub(super) fn of(entries: impl IntoIterator<Item = (Key, Credential)>) -> Self {
        let entries = entries.into_iter();
        Self {
            entries: entries
                .map(|(key, credential)| Entry { key, credential })
                .collect(),
            ..Self::default()
        }
    }

    /// The credential helper for a registry: its own, else the one for all.
    pub(super) fn helper(&self, registry: &str) -> Option<&str> {
        let own = self.helpers.get(canonical_host(registry));
        own.or(self.store.as_ref()).map(String::as_str)
    }

    /// Forgets the credential helpers, and says whether there were any.
    pub(super) fn drop_helpers(&mut self) -> bool {
        let had = self.store.is_some() || !self.helpers.is_empty();
        self.store = None;
        self.helpers.clear();
        had
    }
}

impl Credential {
    /// What a user name and a password stand for.
    ///
    /// Neither can end with a newline (RFC 7617, section 2, allows no control characters), but what `echo`
    /// and editors write does.
    pub(super) fn of_login(username: String, password: String) -> Self {
        let line = |text: String| text.trim_end_matches(['\r', '\n']).to_owned();
        let (username, password) = (line(username), Secret::new(line(password)));
        if username == TOKEN_USER {
            Self::Identity(password)
        } else {
            Self::Login { username, password }
        }
    }
}

/// `credHelpers` and `credsStore`, as far as they are texts where texts belong.
fn helpers_of(
    helpers: Option<Value>,
    store: Option<Value>,
    ignored: &mut Vec<String>,
) -> (BTreeMap<String, String>, Option<String>) {
    let mut by_host = BTreeMap::new();
    match helpers {
        None | Some(Value::Null) => {}
        Some(Value::Object(entries)) => {
            for (server, name) in entries {
                match name {
                    Value::String(name) => drop(by_host.insert(Key::parse(&server).host, name)),
                    _ => ignored.push(format!("credHelpers for {}, which is no text", quoted(&server))),
                }
            }
        }
        Some(_) => ignored.push("credHelpers, which is no object".to_owned()),
    }
    let store = match store {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name).filter(|name| !name.is_empty()),
        Some(_) => {
            ignored.push("credsStore, which is no text".to_owned());
            None
        }
    };
    (by_host, store)
}

/// The error's own text may quote a value, so only its place is told.
fn unreadable(error: &serde_json::Error) -> InvalidConfig {
    let (line, column) = (error.line(), error.column());
    InvalidConfig(match error.classify() {
        serde_json::error::Category::Data => {
            format!("a value at line {line}, column {column} is of the wrong type")
        }
        _ => format!("they are not JSON (line {line}, column {column})"),
    })
}

impl WireEntry {
    /// `None`: the entry is empty, as Docker writes it beside a credential helper.
    fn credential(self, name: &str) -> Result<Option<Credential>, InvalidConfig> {
        let name = quoted(name);
        let given = |value: Option<String>| value.filter(|value| !value.is_empty());
        if let Some(token) = given(self.registrytoken) {
            if HeaderValue::from_str(&format!("Bearer {token}")).is_err() {
                return Err(InvalidConfig(format!(
                    "the registrytoken for {name} holds control characters"
                )));
            }
            return Ok(Some(Credential::Registry(Secret::new(token))));
        }
        if let Some(token) = given(self.identitytoken) {
            return Ok(Some(Credential::Identity(Secret::new(token))));
        }
        let (username, password) = match given(self.auth) {
            Some(auth) => {
                decode(&auth).map_err(|problem| InvalidConfig(format!("the auth for {name} {problem}")))?
            }
            None => (
                given(self.username).unwrap_or_default(),
                given(self.password).unwrap_or_default(),
            ),
        };
        if username.is_empty() && password.is_empty() {
            return Ok(None);
        }
        Ok(Some(Credential::of_login(username, password)))
    }
}

/// User name and password from base64; Docker for Windows once padded them with NULs.
fn decode(auth: &str) -> Result<(String, String), &'static str> {
    let auth: String = auth.split_whitespace().collect();
    let bytes = LENIENT.decode(auth).map_err(|_| "is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 under its base64")?;
    let (username, password) = text
        .split_once(':')
        .ok_or("has no colon between user name and password")?;
    Ok((username.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// What some configs have for a repository, the most specific first; of two that are equally specific
/// the earlier config's. Each value once.
pub(crate) fn candidates(configs: &[Arc<Config>], registry: &str, repository: &str) -> Vec<Credential> {
    let mut entries: Vec<&Entry> = configs
        .iter()
        .flat_map(|config| &config.entries)
        .filter(|entry| entry.key.matches(registry, repository))
        .collect();
    // Stable: equals stay in the configs' order.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.key.rank()));
    let mut candidates: Vec<Credential> = Vec::new();
    for entry in entries {
        if !candidates.contains(&entry.credential) {
            candidates.push(entry.credential.clone());
        }
    }
    candidates
}
