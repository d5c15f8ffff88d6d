use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use proptest::prelude::*;

use super::*;
use crate::domain::Secret;

/// Makes a shell script.
pub(super) fn executable(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(super) fn login(username: &str, password: &str) -> Credential {
    Credential::Login {
        username: username.into(),
        password: Secret::new(password.into()),
    }
}

/// A config that has one login for each key, the key being the user name.
fn config_of(keys: &[&str]) -> String {
    let auths: serde_json::Map<_, _> = keys
        .iter()
        .map(|&key| {
            (
                key.to_owned(),
                serde_json::json!({"username": key, "password": "p"}),
            )
        })
        .collect();
    serde_json::json!({ "auths": auths }).to_string()
}

fn candidates(keyring: &Keyring, scope: &Scope, registry: &str, repository: &str) -> Option<Vec<Credential>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime
        .unwrap()
        .block_on(keyring.lookup(scope, registry, repository))?;
    Some(found.credentials)
}

fn users(keyring: &Keyring, scope: &Scope, registry: &str, repository: &str) -> Vec<String> {
    let found = candidates(keyring, scope, registry, repository).unwrap();
    let name = |credential: Credential| match credential {
        Credential::Login { username, .. } => username,
        other => panic!("{other:?}"),
    };
    found.into_iter().map(name).collect()
}

fn team() -> Scope {
    Scope("team".into())
}

fn with(config: &str) -> Keyring {
    let keyring = Keyring::new([]);
    keyring.set(&team(), config.as_bytes()).unwrap();
    keyring
}

#[test]
fn the_most_specific_entry_goes_first() {
    let keyring = with(&config_of(&[
        "https://quay.io",
        "quay.io",
        "quay.io/org",
        "quay.io/org/repo",
        "quay.io/organ",
        "quay.io/org/repo/deep",
        "quay.io:443",
        "other.io",
    ]));
    assert_eq!(
        users(&keyring, &team(), "quay.io", "org/repo"),
        ["quay.io/org/repo", "quay.io/org", "quay.io", "https://quay.io"]
    );
    assert_eq!(
        users(&keyring, &team(), "quay.io", "orga/x"),
        ["quay.io", "https://quay.io"]
    );
    assert_eq!(
        users(&keyring, &team(), "quay.io:443", "org/repo"),
        ["quay.io:443"]
    );
    assert!(users(&keyring, &team(), "xquay.io", "org/repo").is_empty());
}

#[test]
fn docker_hub_is_found_under_all_its_names() {
    let keyring = with(&config_of(&[
        "https://index.docker.io/v1/",
        "docker.io",
        "docker.io/library",
        "index.docker.io",
    ]));
    assert_eq!(
        users(&keyring, &team(), "docker.io", "library/nginx"),
        [
            "docker.io/library",
            "docker.io",
            "https://index.docker.io/v1/",
            "index.docker.io"
        ]
    );
    let keyring = with(&config_of(&["https://reg.io/v2/", "reg.io/v1/"]));
    assert_eq!(
        users(&keyring, &team(), "reg.io", "a"),
        ["https://reg.io/v2/", "reg.io/v1/"]
    );
}

#[test]
fn understands_each_kind_of_entry() {
    let keyring = with(
        r#"{"auths": {
            "a.io": {"auth": "dXNlcjpwYTpzcw=="},
            "b.io": {"auth": "dXNlcjpwYTpzcw"},
            "c.io": {"auth": "dXNlcjpw\nYTpzcw==\n", "username": "ignored"},
            "d.io": {"username": "user", "password": "pass", "email": "x"},
            "e.io": {"identitytoken": "refresh", "auth": "dXNlcjo="},
            "f.io": {"username": "<token>", "password": "refresh"},
            "g.io": {"registrytoken": "bearer"},
            "h.io": {}
        }, "HttpHeaders": {"x": "y"}}"#,
    );
    let of = |registry: &str| candidates(&keyring, &team(), registry, "x").unwrap();
    for registry in ["a.io", "b.io", "c.io"] {
        assert_eq!(of(registry), [login("user", "pa:ss")], "{registry}");
    }
    assert_eq!(of("d.io"), [login("user", "pass")]);
    for registry in ["e.io", "f.io"] {
        assert_eq!(
            of(registry),
            [Credential::Identity(Secret::new("refresh".into()))]
        );
    }
    assert_eq!(of("g.io"), [Credential::Registry(Secret::new("bearer".into()))]);
    assert!(of("h.io").is_empty());
    let older = with(r#"{"a.io": {"auth": "dXNlcjpwYTpzcw==", "email": "x"}}"#);
    assert_eq!(
        candidates(&older, &team(), "a.io", "x").unwrap(),
        [login("user", "pa:ss")]
    );
    let nothing = with("{}");
    assert_eq!(candidates(&nothing, &team(), "a.io", "x"), Some(vec![]));
}

#[test]
fn an_error_names_the_place_and_never_a_value() {
    let keyring = Keyring::new([]);
    for (config, part) in [
        ("hunter2", "not JSON"),
        (r#"["hunter2"]"#, "wrong type"),
        (r#"{"auths": {"a.io": "hunter2"}}"#, "wrong type"),
        (
            r#"{"auths": {"a.io": {"auth": "hunter2!"}}}"#,
            "the auth for a.io is not base64",
        ),
        (
            r#"{"auths": {"a.io": {"auth": "aHVudGVyMg=="}}}"#,
            "the auth for a.io has no colon",
        ),
        (
            r#"{"auths": {"a.io": {"registrytoken": "hunter2\n"}}}"#,
            "registrytoken for a.io",
        ),
    ] {
        let error = keyring.set(&team(), config.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{config}: {error}");
        assert!(
            !error.contains("hunter2") && !error.contains("aHVudGVyMg"),
            "{error}"
        );
    }
    assert!(!keyring.has(&team()));
    assert!(
        keyring
            .set(&Scope::default(), b"{}")
            .unwrap_err()
            .to_string()
            .contains("daemon")
    );
}

/// What people and tools write by hand.
#[test]
fn configs_of_the_field_are_understood() {
    let good = [login("user", "pass")];
    for config in [
        "\u{feff}{\"auths\": {\"a.io\": {\"username\": \"user\", \"password\": \"pass\"}}}\r\n",
        // `echo user:pass | base64`, the same of Windows, and one padded by Docker for Windows.
        r#"{"auths": {"a.io": {"auth": "dXNlcjpwYXNzCg=="}}}"#,
        r#"{"auths": {"a.io": {"auth": "dXNlcjpwYXNzDQo="}}}"#,
        r#"{"auths": {"a.io": {"auth": "dXNlcjpwYXNzAAA="}}}"#,
        r#"{"auths": {"a.io": {"auth": "dXNlcjpwYXNz\n", "email": null}}}"#,
        r#"{"auths": {"a.io": {"username": "user\n", "password": "pass\n"}}}"#,
        r#"{"auths": {" a.io/ ": {"username": "user", "password": "pass", "auth": ""}}}"#,
        r#"{"auths": {"HTTPS://A.IO": {"username": "user", "password": "pass", "auth": null}}}"#,
        r#"{"auths": {"http://a.io/v2/": {"username": "user", "password": "pass"}}}"#,
        r#"{"auths": {"a.io": {"username": "user", "password": "pass"}, "b.io": null, "c.io": {}}}"#,
        r#"{"auths": {"a.io": {"username": "user", "password": "pass", "identitytoken": ""}}, "proxies": 7}"#,
        r#"{"a.io": {"username": "user", "password": "pass"}, "detachKeys": "ctrl-q", "psFormat": null}"#,
        r#"{"auths": null, "a.io": {"username": "user", "password": "pass"}}"#,
    ] {
        let found = candidates(&with(config), &team(), "a.io", "team/app").unwrap();
        assert_eq!(found, good, "{config}");
    }
}

/// Whoever sends a config is told what is wrong with it; in a file that is shared by many, the others'
/// entries go on.
#[test]
fn a_bad_entry_of_a_file_takes_nobody_elses_credentials_away() {
    for bad in [
        r#"{"auth": "aHVudGVyMg=="}"#,
        r#"{"auth": "hunter2!"}"#,
        r#"{"auth": "/////w=="}"#,
        r#"{"registrytoken": "hunter2\n"}"#,
        r#""hunter2""#,
        r#"{"username": 7}"#,
    ] {
        let config = format!(
            r#"{{"auths": {{"bad.io": {bad}, "a.io": {{"username": "user", "password": "pass"}}}}}}"#
        );
        let error = Config::parse(config.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("bad.io"), "{bad}: {error}");
        let (_, ignored) = Config::parse_file(config.as_bytes()).unwrap();
        assert!(
            matches!(&ignored[..], [one] if one.contains("bad.io") && !one.contains("hunter2")),
            "{ignored:?}"
        );
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("config.json");
        fs::write(&file, config).unwrap();
        let keyring = Keyring::new([file]);
        assert_eq!(users(&keyring, &Scope::default(), "a.io", "x"), ["user"], "{bad}");
        assert!(users(&keyring, &Scope::default(), "bad.io", "x").is_empty());
    }
}

#[test]
fn helpers_of_a_wrong_type_do_not_spoil_the_rest() {
    for helpers in [
        r#""credsStore": 7"#,
        r#""credHelpers": ["x"]"#,
        r#""credsStore": {}, "credHelpers": {"a.io": null, "b.io": 1}"#,
    ] {
        let config = format!(r#"{{"auths": {{"a.io": {{"username": "u", "password": "p"}}}}, {helpers}}}"#);
        assert_eq!(users(&with(&config), &team(), "a.io", "x"), ["u"], "{helpers}");
        let (_, ignored) = Config::parse(config.as_bytes()).unwrap();
        assert!(!ignored.is_empty(), "{helpers}");
    }
    for alone in [
        r#"{"credsStore": ["x"]}"#,
        r#"{"credHelpers": {"auth": "x"}, "credsStore": [1]}"#,
    ] {
        assert_eq!(
            candidates(&with(alone), &team(), "a.io", "x"),
            Some(vec![]),
            "{alone}"
        );
    }
    let half = r#"{"credsStore": false, "credHelpers": {"a.io": "good", "b.io": 1}}"#;
    let (config, ignored) = Config::parse(half.as_bytes()).unwrap();
    assert_eq!(
        (config.helper("a.io"), config.helper("b.io")),
        (Some("good"), None)
    );
    assert_eq!(
        ignored,
        [
            "credHelpers for b.io, which is no text",
            "credsStore, which is no text"
        ]
    );
}

#[test]
fn scopes_do_not_mix() {
    let keyring = with(&config_of(&["a.io"]));
    let other = Scope("other".into());
    assert_eq!(candidates(&keyring, &other, "a.io", "x"), None);
    assert_eq!(candidates(&keyring, &Scope::default(), "a.io", "x"), Some(vec![]));
    assert!(keyring.has(&team()) && keyring.has(&Scope::default()) && !keyring.has(&other));
    keyring.forget(&team());
    assert_eq!(candidates(&keyring, &team(), "a.io", "x"), None);
}

#[test]
fn set_tells_whether_something_changed() {
    let keyring = Keyring::new([]);
    let set = |config: &str| keyring.set(&team(), config.as_bytes());
    assert_eq!(set(&config_of(&["a.io"])), Ok(true));
    assert_eq!(set(&format!(" {}", config_of(&["a.io"]))), Ok(false));
    assert_eq!(set(&config_of(&["b.io"])), Ok(true));
    assert!(set("nonsense").is_err());
    assert_eq!(users(&keyring, &team(), "b.io", "x"), ["b.io"]);
}

#[test]
fn the_daemons_files_are_merged_and_read_again_when_they_change() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let keyring = Keyring::new([first.clone(), second.clone()]);
    let daemon = Scope::default();
    assert!(users(&keyring, &daemon, "a.io", "x").is_empty());
    fs::write(&second, config_of(&["https://a.io", "a.io"])).unwrap();
    assert_eq!(users(&keyring, &daemon, "a.io", "x"), ["a.io", "https://a.io"]);
    fs::write(
        &first,
        r#"{"auths": {"a.io": {"username": "first", "password": "p"}}, "credsStore": "desktop"}"#,
    )
    .unwrap();
    assert_eq!(
        users(&keyring, &daemon, "a.io", "x"),
        ["first", "a.io", "https://a.io"]
    );
    // Half-written: what it held goes on to hold.
    fs::write(&first, r#"{"auths": {"#).unwrap();
    assert_eq!(
        users(&keyring, &daemon, "a.io", "x"),
        ["first", "a.io", "https://a.io"]
    );
    fs::remove_file(&first).unwrap();
    assert_eq!(users(&keyring, &daemon, "a.io", "x"), ["a.io", "https://a.io"]);
}

#[test]
fn a_keyring_prints_no_values() {
    let keyring = with(r#"{"auths": {"a.io": {"username": "user", "password": "hunter2"}}}"#);
    assert!(!format!("{keyring:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn any_login_is_read_back(username in "[^:\0\\p{C}<]{1,20}", password in "[^\0\r\n]{1,20}") {
        use base64::Engine as _;
        let auth = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
        let keyring = with(&serde_json::json!({"auths": {"a.io": {"auth": auth}}}).to_string());
        prop_assert_eq!(candidates(&keyring, &team(), "a.io", "x").unwrap(), [login(&username, &password)]);
    }

    #[test]
    fn nothing_makes_it_panic(config in "\\PC{0,80}", key in "\\PC{0,40}") {
        let keyring = Keyring::new([]);
        let _ = keyring.set(&team(), config.as_bytes());
        let _ = keyring.set(&team(), config_of(&[&key]).as_bytes());
        let _ = candidates(&keyring, &team(), &key, &config);
    }

    /// An entry with a path is for what is below the path, and for nothing else.
    #[test]
    fn a_path_never_widens(path in "[ab]{1,3}(/[ab]{1,3}){0,2}", repository in "[ab]{1,3}(/[ab]{1,3}){0,3}") {
        let keyring = with(&config_of(&[&format!("a.io/{path}")]));
        let below = repository == path || repository.starts_with(&format!("{path}/"));
        prop_assert_eq!(!users(&keyring, &team(), "a.io", &repository).is_empty(), below);
    }
}

#[test]
fn patterns_go_after_hosts_that_are_written_out() {
    let keyring = with(&config_of(&[
        "*.example.com",
        "*.example.com/org",
        "a*.example.com",
        "a.example.com",
        "*.*.com/other",
        "*.com",
    ]));
    assert_eq!(
        users(&keyring, &team(), "a.example.com", "org/repo"),
        [
            "a.example.com",
            "a*.example.com",
            "*.example.com/org",
            "*.example.com"
        ]
    );
}

#[test]
fn sees_that_a_file_has_changed_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    let keyring = Keyring::new([path.clone()]);
    assert!(!keyring.files_have_changed());
    std::fs::write(&path, config_of(&["x.io"])).unwrap();
    assert!(keyring.files_have_changed());
    assert!(!keyring.files_have_changed());
    std::fs::remove_file(&path).unwrap();
    assert!(keyring.files_have_changed());
}
