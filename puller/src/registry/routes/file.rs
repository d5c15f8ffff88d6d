//! One file: text in, checked entries out.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use toml::{Table, Value};

use crate::{domain::Reference, registry::fault};

/// A file that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registries.conf: {0}")]
pub struct InvalidRoutes(String);

impl InvalidRoutes {
    pub(super) fn new(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self(format!("{}: {problem}", path.display()))
    }
}

/// What one file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::registry) struct File {
    pub(super) entries: Vec<Entry>,
    /// Registries that names without one may stand for. `None`: the file does not say.
    pub(super) search: Option<Vec<String>>,
    /// Names without a registry, and what they stand for: a place without tag.
    pub(super) aliases: BTreeMap<String, String>,
}

/// What is said of everything under a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) prefix: Prefix,
    /// `None`: where the name says.
    pub(super) location: Option<Place>,
    pub(super) insecure: bool,
    pub(super) blocked: bool,
    pub(super) mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prefix {
    Place(Place),
    /// All hosts whose names end so; with the dot in front.
    Subdomains(String),
}

/// A registry and the beginning of a repository's path, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) registry: String,
    pub(super) path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    pub(super) location: Place,
    pub(super) insecure: bool,
    pub(super) pulls: Pulls,
}

/// The pulls that a mirror is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pulls {
    #[default]
    #[serde(alias = "")]
    All,
    DigestOnly,
    TagOnly,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Wire {
    unqualified_search_registries: Option<Vec<String>>,
    // Checked for its form only: nobody is there who could be asked which registry he means.
    #[serde(rename = "short-name-mode")]
    _mode: Option<ShortNameMode>,
    #[serde(default)]
    registry: Vec<WireEntry>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ShortNameMode {
    #[serde(alias = "")]
    Enforcing,
    Permissive,
    Disabled,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WireEntry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<WireMirror>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WireMirror {
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    pull_from_mirror: Option<Pulls>,
}

impl File {
    /// Parses a file; beside it, the keys that are not known.
    ///
    /// # Errors
    /// What is wrong with it, with its line or the entry.
    pub(in crate::registry) fn parse(text: &str) -> Result<(Self, Vec<String>), String> {
        // Editors on Windows put a mark before the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let table: Table = text.parse().map_err(|error| malformed(text, &error))?;
        if table.contains_key("registries") {
            return Err(
                "it is of version 1 ([registries.search] and the like); write it in version 2 ([[registry]])"
                    .into(),
            );
        }
        let unknown = unknown_keys(&table);
        let wire: Wire = toml::from_str(text).map_err(|error| malformed(text, &error))?;
        let entries = wire
            .registry
            .into_iter()
            .map(WireEntry::check)
            .collect::<Result<_, _>>()?;
        let search = wire
            .unqualified_search_registries
            .map(|registries| {
                registries
                    .iter()
                    .map(|registry| Ok(Place::parse(registry)?.whole()))
                    .collect::<Result<_, String>>()
            })
            .transpose()?;
        let mut aliases = BTreeMap::new();
        for (name, stands_for) in wire.aliases {
            // An empty one takes back what an earlier file said.
            let place = if stands_for.is_empty() {
                String::new()
            } else {
                Place::parse(&stands_for)?.whole()
            };
            aliases.insert(name, place);
        }
        Ok((
            Self {
                entries,
                search,
                aliases,
            },
            unknown,
        ))
    }
}

impl WireEntry {
    fn check(self) -> Result<Entry, String> {
        let Self {
            prefix,
            location,
            insecure,
            blocked,
            mirror_by_digest_only,
            mirror: mirrors,
        } = self;
        let named = if prefix.is_empty() { &location } else { &prefix };
        let about = format!("[[registry]] {:?}", fault::quoted(named));
        if named.is_empty() {
            return Err("a [[registry]] has neither prefix nor location".into());
        }
        let prefix = Prefix::parse(named).map_err(|problem| format!("{about}: {problem}"))?;
        let location = match location.as_str() {
            "" => None,
            location => Some(Place::parse(location).map_err(|problem| format!("{about}: {problem}"))?),
        };
        let mirror = |wire: WireMirror| {
            let about = format!("{about}, mirror {:?}", fault::quoted(&wire.location));
            if mirror_by_digest_only && wire.pull_from_mirror.is_some() {
                return Err(format!(
                    "{about}: mirror-by-digest-only and pull-from-mirror exclude each other"
                ));
            }
            Ok(Mirror {
                location: Place::parse(&wire.location).map_err(|problem| format!("{about}: {problem}"))?,
                insecure: wire.insecure,
                pulls: match wire.pull_from_mirror {
                    Some(pulls) => pulls,
                    None if mirror_by_digest_only => Pulls::DigestOnly,
                    None => Pulls::All,
                },
            })
        };
        let mirrors = mirrors.into_iter().map(mirror).collect::<Result<_, String>>()?;
        Ok(Entry {
            prefix,
            location,
            insecure,
            blocked,
            mirrors,
        })
    }
}

impl Prefix {
    fn parse(text: &str) -> Result<Self, String> {
        let Some(domain) = text.strip_prefix("*.") else {
            return Place::parse(text).map(Self::Place);
        };
        // As a subdomain of it: a domain such as `local` alone would be no registry.
        match Place::parse(&format!("x.{domain}"))? {
            Place { registry, path } if path.is_empty() && !registry.contains([':', '[']) => {
                Ok(Self::Subdomains(registry[1..].to_owned()))
            }
            _ => Err("behind *. there is a domain alone, without port or path".into()),
        }
    }

    /// How much of a name it is about: of two that match, the longer one counts.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Place(place) => place.registry.len() + place.path.len(),
            Self::Subdomains(domain) => domain.len(),
        }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Place(place) => f.write_str(&place.whole()),
            Self::Subdomains(domain) => write!(f, "*{domain}"),
        }
    }
}

impl Place {
    /// Parses `host[:port][/path]`.
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a location is missing".into());
        }
        let shown = fault::quoted(text);
        // As containers/image has it, slashes at the end say nothing.
        let text = text.trim_end_matches('/');
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        if text.contains("://") {
            return Err(format!("{shown:?} is a URL; write host[:port][/path]"));
        }
        // The rules for names are those of references, and are kept in one place.
        let parse = |text: String| {
            text.parse::<Reference>()
                .map_err(|_| format!("{shown:?} is not host[:port][/path]"))
        };
        let registry = parse(format!("{host}/some/name:tag"))?.registry;
        if path.is_empty() {
            return Ok(Self {
                registry,
                path: String::new(),
            });
        }
        if path.contains([':', '@']) {
            return Err(format!(
                "{shown:?} has a tag or a digest, which is not supported here; leave it out"
            ));
        }
        // Behind one more part, so that Docker Hub's rule for short paths does not change it.
        let probe = parse(format!("{host}/x/{path}:tag"))?.repository;
        debug_assert_eq!(probe, format!("x/{path}"));
        Ok(Self {
            registry,
            path: path.to_owned(),
        })
    }

    /// As it is written.
    pub(super) fn whole(&self) -> String {
        if self.path.is_empty() {
            self.registry.clone()
        } else {
            format!("{}/{}", self.registry, self.path)
        }
    }
}

/// On one line, unlike the error's own text, which draws the place.
fn malformed(text: &str, error: &toml::de::Error) -> String {
    let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let line = error.span().map_or(1, |span| line(span.start));
    format!("line {line}: {}", fault::quoted(error.message()))
}

/// The keys that version 2 does not have, or that mean nothing here, each with the table that it is in.
fn unknown_keys(table: &Table) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut look = |table: &Table, name: &str, known: &[&str]| {
        let others = table.keys().filter(|key| !known.contains(&key.as_str()));
        unknown.extend(others.map(|key| format!("{name}{}", fault::quoted(key))));
    };
    look(
        table,
        "",
        &[
            "unqualified-search-registries",
            "short-name-mode",
            "registry",
            "aliases",
        ],
    );
    for entry in tables(table.get("registry")) {
        look(
            entry,
            "registry.",
            &[
                "prefix",
                "location",
                "insecure",
                "blocked",
                "mirror-by-digest-only",
                "mirror",
            ],
        );
        for mirror in tables(entry.get("mirror")) {
            look(
                mirror,
                "registry.mirror.",
                &["location", "insecure", "pull-from-mirror"],
            );
        }
    }
    unknown
}

fn tables(value: Option<&Value>) -> impl Iterator<Item = &Table> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_table)
}
