//! What an entry with credentials is for: a host or a pattern for hosts, and the beginning of a path.

use super::glob;

/// The name of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) host: String,
    /// What a repository must begin with. Empty: the whole host.
    path: String,
    /// Whether the path's last part must be a whole one of the repository.
    whole: bool,
    /// Whether the key is the registry's name, and not a URL or another name of it.
    exact: bool,
}

impl Key {
    /// A key of a Docker config.
    pub(super) fn parse(name: &str) -> Self {
        let name = name.trim();
        let lower = name.to_ascii_lowercase();
        let scheme = ["https://", "http://"]
            .into_iter()
            .find(|scheme| lower.starts_with(scheme));
        let rest = &name[scheme.map_or(0, str::len)..];
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = host.to_ascii_lowercase();
        // `https://x.io/v1/` and `x.io/v2/` are what `docker login` wrote for the host `x.io`.
        let legacy = scheme.is_some() || matches!(path, "v1/" | "v2/");
        let path = if legacy { "" } else { path };
        let path: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let canonical = canonical_host(&host);
        Self {
            path: path.join("/"),
            whole: true,
            exact: !legacy && canonical == host,
            host: canonical.to_owned(),
        }
    }

    /// A key of the kubelet's, whose path is the beginning of a repository as a text: `x.io/team` is
    /// also for `x.io/team-a`.
    pub(super) fn parse_loosely(name: &str) -> Self {
        Self {
            whole: name.ends_with('/'),
            ..Self::parse(name)
        }
    }

    pub(super) fn matches(&self, registry: &str, repository: &str) -> bool {
        let ends_well =
            |rest: &str| !self.whole || self.path.is_empty() || rest.is_empty() || rest.starts_with('/');
        glob::matches(&self.host, canonical_host(registry))
            && repository.strip_prefix(&self.path).is_some_and(ends_well)
    }

    /// How specific it is, among those that match the same repository. A host that was written out is
    /// more specific than any pattern, whatever its path.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (glob::literal(&self.host), self.path.len(), self.exact)
    }
}

/// Docker Hub has several names.
pub(super) fn canonical_host(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" | "registry.hub.docker.com" => "docker.io",
        host => host,
    }
}
