//! The same thing is downloaded once, however many ask for it.

use puller_tests::{
    image::{Image, Index, Layer},
    puller::Puller,
    registry::DockerRegistry,
    scripted::{Get, Head, ScriptedRegistry, Throttle},
    tree::Tree,
};

#[tokio::test]
async fn a_hundred_fetches_at_once_are_one_pull() {
    let registry = DockerRegistry::start().await;
    let image = Image::new()
        .layer(Layer::gzip().noise(20, 20_000))
        .layer(Layer::zstd().noise(20, 20_000));
    let other = Image::new()
        .platform("linux", "s390x")
        .layer(Layer::gzip().file("other", ""));
    let index = Index::new().image(&other).image(&image).attestation(&image);
    let reference = registry.push("team/app:v1", &index).await;
    let puller = Puller::start().await;

    let fetches = (0..100).map(|n| tokio::spawn(puller.fetch(&reference).claimant(&format!("c{n}")).send()));
    let fetches: Vec<_> = fetches.collect();
    let mut ids = Vec::new();
    for fetch in fetches {
        ids.push(fetch.await.expect("a Fetch ends").expect("it is accepted").id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one wish has several Images: {ids:?}");
    let unpacked = puller.unpacked(&ids[0]).await;
    assert_eq!(unpacked.claims.len(), 100);
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));

    let log = registry.log().await;
    assert_eq!(
        log.gets_of_tag("v1") + log.gets_of(&index.digest()),
        1,
        "GETs of the index"
    );
    assert_eq!(log.gets_of(&image.digest()), 1, "GETs of the manifest");
    for blob in [
        image.config().digest,
        image.layers()[0].blob.digest.clone(),
        image.layers()[1].blob.digest.clone(),
    ] {
        assert_eq!(log.gets_of(&blob), 1, "GETs of {blob}");
    }
    assert_eq!(log.gets(), 5, "{:#?}", log.lines);
}

#[tokio::test]
async fn a_layer_of_two_images_that_are_pulled_together_is_downloaded_once() {
    let registry = ScriptedRegistry::start().await;
    let shared = Layer::gzip().noise(20, 20_000).build();
    let one = Image::new().layer(&shared).layer(Layer::gzip().file("one", "1"));
    let two = Image::new().layer(&shared).layer(Layer::gzip().file("two", "2"));
    // Long enough that the second comes while the first is at it, and always moving: a layer that stands
    // still would be fetched by the second for itself.
    registry
        .on(Get::blob(shared.digest()))
        .then(Throttle::to(100_000));
    let (first, second) = (
        registry.hold("team/app:one", &one),
        registry.hold("team/app:two", &two),
    );
    let puller = Puller::start().await;

    let first = puller.fetch(&first).await;
    registry.wait_for(Get::blob(shared.digest())).await;
    let second = puller.fetch(&second).await;
    registry.wait_for(Get::blob(two.layers()[1].digest())).await;

    for (id, image) in [(first.id, &one), (second.id, &two)] {
        let unpacked = puller.unpacked(&id).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(image));
    }
    assert_eq!(registry.count(Get::blob(shared.digest())), 1);
}

#[tokio::test]
async fn another_repository_is_asked_before_its_layer_is_borrowed() {
    let registry = ScriptedRegistry::start().await;
    let shared = Layer::gzip().noise(20, 20_000).build();
    let image = Image::new().layer(&shared);
    // Long enough that the second comes while the first is at it, and always moving: a layer that stands
    // still would be fetched by the second for itself.
    registry
        .on(Get::blob(shared.digest()))
        .then(Throttle::to(100_000));
    let (first, second) = (
        registry.hold("team/one:v1", &image),
        registry.hold("team/two:v1", &image),
    );
    let puller = Puller::start().await;

    let first = puller.fetch(&first).await;
    registry.wait_for(Get::blob(shared.digest())).await;
    let second = puller.fetch(&second).await;

    puller.unpacked(&first.id).await;
    puller.unpacked(&second.id).await;
    assert_eq!(registry.count(Head::blob(shared.digest()).of("team/two")), 1);
    assert_eq!(registry.count(Head::blob(shared.digest()).of("team/one")), 0);
    assert_eq!(registry.count(Get::blob(shared.digest())), 1);
    assert_eq!(registry.count(Get::manifests().of("team/two")), 1);
}
