//! Registries that answer oddly: the pull gets there, or says why not.

use std::time::{Duration, SystemTime};

use puller_tests::{
    image::{Artifact, Image, Index, Layer},
    puller::{Puller, Reason},
    scripted::{Answer, Any, Cut, Get, Head, Lie, Ranges, Redirect, ScriptedRegistry, Without},
    tree::{Tree, file},
};

fn image() -> Image {
    Image::new().layer(Layer::gzip().noise(10, 50_000))
}

#[tokio::test]
async fn a_cut_body_goes_on_where_it_was_within_the_attempt() {
    let registry = ScriptedRegistry::start().await;
    let image = image();
    let layer = image.layers()[0].digest();
    registry.on(Get::blob(layer)).times(3).then(Cut::after(100_000));
    let puller = Puller::start().await;
    let unpacked = puller.pull(&registry.hold("team/app:v1", &image)).await;
    assert_eq!(unpacked.attempt, 1);
    let ranges: Vec<_> = registry
        .requests_for(Get::blob(layer))
        .iter()
        .map(|request| request.header("range").to_owned())
        .collect();
    assert_eq!(ranges, ["", "bytes=100000-", "bytes=200000-", "bytes=300000-"]);
}

#[tokio::test]
async fn ranges_that_are_treated_wrongly_do_no_harm() {
    for range in [
        Ranges::ignored(),
        Ranges::shifted_by(10),
        Ranges::mislabelled_by(10),
        Answer::status(416),
    ] {
        let registry = ScriptedRegistry::start().await;
        let image = image();
        let layer = image.layers()[0].digest();
        registry.on(Get::blob(layer)).times(1).then(Cut::after(100_000));
        registry
            .on(Get::blob(layer).ranged())
            .times(1)
            .then(range.clone());
        let puller = Puller::start().await;
        let unpacked = puller.pull(&registry.hold("team/app:v1", &image)).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
    }
}

#[tokio::test]
async fn registries_that_say_less_than_they_should_are_understood() {
    let registry = ScriptedRegistry::start().await;
    registry.on(Head::manifests()).then(Answer::status(405));
    registry
        .on(Get::manifests())
        .then(Without::digest_header())
        .and(Lie::content_type("text/plain"));
    registry
        .on(Get::blobs())
        .then(Without::content_length())
        .and(Without::header("content-type"));
    let image = image();
    let puller = Puller::start().await;
    let unpacked = puller.pull(&registry.hold("team/app:v1", &image)).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
}

#[tokio::test]
async fn a_redirect_is_followed_without_the_credentials() {
    let storage = ScriptedRegistry::start().await;
    let registry = ScriptedRegistry::start()
        .auth(puller_tests::scripted::Auth::bearer("user", "secret"))
        .await;
    let image = image();
    let layer = image.layers()[0].digest();
    storage.hold("store/app:v1", &image);
    registry
        .on(Get::blob(layer))
        .then(Redirect::to(&storage.blob_url("store/app", layer)));
    let puller = Puller::start().await;
    let fetched = puller
        .fetch(&registry.hold("team/app:v1", &image))
        .login(&registry.host(), "user", "secret")
        .await;
    puller.unpacked(&fetched.id).await;
    let followed = storage.wait_for(Get::blob(layer)).await;
    assert_eq!(
        followed.header("authorization"),
        "",
        "the token went to another host"
    );
}

#[tokio::test]
async fn a_pause_that_is_asked_for_is_kept() {
    let registry = ScriptedRegistry::start().await;
    registry
        .on(Any::manifests())
        .times(1)
        .then(Answer::retry_after("4"));
    let puller = Puller::start().await;
    let fetched = puller.fetch(&registry.hold("team/app:v1", image())).await;
    let retrying = puller.retrying(&fetched.id).await;
    let error = retrying.last_error.as_ref().expect("an error");
    assert_eq!(error.reason(), Reason::RateLimited);
    let failed = SystemTime::try_from(error.time.expect("a time")).expect("a time");
    let next = SystemTime::try_from(retrying.next_retry.expect("a next retry")).expect("a time");
    let pause = next.duration_since(failed).expect("it is later");
    assert!(
        pause >= Duration::from_millis(3900),
        "the next try comes after {pause:?}"
    );
    puller.unpacked(&fetched.id).await;
}

#[tokio::test]
async fn every_failure_has_its_reason() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let reference = |name: &str| registry.hold(name, image());
    for (name, behaviour, reason) in [
        ("reason/forbidden:v1", Answer::status(403), Reason::Forbidden),
        ("reason/missing:v1", Answer::status(404), Reason::NotFound),
        ("reason/broken:v1", Answer::status(500), Reason::RegistryError),
        ("reason/reset:v1", Cut::reset(), Reason::Network),
    ] {
        let repository = name.split(':').next().expect("a repository");
        registry.on(Any::manifests().of(repository)).then(behaviour);
        let fetched = puller.fetch(&reference(name)).await;
        let retrying = puller.retrying(&fetched.id).await;
        let error = retrying.last_error.expect("an error");
        assert_eq!(error.reason(), reason, "{name}: {}", error.message);
        assert!(
            error.message.contains(&registry.host()),
            "{name}: {}",
            error.message
        );
        assert!(!retrying.message.is_empty());
    }

    let elsewhere = Index::new().image(&image().platform("plan9", "mips"));
    let fetched = puller
        .fetch(&registry.hold("reason/platform:v1", &elsewhere))
        .await;
    let failed = puller.failed(&fetched.id).await;
    assert_eq!(
        failed.last_error.expect("an error").reason(),
        Reason::PlatformNotFound
    );

    let fetched = puller
        .fetch(&reference("reason/selection:v1"))
        .path("/not/there")
        .await;
    let failed = puller.failed(&fetched.id).await;
    assert_eq!(
        failed.last_error.expect("an error").reason(),
        Reason::SelectionNotFound
    );
}

#[tokio::test]
async fn a_page_of_a_proxy_is_quoted_and_not_unpacked() {
    let registry = ScriptedRegistry::start().await;
    registry.on(Get::blobs()).times(2).then(Lie::html());
    let puller = Puller::start().await;
    let fetched = puller.fetch(&registry.hold("team/app:v1", image())).await;
    puller.retrying(&fetched.id).await;
    let unpacked = puller.unpacked(&fetched.id).await;
    assert!(unpacked.attempts[0].reason() != Reason::Unspecified);
}

#[tokio::test]
async fn images_of_every_make_are_unpacked() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let layers = || {
        Image::new()
            .layer(Layer::gzip().members(3).file("gzip", "1").file("gone", ""))
            .layer(Layer::zstd().members(2).file("zstd", "2"))
            .layer(Layer::plain().file("plain", "3").whiteout("gone"))
    };
    let expected = Tree::expected([("gzip", file("1")), ("plain", file("3")), ("zstd", file("2"))]);
    let index = Index::new()
        .image(&Image::new().platform("linux", "s390x"))
        .image(&layers())
        .attestation(&layers());
    for reference in [
        registry.hold("make/oci:v1", layers()),
        registry.hold("make/docker:v1", layers().docker()),
        registry.hold("make/index:v1", &index),
        registry.hold("make/list:v1", index.clone().docker()),
    ] {
        let unpacked = puller.pull(&reference).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&expected);
    }

    let artifact = Artifact::new("application/x.chart")
        .file("chart.yaml", "application/yaml", "name: chart\n")
        .layer(Layer::gzip().file("templates/a.yaml", "a"));
    let unpacked = puller.pull(&registry.hold("make/artifact:v1", &artifact)).await;
    let tree = Tree::of(puller.content(&unpacked));
    assert_eq!(tree.get("chart.yaml"), Some(&file("name: chart\n")));
    assert_eq!(tree.get("templates/a.yaml"), Some(&file("a")));
}
