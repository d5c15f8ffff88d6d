//! `signedIdentity`: what the name in a signature has to do with the name of the image.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::object::{OnlyType, kind, object};
use crate::{domain::Reference, registry::quoted};

/// The rule for the name in a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignedIdentity {
    /// The same tag or digest.
    Exact,
    /// The same tag, or, for an image that is named by its digest, the same repository with any.
    RepoDigestOrExact,
    /// The same repository.
    Repository,
    /// This very name.
    ExactReference(Name),
    /// Any image of this repository.
    ExactRepository(Name),
    /// As [`RepoDigestOrExact`](Self::RepoDigestOrExact), once the prefix of the image's name is replaced.
    Remap {
        /// Of the image's name: a host, a namespace or a repository.
        prefix: String,
        /// What stands there in the signature.
        signed: String,
    },
}

/// A name as signatures and policies have it: `registry/repository`, often with nothing behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    repository: String,
    /// `:tag` or `@digest`, or empty.
    image: String,
}

impl Name {
    fn of(reference: &Reference) -> Self {
        Self {
            repository: format!("{}/{}", reference.registry, reference.repository),
            image: match (&reference.digest, &reference.tag) {
                // A tag beside a digest is for display only.
                (Some(digest), _) => format!("@{digest}"),
                (None, Some(tag)) => format!(":{tag}"),
                (None, None) => String::new(),
            },
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let last = text.rsplit('/').next().unwrap_or_default();
        let bare = !last.contains([':', '@']);
        // The parser wants a tag; the one that is given to it here does not stay.
        let whole = match bare {
            true => format!("{text}:any"),
            false => text.to_owned(),
        };
        let reference: Reference = whole
            .parse()
            .map_err(|_| format!("{:?} is no full name of an image", quoted(text)))?;
        let mut name = Self::of(&reference);
        if bare {
            name.image.clear();
        }
        Ok(name)
    }

    fn is_pinned(&self) -> bool {
        self.image.starts_with('@')
    }

    fn is_bare(&self) -> bool {
        self.image.is_empty()
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.repository, self.image)
    }
}

impl SignedIdentity {
    /// Parses the field.
    pub(super) fn parse(json: &RawValue) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct OneReference {
            #[serde(rename = "type")]
            _type: IgnoredAny,
            docker_reference: String,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct OneRepository {
            #[serde(rename = "type")]
            _type: IgnoredAny,
            docker_repository: String,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Remap {
            #[serde(rename = "type")]
            _type: IgnoredAny,
            prefix: String,
            signed_prefix: String,
        }
        let text = json.get();
        match kind(json)?.as_str() {
            "matchExact" => object::<OnlyType>(text).map(|_| Self::Exact),
            "matchRepoDigestOrExact" => object::<OnlyType>(text).map(|_| Self::RepoDigestOrExact),
            "matchRepository" => object::<OnlyType>(text).map(|_| Self::Repository),
            "exactReference" => {
                let name = Name::parse(&object::<OneReference>(text)?.docker_reference)?;
                match name.is_bare() {
                    true => Err(format!("dockerReference {name} has neither tag nor digest")),
                    false => Ok(Self::ExactReference(name)),
                }
            }
            "exactRepository" => {
                let name = Name::parse(&object::<OneRepository>(text)?.docker_repository)?;
                match name.is_bare() {
                    true => Ok(Self::ExactRepository(name)),
                    false => Err(format!("dockerRepository {name} has a tag or a digest")),
                }
            }
            "remapIdentity" => {
                let Remap {
                    prefix,
                    signed_prefix: signed,
                    ..
                } = object(text)?;
                for prefix in [&prefix, &signed] {
                    check_prefix(prefix)?;
                }
                Ok(Self::Remap { prefix, signed })
            }
            other => Err(format!(
                "the type {:?} is not known; there are matchExact, matchRepoDigestOrExact, matchRepository, \
                 exactReference, exactRepository and remapIdentity",
                quoted(other)
            )),
        }
    }

    /// Whether a signature with this name is one for the image.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn accepts(&self, image: &Reference, signed: &str) -> Result<(), String> {
        let image = Name::of(image);
        let name = Name::parse(signed)?;
        let wrong = |expected: &dyn std::fmt::Display| Err(format!("it is for {name}, not for {expected}"));
        match self {
            Self::Exact => same(&image, &name),
            Self::RepoDigestOrExact => same_or_pinned(&image, &name),
            Self::Repository if name.repository == image.repository => Ok(()),
            Self::Repository => wrong(&image.repository),
            Self::ExactReference(expected) => same(expected, &name),
            Self::ExactRepository(expected) if name.repository == expected.repository => Ok(()),
            Self::ExactRepository(expected) => wrong(expected),
            Self::Remap { prefix, signed } => {
                let repository = match image.repository.strip_prefix(prefix) {
                    Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{signed}{rest}"),
                    _ => image.repository,
                };
                same_or_pinned(
                    &Name {
                        repository,
                        image: image.image,
                    },
                    &name,
                )
            }
        }
    }
}

fn same(expected: &Name, name: &Name) -> Result<(), String> {
    if name == expected && !name.is_bare() {
        return Ok(());
    }
    let hint = match name.is_bare() && name.repository == expected.repository {
        true => {
            " (cosign signs for the repository alone unless told otherwise: matchRepository accepts that)"
        }
        false => "",
    };
    Err(format!("it is for {name}, not for {expected}{hint}"))
}

fn same_or_pinned(expected: &Name, name: &Name) -> Result<(), String> {
    match expected.is_pinned() && !name.is_bare() && name.repository == expected.repository {
        true => Ok(()),
        false => same(expected, name),
    }
}

/// A host, a namespace or a repository.
fn check_prefix(prefix: &str) -> Result<(), String> {
    let path = prefix.split_once('/').map_or("", |(_, path)| path);
    let odd = prefix.is_empty()
        || prefix.ends_with('/')
        || prefix.contains("://")
        || prefix.contains(['@', '*'])
        || prefix.contains(char::is_whitespace)
        || path.contains(':');
    match odd {
        true => Err(format!(
            "the prefix {:?} is no host, namespace or repository",
            quoted(prefix)
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
