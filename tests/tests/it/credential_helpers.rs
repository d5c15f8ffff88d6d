//! The daemon's own credentials: helpers are run once they are needed, and a file that is corrected is
//! used at once.

use crate::credentials::next_retry;
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::SystemTime};

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Auth, ScriptedRegistry},
};
use serde_json::json;

fn image() -> Image {
    Image::new().layer(Layer::gzip().file("secret", "sauce"))
}

/// A program that is this shell script; each run leaves a line in `runs` beside it.
pub(crate) fn program(path: &Path, script: &str) {
    let text = format!("#!/bin/sh\necho run >> \"$(dirname \"$0\")/runs\"\n{script}\n");
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// How often the programs of a directory ran.
pub(crate) fn runs(directory: &Path) -> usize {
    fs::read_to_string(directory.join("runs")).map_or(0, |runs| runs.lines().count())
}

/// A puller with a config and a helper, `vault`, that is this script.
async fn with_helper(directory: &Path, script: &str, config: &serde_json::Value) -> Puller {
    program(&directory.join("docker-credential-vault"), script);
    let file = directory.join("config.json");
    fs::write(&file, config.to_string()).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    Puller::start()
        .flag("--docker-config", file.to_str().unwrap())
        .environment("PATH", format!("{}:{path}", directory.display()))
        .await
}

#[tokio::test]
async fn a_helper_gives_the_password() {
    let registry = ScriptedRegistry::start().auth(Auth::basic("user", "right")).await;
    let reference = registry.hold("team/app:v1", image());
    let directory = tempfile::tempdir().unwrap();
    let config = json!({ "credHelpers": { registry.host(): "vault" }, "credsStore": ["of a wrong type"] });
    let script = r#"echo '{"Username":"user","Secret":"right"}'"#;
    let puller = with_helper(directory.path(), script, &config).await;

    let image = puller.pull(&reference).await;
    assert_eq!(image.phase(), Phase::Unpacked);
    let log = puller.log();
    assert!(!log.contains("right"), "the password is in the log");
    assert!(
        log.contains("credsStore"),
        "nothing is said of what is ignored: {log}"
    );
}

#[tokio::test]
async fn no_helper_is_asked_for_a_public_image() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image());
    let directory = tempfile::tempdir().unwrap();
    let puller = with_helper(directory.path(), "sleep 600", &json!({ "credsStore": "vault" })).await;
    let image = puller.pull(&reference).await;
    assert_eq!(image.phase(), Phase::Unpacked);
    assert_eq!(runs(directory.path()), 0);
}

#[tokio::test]
async fn a_helper_that_hangs_costs_its_wait_once() {
    let registry = ScriptedRegistry::start().auth(Auth::basic("user", "right")).await;
    let layers = |n: &str| image().layer(Layer::gzip().file(n, "x"));
    let references = ["team/app:v1", "team/other:v1"].map(|name| registry.hold(name, layers(name)));
    let directory = tempfile::tempdir().unwrap();
    let config = json!({
        "credsStore": "vault",
        "auths": { registry.host(): { "username": "user", "password": "right" } },
    });
    let puller = with_helper(directory.path(), "sleep 600", &config).await;
    for reference in &references {
        assert_eq!(puller.pull(reference).await.phase(), Phase::Unpacked);
    }
    assert_eq!(runs(directory.path()), 1);
}

#[tokio::test]
async fn a_file_that_is_corrected_ends_the_back_off() {
    let registry = ScriptedRegistry::start().auth(Auth::basic("user", "right")).await;
    let reference = registry.hold("team/app:v1", image());
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.json");
    let write = |password: &str| {
        let auths = json!({ "auths": { registry.host(): { "username": "user", "password": password } } });
        fs::write(&config, auths.to_string()).unwrap();
    };
    write("wrong");
    let puller = Puller::start()
        .flag("--docker-config", config.to_str().unwrap())
        .await;

    let fetched = puller.fetch(&reference).await;
    let seconds = std::time::Duration::from_secs(10);
    let waiting = puller.wait_for(&fetched.id, "a back-off of many seconds", |image| {
        next_retry(image).is_some_and(|next| next > SystemTime::now() + seconds)
    });
    let waiting = waiting.await;
    assert_eq!(
        waiting
            .last_error
            .as_ref()
            .map(puller_api::v1::AttemptError::reason),
        Some(Reason::Unauthorized)
    );
    write("right");
    puller.unpacked(&fetched.id).await;
    assert!(
        next_retry(&waiting).is_some_and(|next| SystemTime::now() < next),
        "the back-off was waited for"
    );
}
