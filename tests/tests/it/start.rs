//! Starting: a clear error and exit code, never a hang; and the command line against what runs.

use std::{fs, time::Duration};

use puller_tests::{
    image::{Image, Layer},
    puller::{self, Phase, Puller},
    scripted::{Answer, Any, ScriptedRegistry},
    tree::{Tree, file},
};

/// The exit codes that the README documents.
const VOLUME: i32 = 22;
const LISTEN: i32 = 23;
const CONFIG: i32 = 64;

#[tokio::test]
async fn a_second_puller_on_a_volume_is_refused() {
    let first = Puller::start().await;
    let (status, words) = Puller::start().volume(first.volume()).fails().await;
    assert_eq!(status, VOLUME, "{words}");
    assert!(
        words.contains(&first.pid().to_string()),
        "it does not say who has it: {words}"
    );
}

#[tokio::test]
async fn a_volume_that_is_no_directory_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let (status, words) = Puller::start().volume(file.path()).fails().await;
    assert_eq!(status, VOLUME, "{words}");
    assert!(words.contains(&file.path().display().to_string()), "{words}");
}

#[tokio::test]
async fn a_live_socket_is_an_error_and_a_stale_one_is_replaced() {
    let mut first = Puller::start().await;
    let (status, words) = Puller::start().socket(first.socket()).fails().await;
    assert_eq!(status, LISTEN, "{words}");
    first.kill().await;
    assert!(first.socket().exists(), "kill -9 leaves the socket");
    first.start_again().await;
}

#[tokio::test]
async fn a_wrong_setting_is_named() {
    let (status, words) = Puller::start().flag("--idle-timeout", "soon").fails().await;
    assert_eq!(status, CONFIG, "{words}");
    assert!(
        words.contains("idle-timeout") && words.contains("soon"),
        "{words}"
    );
    let (status, words) = Puller::start()
        .environment("PULLER_MAX_PULLS", "many")
        .fails()
        .await;
    assert_eq!(status, CONFIG, "{words}");
    assert!(words.contains("PULLER_MAX_PULLS"), "{words}");
}

#[tokio::test]
async fn the_command_line_fetches_shows_and_releases() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", Image::new().layer(Layer::gzip().file("a", "b")));
    let puller = Puller::start().grace_period(Duration::ZERO).await;
    let fetched = puller.cli(["fetch", &reference]).await;
    assert_eq!(fetched.status, 0, "{}", fetched.stderr);
    let id = puller.list().await[0].id.clone();
    puller.unpacked(&id).await;
    let got = puller.cli(["get", &id, "-o", "json"]).await;
    assert!(got.stdout.contains("UNPACKED"), "{}", got.stdout);
    let listed = puller.cli(["list"]).await;
    assert!(listed.stdout.contains(&reference), "{}", listed.stdout);
    assert_eq!(puller.cli(["release", &id]).await.status, 0);
    assert_ne!(puller.cli(["get", "no-such-id"]).await.status, 0);
}

#[tokio::test]
async fn pull_needs_no_daemon_and_leaves_a_directory_alone_when_it_fails() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", Image::new().layer(Layer::gzip().file("a", "b")));
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let to = directory.path().join("tree");
    let to_text = to.display().to_string();
    // Whatever this machine has for a policy.
    let policy = directory.path().join("none.json").display().to_string();
    let pulled = puller::cli(["pull", &reference, "--to", &to_text, "--policy", &policy]).await;
    assert_eq!(pulled.status, 0, "{}", pulled.stderr);
    Tree::of(&to)
        .with_published_modes()
        .assert_same_as(&Tree::expected([("a", file("b"))]));

    registry.on(Any::manifests()).then(Answer::status(404));
    let missing = registry.reference("team/app:v2");
    let target = ["pull", &missing, "--to", &to_text, "--replace"];
    let arguments = [&target[..], &["--attempts", "2", "--policy", &policy]].concat();
    let failed = puller::cli(arguments).await;
    assert_ne!(failed.status, 0);
    assert!(failed.stderr.contains("not found"), "{}", failed.stderr);
    assert_eq!(fs::read(to.join("a")).expect("it is as it was"), b"b");
}

#[tokio::test]
async fn a_released_image_goes_after_the_grace_period_and_a_fetch_in_it_revives_it() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", Image::new().layer(Layer::gzip().file("a", "b")));
    let puller = Puller::start().grace_period(Duration::from_secs(2)).await;
    let image = puller.pull(&reference).await;
    let content = puller.content(&image);
    puller.release(&image.id, "scenario").await;
    let revived = puller.fetch(&reference).await;
    assert_eq!(
        (revived.id.as_str(), revived.phase()),
        (image.id.as_str(), Phase::Unpacked)
    );
    puller.release(&image.id, "scenario").await;
    puller.gone(&image.id).await;
    puller_tests::wait::eventually("the content's end", || (!content.exists()).then_some(())).await;
}
