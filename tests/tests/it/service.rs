//! What other pullers' users have run into, as far as it is about the service and not about registries or
//! layers (S01, S03). S02 is in `credentials`, S04 to S06 are in `crashes`, S08 in `freshness`.

use std::time::Duration;

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Answer, Any, Cut, Get, ScriptedRegistry},
    tree::Tree,
};

fn image() -> Image {
    Image::new().layer(Layer::gzip().file("a/one", "1").file("b/two", "2"))
}

/// How soon a failure is to be seen.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test]
async fn s01_a_watch_tells_the_first_failure_within_a_second() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let watcher = puller.watch().await;
    let layer = image().layers()[0].digest().to_owned();
    for (name, matcher, failure, reason) in [
        ("missing", Any::manifests(), Answer::status(404), Reason::NotFound),
        (
            "forbidden",
            Any::manifests(),
            Answer::status(403),
            Reason::Forbidden,
        ),
        (
            "broken",
            Any::manifests(),
            Answer::status(500),
            Reason::RegistryError,
        ),
        ("reset", Any::manifests(), Cut::reset(), Reason::Network),
        (
            "layer",
            Any::blob(&layer),
            Answer::status(502),
            Reason::RegistryError,
        ),
    ] {
        let repository = format!("soon/{name}");
        registry.on(matcher.of(&repository)).then(failure);
        let fetched = puller
            .fetch(&registry.hold(&format!("{repository}:v1"), image()))
            .await;
        let seen = watcher.wait_for_image(&fetched.id, "an error", |image| image.last_error.is_some());
        let seen = tokio::time::timeout(SOON, seen).await;
        let seen = seen.unwrap_or_else(|_| panic!("{name}: nothing was told for {SOON:?}"));
        let error = seen.last_error.as_ref().expect("an error");
        assert_eq!(error.reason(), reason, "{}", error.message);
        assert!(!seen.message.is_empty() && seen.next_retry.is_some(), "{seen:#?}");
    }
}

#[tokio::test]
async fn s03_what_is_there_already_is_a_success_at_once() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image());
    let puller = Puller::start().await;
    let first = puller.pull(&reference).await;
    registry.forget_requests();
    let again = puller.fetch(&reference).claimant("another").await;
    assert_eq!((again.phase(), again.id), (Phase::Unpacked, first.id.clone()));
    assert_eq!(registry.count(Any::anything()), 0);
    // The same content by another name: nothing is downloaded, and nothing is unpacked.
    let pinned = format!("{}/team/app@{}", registry.host(), image().digest());
    let unpacked = puller.pull(&pinned).await;
    assert_eq!(
        unpacked.content.expect("content").path,
        first.content.expect("content").path
    );
    assert_eq!(registry.count(Get::blob(image().layers()[0].digest())), 0);
}

#[tokio::test]
async fn s03_other_parameters_of_what_has_ended_are_honoured() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image());
    let puller = Puller::start().await;
    let whole = puller.pull(&reference).await;
    // Of what was unpacked.
    let part = puller.fetch(&reference).path("/a").await;
    assert_ne!(part.id, whole.id);
    let part = puller.unpacked(&part.id).await;
    holds_only(&Tree::of(puller.content(&part)), "a/one", "b/two");
    // Of what has failed.
    let nothing = puller.fetch(&reference).path("/nothing").await;
    puller.failed(&nothing.id).await;
    let other = puller.fetch(&reference).path("/b").await;
    let other = puller.unpacked(&other.id).await;
    holds_only(&Tree::of(puller.content(&other)), "b/two", "a/one");
    assert_eq!(puller.get(&nothing.id).await.phase(), Phase::Failed);
    // Of what is tried again and again.
    registry
        .on(Any::manifests().of("team/slow"))
        .then(Answer::status(500));
    let fetched = puller.fetch(&registry.hold("team/slow:v1", image())).await;
    puller.retrying(&fetched.id).await;
    registry.behave();
    let part = puller.fetch(&registry.reference("team/slow:v1")).path("/a").await;
    assert_eq!(puller.unpacked(&part.id).await.attempt, 1);
}

fn holds_only(tree: &Tree, wanted: &str, unwanted: &str) {
    assert!(tree.get(wanted).is_some(), "{tree:?}");
    assert!(tree.get(unwanted).is_none(), "{tree:?}");
}
