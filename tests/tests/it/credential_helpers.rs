//! The daemon's own credentials: helpers are run, and a file that is corrected is used at once.

use crate::credentials::next_retry;
use std::{fs, os::unix::fs::PermissionsExt as _, time::SystemTime};

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Auth, ScriptedRegistry},
};
use serde_json::json;

fn image() -> Image {
    Image::new().layer(Layer::gzip().file("secret", "sauce"))
}

#[tokio::test]
async fn a_helper_gives_the_password() {
    let registry = ScriptedRegistry::start().auth(Auth::basic("user", "right")).await;
    let reference = registry.hold("team/app:v1", image());
    let directory = tempfile::tempdir().unwrap();
    let helper = directory.path().join("docker-credential-vault");
    fs::write(
        &helper,
        "#!/bin/sh\necho '{\"Username\":\"user\",\"Secret\":\"right\"}'\n",
    )
    .unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    let config = directory.path().join("config.json");
    let helpers = json!({ "credHelpers": { registry.host(): "vault" } });
    fs::write(&config, helpers.to_string()).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let puller = Puller::start()
        .flag("--docker-config", config.to_str().unwrap())
        .environment("PATH", format!("{}:{path}", directory.path().display()))
        .await;

    let image = puller.pull(&reference).await;
    assert_eq!(image.phase(), Phase::Unpacked);
    assert!(!puller.log().contains("right"), "the password is in the log");
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
