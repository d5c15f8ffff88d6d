use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn parse(json: &str) -> Result<SignedIdentity, String> {
    SignedIdentity::parse(&RawValue::from_string(json.to_owned()).unwrap())
}

fn accepts(identity: &str, image: &str, signed: &str) -> bool {
    let accepted = parse(identity).unwrap().accepts(&image.parse().unwrap(), signed);
    accepted.is_ok()
}

#[test]
fn exact_is_the_same_tag_or_digest() {
    let exact = r#"{"type": "matchExact"}"#;
    let pinned = format!("quay.io/a/b@{DIGEST}");
    assert!(accepts(exact, "quay.io/a/b:v1", "quay.io/a/b:v1"));
    assert!(accepts(exact, &pinned, &pinned));
    for signed in ["quay.io/a/b", "quay.io/a/b:v2", "quay.io/a/c:v1", &pinned] {
        assert!(!accepts(exact, "quay.io/a/b:v1", signed), "{signed}");
    }
    assert!(!accepts(exact, &pinned, "quay.io/a/b:v1"));
}

#[test]
fn the_default_lets_a_digest_have_any_tag_of_its_repository() {
    let default = r#"{"type": "matchRepoDigestOrExact"}"#;
    let pinned = format!("quay.io/a/b@{DIGEST}");
    assert!(accepts(default, "quay.io/a/b:v1", "quay.io/a/b:v1"));
    assert!(accepts(default, &pinned, "quay.io/a/b:v7"));
    assert!(!accepts(default, "quay.io/a/b:v1", "quay.io/a/b:v2"));
    assert!(!accepts(default, "quay.io/a/b:v1", "quay.io/a/b"));
    assert!(!accepts(default, &pinned, "quay.io/a/b"));
    assert!(!accepts(default, &pinned, "quay.io/a/c:v7"));
    // The tag beside a digest is for display only.
    let both = format!("quay.io/a/b:v1@{DIGEST}");
    assert!(accepts(default, &both, "quay.io/a/b:v7"));
}

#[test]
fn a_repository_is_the_whole_repository_and_no_other() {
    let repository = r#"{"type": "matchRepository"}"#;
    for signed in ["quay.io/a/b", "quay.io/a/b:v9"] {
        assert!(accepts(repository, "quay.io/a/b:v1", signed), "{signed}");
    }
    for signed in ["quay.io/a/bb", "quay.io/a", "evil.io/a/b", "a/b", "", "::"] {
        assert!(!accepts(repository, "quay.io/a/b:v1", signed), "{signed}");
    }
    // cosign's name for Docker Hub.
    assert!(accepts(
        repository,
        "docker.io/library/busybox:1",
        "index.docker.io/library/busybox"
    ));
}

#[test]
fn a_policy_can_name_what_is_signed_elsewhere() {
    let reference = r#"{"type": "exactReference", "dockerReference": "vendor.com/app:v1"}"#;
    assert!(accepts(reference, "mirror.local/x:1", "vendor.com/app:v1"));
    assert!(!accepts(reference, "mirror.local/x:1", "vendor.com/app:v2"));
    let repository = r#"{"type": "exactRepository", "dockerRepository": "vendor.com/app"}"#;
    assert!(accepts(repository, "mirror.local/x:1", "vendor.com/app:v2"));
    assert!(!accepts(repository, "mirror.local/x:1", "mirror.local/x:1"));
}

#[test]
fn a_prefix_is_replaced_at_its_slash_and_at_its_beginning_only() {
    let remap = r#"{"type": "remapIdentity", "prefix": "mirror:5000/vendor", "signedPrefix": "vendor.com"}"#;
    assert!(accepts(
        remap,
        "mirror:5000/vendor/app/web:v1",
        "vendor.com/app/web:v1"
    ));
    assert!(!accepts(
        remap,
        "mirror:5000/vendor/app/web:v1",
        "vendor.com/app/web"
    ));
    assert!(!accepts(
        remap,
        "mirror:5000/vendors/app:v1",
        "vendor.coms/app:v1"
    ));
    // Elsewhere nothing is replaced.
    assert!(accepts(remap, "quay.io/a/b:v1", "quay.io/a/b:v1"));
}

#[test]
fn what_is_malformed_is_refused() {
    for json in [
        "{}",
        "[]",
        r#""matchExact""#,
        r#"{"type": "matchAnything"}"#,
        r#"{"type": "matchExact", "prefix": "a"}"#,
        r#"{"type": "matchExact", "type": "matchRepository"}"#,
        r#"{"type": "exactReference"}"#,
        r#"{"type": "exactReference", "dockerReference": "quay.io/a/b"}"#,
        r#"{"type": "exactReference", "dockerReference": null}"#,
        r#"{"type": "exactReference", "dockerReference": "busybox:1"}"#,
        r#"{"type": "exactRepository", "dockerRepository": "quay.io/a/b:v1"}"#,
        r#"{"type": "remapIdentity", "prefix": "quay.io"}"#,
        r#"{"type": "remapIdentity", "prefix": "", "signedPrefix": "a.io"}"#,
        r#"{"type": "remapIdentity", "prefix": "a.io/b:v1", "signedPrefix": "a.io"}"#,
    ] {
        assert!(parse(json).is_err(), "{json} was accepted");
    }
}

#[test]
fn a_refusal_says_what_cosign_does() {
    let identity = SignedIdentity::RepoDigestOrExact;
    let why = identity
        .accepts(&"quay.io/a/b:v1".parse().unwrap(), "quay.io/a/b")
        .unwrap_err();
    assert!(why.contains("matchRepository"), "{why}");
}
