//! Where a registry is, as one request finds it.

use url::Url;

use super::{
    Repository,
    address::{Guard, Reach},
    fault,
    scheme::Schemes,
};
use crate::{
    domain::{Reason, Scope},
    error::Fault,
};

/// A registry's address and what follows from it.
#[derive(Debug)]
pub(super) struct Site {
    /// The registry's name, as in references.
    pub(super) registry: String,
    /// Scheme, host and port.
    pub(super) base: Url,
    /// What its requests may reach.
    pub(super) reach: Reach,
    /// Whether it may have any certificate.
    pub(super) insecure: bool,
    /// Whose credentials are used, as messages say it.
    pub(super) whose: String,
}

impl Site {
    /// Finds a repository's registry.
    pub(super) async fn of(repository: &Repository, schemes: &Schemes, guard: &Guard) -> Result<Self, Fault> {
        let registry = &repository.registry;
        let parse = |scheme: &str| {
            Url::parse(&format!("{scheme}://{}/", host_of(registry))).map_err(|error| {
                Fault::new(
                    Reason::InvalidReference,
                    format!("the registry {}", fault::quoted(registry)),
                    format!("is no host: {error}"),
                    "write it as host or host:port",
                )
            })
        };
        let mut base = parse("https")?;
        let reach = match base.host() {
            Some(host) => guard.reach_of(&host).await,
            None => Reach::Public,
        };
        if !schemes.is_tls(&base, guard, reach, repository.insecure).await {
            // Not by changing the scheme, which would lose a port that is the other scheme's default.
            base = parse("http")?;
        }
        Ok(Self {
            registry: registry.clone(),
            base,
            reach,
            insecure: repository.insecure,
            whose: whose(&repository.scope),
        })
    }

    /// Whether the registry is spoken to without TLS.
    pub(super) fn is_plain(&self) -> bool {
        self.base.scheme() == "http"
    }

    /// The URL of something of a repository, such as `manifests` and a tag.
    ///
    /// # Errors
    /// The parts would not stand in it as they are.
    pub(super) fn url(&self, repository: &str, kind: &str, name: &str) -> Result<Url, Fault> {
        let path = format!("/v2/{repository}/{kind}/{name}");
        let mut url = self.base.clone();
        url.set_path(&path);
        // The parts were checked long ago; if one of them leads elsewhere after all, our credentials
        // must not go there.
        if url.path() != path {
            return Err(Fault::new(
                Reason::InvalidReference,
                format!("{} of {}", fault::quoted(name), fault::quoted(repository)),
                "the name does not stand in a URL as it is",
                "use the names that the distribution-spec allows",
            ));
        }
        Ok(url)
    }
}

/// Whose credentials a scope stands for.
pub(super) fn whose(scope: &Scope) -> String {
    if scope.is_daemon() {
        "the daemon's own credentials".to_owned()
    } else {
        format!("the credentials of scope {:?}", fault::quoted(&scope.0))
    }
}

/// Docker Hub's registry is not at the host that references name.
fn host_of(registry: &str) -> &str {
    match registry {
        "docker.io" => "registry-1.docker.io",
        registry => registry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(base: &str) -> Site {
        Site {
            registry: "reg.io".into(),
            base: base.parse().unwrap(),
            reach: Reach::Public,
            insecure: false,
            whose: String::new(),
        }
    }

    #[test]
    fn a_url_is_what_was_asked_or_nothing() {
        let site = site("https://reg.io:5000/");
        let url = site.url("a/b", "manifests", "v1_x.y-z").unwrap();
        assert_eq!(url.as_str(), "https://reg.io:5000/v2/a/b/manifests/v1_x.y-z");
        for (repository, name) in [
            ("../x", "v1"),
            ("a", "../../x"),
            ("a", "x?y"),
            ("a", "x#y"),
            ("a b", "x"),
        ] {
            assert!(
                site.url(repository, "manifests", name).is_err(),
                "{repository} {name}"
            );
        }
    }

    #[test]
    fn docker_hub_is_elsewhere() {
        assert_eq!(host_of("docker.io"), "registry-1.docker.io");
        assert_eq!(host_of("quay.io"), "quay.io");
    }
}
