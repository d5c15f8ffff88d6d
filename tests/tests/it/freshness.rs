//! Tags that move: checked when a Fetch wants it, never a hole, never a loop.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use puller_tests::{
    image::{self, Layer},
    puller::{Image, Phase, Puller, Reason},
    scripted::{Answer, Any, Get, Head, ScriptedRegistry},
    tree::Tree,
};

/// The shortest age that the puller lets a Fetch ask for; shorter ones count as this.
const LEAST_AGE: Duration = Duration::from_secs(10);

fn image(text: &str) -> image::Image {
    image::Image::new().layer(Layer::gzip().file("version", text))
}

fn checked(image: &Image) -> SystemTime {
    let checked = image
        .resolution
        .as_ref()
        .and_then(|resolution| resolution.checked);
    SystemTime::try_from(checked.expect("a resolved tag was checked")).expect("a time")
}

/// Waits until the last check is older than any Fetch may ask for.
async fn grow_old(image: &Image) {
    let old = checked(image) + LEAST_AGE + Duration::from_millis(100);
    let left = old.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(left).await;
}

#[tokio::test]
async fn a_moved_tag_is_replaced_without_a_hole() {
    let registry = ScriptedRegistry::start().await;
    let (old, new) = (image("old"), image("new"));
    let reference = registry.hold("team/app:v1", &old);
    let puller = Puller::start().await;
    let first = puller.pull(&reference).await;
    let old_path = puller.content(&first);
    registry.hold("team/app:v1", &new);

    // Checked a moment ago: too young for even the most impatient.
    registry.forget_requests();
    let same = puller.fetch(&reference).max_age(Duration::ZERO).await;
    assert_eq!(
        (same.id.as_str(), same.phase()),
        (first.id.as_str(), Phase::Unpacked)
    );
    grow_old(&first).await;
    puller.fetch(&reference).await;
    assert_eq!(registry.count(Any::anything()), 0, "nobody wanted a check");

    let watcher = puller.watch().only(&first.id).await;
    watcher.synced().await;
    puller.fetch(&reference).max_age(LEAST_AGE).await;
    let replaced = watcher
        .wait_for_image(&first.id, "the new content", |image| {
            image
                .content
                .as_ref()
                .is_some_and(|content| content.manifest_digest == new.digest())
        })
        .await;
    for state in watcher.states_of(&first.id) {
        let path: PathBuf = puller.content(&state);
        assert!(path.join("version").is_file(), "a hole at {}", path.display());
    }
    Tree::of(puller.content(&replaced)).assert_same_as(&Tree::of_image(&new));
    assert_eq!(replaced.resolution.expect("a resolution").digest, new.digest());
    Tree::of(old_path).assert_same_as(&Tree::of_image(&old));
}

/// S08.
#[tokio::test]
async fn an_unchanged_tag_costs_one_head_however_many_ask() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image("same"));
    let puller = Puller::start().await;
    let first = puller.pull(&reference).await;
    grow_old(&first).await;
    registry.forget_requests();

    let watcher = puller.watch().only(&first.id).await;
    watcher.synced().await;
    for n in 0..5 {
        puller
            .fetch(&reference)
            .claimant(&format!("c{n}"))
            .max_age(LEAST_AGE)
            .await;
    }
    let again = watcher
        .wait_for_image(&first.id, "a later check", |image| {
            checked(image) > checked(&first)
        })
        .await;
    assert_eq!(again.content, first.content);
    assert_eq!(watcher.phases_of(&first.id), [Phase::Unpacked]);
    assert_eq!(registry.count(Head::manifest("v1")), 1);
    assert_eq!(registry.count(Get::anything()), 0);
}

#[tokio::test]
async fn a_check_that_fails_backs_off_and_the_content_stays() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image("same"));
    let puller = Puller::start().await;
    let first = puller.pull(&reference).await;
    grow_old(&first).await;
    registry.on(Any::manifests()).then(Answer::status(500));
    registry.forget_requests();

    puller.fetch(&reference).max_age(LEAST_AGE).await;
    let failed = puller
        .wait_for(&first.id, "the error of the check", |image| {
            image.last_error.is_some()
        })
        .await;
    assert_eq!(
        failed.last_error.as_ref().expect("an error").reason(),
        Reason::RegistryError
    );
    assert_eq!(failed.content, first.content);
    // The back-offs are 1, 2 and 4 s at most, so a few checks fit into this time; a loop makes hundreds.
    for _ in 0..50 {
        puller.fetch(&reference).max_age(LEAST_AGE).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let checks = registry.count(Head::manifest("v1"));
    assert!(checks < 20, "{checks} checks in five seconds");

    registry.behave();
    puller
        .wait_for(&first.id, "a good check", |image| {
            image.last_error.is_none() && checked(image) > checked(&first)
        })
        .await;
}
