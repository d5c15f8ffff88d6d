//! Image references, by the grammar of the distribution project's `reference` package.
//!
//! Our own parser, since the error has to name the part that is wrong, a bracketed IPv6 registry is
//! allowed, and no registry or tag is ever assumed; the crates at hand do none of the three.

use std::{fmt, str::FromStr};

use super::digest::Digest;

/// Longest repository name, and longest tag, that registries accept.
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

/// Longest reference: registry and repository, a port, a tag, and a digest by SHA-512. What is longer is
/// refused before any part of it is quoted.
const MAX_REFERENCE: usize = 2 * MAX_NAME + "/:65535:@sha512:".len() + MAX_TAG + 128;

/// A reference in its full form: registry, repository, and a tag or a digest or both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// Host with its port if one was given, in lower case. `docker.io` stands for Docker Hub.
    pub registry: String,
    /// The path, such as `library/nginx`.
    pub repository: String,
    /// With a digest beside it, for display only.
    pub tag: Option<String>,
    /// Decides what is pulled.
    pub digest: Option<Digest>,
}

/// Why a text is no reference: the part, what it is, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the reference {reference:?} is not valid: {problem}")]
pub struct InvalidReference {
    reference: String,
    problem: String,
}

impl Reference {
    /// Whether the digest is part of the reference, so that it stands for the same bytes for ever.
    pub fn is_pinned(&self) -> bool {
        self.digest.is_some()
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty; write registry/repository:tag or registry/repository@digest".into());
        }
        if text.len() > MAX_REFERENCE {
            return Err(format!(
                "it has {} bytes; {MAX_REFERENCE} are allowed",
                text.len()
            ));
        }
        if let Some(odd) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "it holds {odd:?}; spaces and control characters are not allowed"
            ));
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(format!(
                "it begins with {}://; leave that out",
                scheme.escape_debug()
            ));
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.parse::<Digest>().map_err(|e| e.to_string())?)),
            None => (text, None),
        };
        let (registry, path) = name
            .split_once('/')
            .filter(|(first, _)| names_a_registry(first))
            .ok_or_else(|| {
                format!(
                    "the registry is missing; write it out, such as docker.io/{}",
                    hub_path(name).escape_debug()
                )
            })?;
        let registry = parse_registry(registry)?;
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(parse_tag(tag)?)),
            None => (path, None),
        };
        if tag.is_none() && digest.is_none() {
            return Err("it has neither tag nor digest; add one, such as :latest".into());
        }
        let repository = match registry.as_str() {
            "docker.io" => hub_path(repository),
            _ => repository.to_owned(),
        };
        check_repository(&repository)?;
        Ok(Self {
            registry,
            repository,
            tag,
            digest,
        })
    }
}

/// Docker Hub's own images live under `library/`.
fn hub_path(repository: &str) -> String {
    if repository.contains('/') {
        repository.to_owned()
    } else {
        format!("library/{repository}")
    }
}

/// A first component is a registry if it could not be a part of a repository's name.
pub(crate) fn names_a_registry(first: &str) -> bool {
    first.eq_ignore_ascii_case("localhost") || first.contains(['.', ':', '['])
}

fn parse_registry(text: &str) -> Result<String, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest
                .split_once(']')
                .ok_or_else(|| format!("the registry {text:?} has no closing bracket"))?;
            address
                .parse::<std::net::Ipv6Addr>()
                .map_err(|_| format!("the registry {text:?} holds no IPv6 address between its brackets"))?;
            let port = after.strip_prefix(':');
            if port.is_none() && !after.is_empty() {
                return Err(format!(
                    "the registry {text:?} has something after its bracket that is no port"
                ));
            }
            (format!("[{address}]"), port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if !host.starts_with('[') && (host.len() > MAX_NAME || !host.split('.').all(label)) {
        return Err(format!("the registry {text:?} is no host name"));
    }
    let host = host.to_ascii_lowercase();
    let host = match host.as_str() {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        _ => host,
    };
    match port {
        None => Ok(host),
        Some(port) => {
            let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            match port.parse::<u16>() {
                Ok(number) if digits && number > 0 => Ok(format!("{host}:{number}")),
                _ => Err(format!(
                    "the registry's port {port:?} is not a number from 1 to 65535"
                )),
            }
        }
    }
}

fn parse_tag(tag: &str) -> Result<String, String> {
    let first = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let later = |b: u8| first(b) || b == b'.' || b == b'-';
    if tag.is_empty() {
        return Err("the tag is empty; leave the colon out or write one, such as :latest".into());
    }
    if tag.len() > MAX_TAG {
        return Err(format!(
            "the tag has {} characters; {MAX_TAG} are allowed",
            tag.len()
        ));
    }
    if !first(tag.as_bytes()[0]) || !tag.bytes().all(later) {
        return Err(format!(
            "the tag {tag:?} holds something other than letters, digits, '_', '.' and '-', or begins with one of the last two"
        ));
    }
    Ok(tag.to_owned())
}

fn check_repository(repository: &str) -> Result<(), String> {
    if repository.len() > MAX_NAME {
        return Err(format!(
            "the repository has {} characters; {MAX_NAME} are allowed",
            repository.len()
        ));
    }
    if repository.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(format!("the repository {repository:?} must be lower case"));
    }
    match repository.split('/').find(|component| !is_component(component)) {
        None => Ok(()),
        Some("") => Err(format!("the repository {repository:?} has an empty part")),
        Some(part) => Err(format!(
            "the repository's part {part:?} must be lower-case letters and digits, with single '.', one or two '_', or '-' between them"
        )),
    }
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(component: &str) -> bool {
    let alnum = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends = bytes.first().is_some_and(|b| alnum(*b)) && bytes.last().is_some_and(|b| alnum(*b));
    ends && component
        .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|separator| matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-'))
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        Self::parse(text).map_err(|problem| InvalidReference {
            // Long enough for any legal reference, bounded for what is none.
            reference: text.chars().take(2 * MAX_NAME + MAX_TAG).collect(),
            problem,
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
