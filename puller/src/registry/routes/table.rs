//! All files together, and what they say of a name.

use std::collections::BTreeMap;

use super::file::{Entry, File, Mirror, Place, Prefix, Pulls};
use crate::{domain::reference::names_a_registry, registry::fault};

/// Where a repository is to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Nowhere: an entry blocks it.
    Blocked {
        /// The entry's prefix.
        prefix: String,
    },
    /// At these, to be asked in this order; the last one, and it alone, is no mirror.
    Endpoints(Vec<Endpoint>),
}

/// A repository at some registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and port, as in [`Reference::registry`](crate::domain::Reference::registry).
    pub registry: String,
    /// The repository's path there.
    pub repository: String,
    /// Whether its certificate may be anybody's, and plain HTTP will do.
    pub insecure: bool,
    /// Whether it is a mirror.
    pub mirror: bool,
}

/// What all files say.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    search: Vec<String>,
    aliases: BTreeMap<String, String>,
}

impl Table {
    /// What one file alone says; beside it, the keys that are not known.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn parse(text: &str) -> Result<(Self, Vec<String>), String> {
        let (file, unknown) = File::parse(text)?;
        let mut table = Self::default();
        table.extend(file);
        Ok((table, unknown))
    }

    /// Adds what a later file says: it replaces entries of the same prefix.
    pub(super) fn extend(&mut self, file: File) {
        for entry in file.entries {
            self.entries.retain(|earlier| earlier.prefix != entry.prefix);
            self.entries.push(entry);
        }
        self.search = file.search.unwrap_or_else(|| std::mem::take(&mut self.search));
        self.aliases.extend(file.aliases);
    }

    pub(crate) fn route(&self, registry: &str, repository: &str, by_tag: bool) -> Route {
        let itself = |insecure| Endpoint {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            insecure,
            mirror: false,
        };
        let matching = self
            .entries
            .iter()
            .filter_map(|entry| Some((entry, entry.prefix.rest_of(registry, repository)?)));
        let Some((entry, rest)) = matching.max_by_key(|(entry, _)| entry.prefix.length()) else {
            return Route::Endpoints(vec![itself(false)]);
        };
        if entry.blocked {
            return Route::Blocked {
                prefix: entry.prefix.to_string(),
            };
        }
        let wanted = entry.mirrors.iter().filter(|mirror| mirror.is_for(by_tag));
        let mut endpoints: Vec<_> = wanted
            .filter_map(|mirror| mirror.location.endpoint(rest, mirror.insecure, true))
            .collect();
        let location = entry.location.as_ref();
        endpoints.push(
            location
                .and_then(|location| location.endpoint(rest, entry.insecure, false))
                .unwrap_or_else(|| itself(entry.insecure)),
        );
        Route::Endpoints(endpoints)
    }

    /// What a reference without a registry stands for; `None`: it has one, or stands for nothing.
    ///
    /// # Errors
    /// It could stand for several.
    pub(crate) fn written_out(&self, reference: &str) -> Result<Option<String>, String> {
        if reference
            .split_once('/')
            .is_some_and(|(first, _)| names_a_registry(first))
        {
            return Ok(None);
        }
        let path = reference.split_once('@').map_or(reference, |(name, _)| name);
        let end = path.rfind('/').map_or(0, |slash| slash + 1);
        let name = path[end..].find(':').map_or(path, |colon| &path[..end + colon]);
        let rest = &reference[name.len()..];
        if let Some(place) = self.aliases.get(name).filter(|place| !place.is_empty()) {
            return Ok(Some(format!("{place}{rest}")));
        }
        match self.search.as_slice() {
            [] => Ok(None),
            [registry] => Ok(Some(format!("{registry}/{reference}"))),
            several => {
                let names: Vec<_> = several
                    .iter()
                    .map(|registry| format!("{registry}/{name}"))
                    .collect();
                Err(format!(
                    "it has no registry, and registries.conf lists several that it may be in; write it as one of {}",
                    fault::quoted(&names.join(", "))
                ))
            }
        }
    }
}

impl Prefix {
    /// What a name has beyond the prefix, with its slash if there is something; `None`: it is not under it.
    fn rest_of<'a>(&self, registry: &str, repository: &'a str) -> Option<Rest<'a>> {
        match self {
            Self::Subdomains(domain) => {
                let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
                host.ends_with(domain.as_str()).then_some(Rest(repository))
            }
            Self::Place(place) if place.registry != registry => None,
            Self::Place(place) if place.path.is_empty() => Some(Rest(repository)),
            Self::Place(place) => match repository.strip_prefix(place.path.as_str())? {
                "" => Some(Rest("")),
                rest => rest.strip_prefix('/').map(Rest),
            },
        }
    }
}

/// What a repository's path has beyond a prefix.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a str);

impl Mirror {
    fn is_for(&self, by_tag: bool) -> bool {
        match self.pulls {
            Pulls::All => true,
            Pulls::TagOnly => by_tag,
            Pulls::DigestOnly => !by_tag,
        }
    }
}

impl Place {
    /// The endpoint of a name with this rest; `None`: there would be no path.
    fn endpoint(&self, Rest(rest): Rest<'_>, insecure: bool, mirror: bool) -> Option<Endpoint> {
        let parts = [self.path.as_str(), rest];
        let repository = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("/");
        (!repository.is_empty()).then(|| Endpoint {
            registry: self.registry.clone(),
            repository,
            insecure,
            mirror,
        })
    }
}
