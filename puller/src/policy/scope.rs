//! Scopes: which entry of `transports.docker` counts for a reference.

use crate::domain::Reference;

/// The scopes that fit a reference, the most specific first, down to the transport's default (empty).
pub(super) fn candidates(reference: &Reference) -> impl Iterator<Item = String> {
    let name = format!("{}/{}", reference.registry, reference.repository);
    let image = match (&reference.digest, &reference.tag) {
        // A tag beside a digest is for display only.
        (Some(digest), _) => Some(format!("{name}@{digest}")),
        (None, Some(tag)) => Some(format!("{name}:{tag}")),
        (None, None) => None,
    };
    let parent = |name: &String| name.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    let namespaces = std::iter::successors(Some(name), parent);
    let wildcards = wildcards(&reference.registry).collect::<Vec<_>>();
    image
        .into_iter()
        .chain(namespaces)
        .chain(wildcards)
        .chain([String::new()])
}

/// `*.b.c` and `*.c` for `a.b.c:5000`: a wildcard stands for hosts, whatever their port.
fn wildcards(registry: &str) -> impl Iterator<Item = String> {
    // An IPv6 address in brackets has no domains above it.
    let host = match registry.starts_with('[') {
        true => "",
        false => registry.split(':').next().unwrap_or_default(),
    };
    std::iter::successors(above(host), |host| above(host)).map(|domain| format!("*.{domain}"))
}

fn above(host: &str) -> Option<&str> {
    host.split_once('.').map(|(_, above)| above)
}

/// Refuses what could never match anything: whoever wrote it believes that it counts.
pub(super) fn check(scope: &str) -> Result<(), String> {
    let wildcard = scope.strip_prefix("*.");
    let problem = if scope.contains("://") {
        "it begins with a scheme; leave that out"
    } else if scope.contains(char::is_whitespace) {
        "it holds a space"
    } else if scope.starts_with('/') || scope.ends_with('/') {
        "it begins or ends with a slash"
    } else if wildcard.unwrap_or(scope).contains('*') {
        "a wildcard is *. in front of a domain and nothing else, such as *.example.com"
    } else if wildcard.is_some_and(|domain| domain.is_empty() || domain.contains(['/', ':', '@'])) {
        "a wildcard stands for hosts; nothing may follow the domain"
    } else {
        return Ok(());
    };
    Err(format!("the scope can't match: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reference: &str) -> Vec<String> {
        candidates(&reference.parse().unwrap()).collect()
    }

    #[test]
    fn the_most_specific_comes_first() {
        assert_eq!(
            of("reg.example.com:5000/team/app:v1"),
            [
                "reg.example.com:5000/team/app:v1",
                "reg.example.com:5000/team/app",
                "reg.example.com:5000/team",
                "reg.example.com:5000",
                "*.example.com",
                "*.com",
                "",
            ]
        );
    }

    #[test]
    fn a_digest_decides_and_the_tag_beside_it_does_not() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let scopes = of(&format!("quay.io/a/b:v1@{digest}"));
        assert_eq!(scopes[0], format!("quay.io/a/b@{digest}"));
        assert!(!scopes.contains(&"quay.io/a/b:v1".to_owned()));
    }

    #[test]
    fn names_stand_in_their_full_form() {
        assert_eq!(
            of("docker.io/busybox:1"),
            [
                "docker.io/library/busybox:1",
                "docker.io/library/busybox",
                "docker.io/library",
                "docker.io",
                "*.io",
                "",
            ]
        );
        assert_eq!(
            of("[::1]:5000/a:1"),
            ["[::1]:5000/a:1", "[::1]:5000/a", "[::1]:5000", ""]
        );
    }

    #[test]
    fn what_can_match_nothing_is_an_error() {
        for scope in [
            "https://quay.io",
            "quay.io/",
            "/a",
            "quay.io/a b",
            "*",
            "*.",
            "example*.*.com",
            "*.*.com",
            "*.example.com:5000",
            "*.example.com/team",
            "quay.io/*",
        ] {
            assert!(check(scope).is_err(), "{scope:?} was accepted");
        }
        for scope in [
            "",
            "quay.io",
            "quay.io:443/a/b:v1",
            "*.example.com",
            "localhost/a",
        ] {
            assert_eq!(check(scope), Ok(()), "{scope:?}");
        }
    }
}
