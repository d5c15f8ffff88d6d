//! Pulls that meet: on one layer, on one content, on one machine's threads and disk.

use std::{fs, path::Path};

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Get, Lie, ScriptedRegistry, Stall},
    tree::Tree,
    wait::eventually,
};

/// Files below a directory of the volume that only the puller may enter.
fn private(puller: &Puller, directory: &str) -> usize {
    fs::read_dir(puller.volume().join("private").join(directory))
        .expect("tests run as the puller's user")
        .count()
}

/// Threads of the puller now.
fn threads(puller: &Puller) -> usize {
    fs::read_dir(Path::new("/proc").join(puller.pid().to_string()).join("task"))
        .expect("the puller runs")
        .count()
}

#[tokio::test]
async fn a_registry_that_lies_about_a_layer_does_not_keep_it_from_another_one() {
    let (liar, honest) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let shared = Layer::gzip().noise(20, 20_000).build();
    let image = Image::new().layer(&shared);
    liar.on(Get::blob(shared.digest())).then(Lie::corrupt(100_000));
    let (lie, truth) = (
        liar.hold("team/app:v1", &image),
        honest.hold("team/app:v1", &image),
    );
    let puller = Puller::start().await;

    let lied_to = puller.fetch(&lie).await;
    liar.wait_for(Get::blob(shared.digest())).await;
    let unpacked = puller.pull(&truth).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
    // The other one may have been told the truth meanwhile by what the honest registry has brought, but
    // never shows anything else.
    let lied_to = puller.get(&lied_to.id).await;
    if lied_to.phase() != Phase::Unpacked {
        let error = lied_to.last_error.expect("it has failed, or fails now");
        assert_eq!(error.reason(), Reason::DigestMismatch, "{}", error.message);
    }
}

#[tokio::test]
async fn a_layer_that_stands_still_at_one_registry_is_fetched_from_another() {
    let (stuck, healthy) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let shared = Layer::gzip().noise(20, 20_000).build();
    let image = Image::new().layer(&shared);
    stuck.on(Get::blob(shared.digest())).then(Stall::after(50_000));
    let (hung, fine) = (
        stuck.hold("team/app:v1", &image),
        healthy.hold("team/app:v1", &image),
    );
    let puller = Puller::start().await;

    puller.fetch(&hung).await;
    stuck.wait_for(Get::blob(shared.digest())).await;
    let unpacked = puller.pull(&fine).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
}

#[tokio::test]
async fn released_and_fetched_again_at_any_moment_it_ends_unpacked() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for n in 0..20 {
        let image = Image::new().layer(Layer::gzip().file("n", n.to_string()).noise(20, 20_000));
        let reference = registry.hold(&format!("team/app:v{n}"), &image);
        let id = puller.fetch(&reference).await.id;
        for claimant in ["scenario", "nobody", "scenario"] {
            puller.release(&id, claimant).await;
            assert_eq!(puller.fetch(&reference).await.id, id);
        }
        let unpacked = puller.unpacked(&id).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_pull_but_its_content_and_its_records() {
    let registry = ScriptedRegistry::start().await;
    let same = Layer::gzip().noise(10, 10_000).build();
    let odd = [
        Image::new(),
        Image::new()
            .layer(&same)
            .layer(Layer::gzip())
            .layer(&same)
            .layer(&same),
        (0..60).fold(Image::new(), |image, n| {
            image.layer(Layer::gzip().file(&format!("{n}"), "x"))
        }),
    ];
    let puller = Puller::start().await;
    for (n, image) in odd.iter().enumerate() {
        let unpacked = puller
            .pull(&registry.hold(&format!("team/odd:v{n}"), image))
            .await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(image));
    }
    assert_eq!(registry.count(Get::blob(same.digest())), 1);
    for directory in ["blobs", "trees", "trash"] {
        eventually(&format!("an empty private/{directory}"), || {
            (private(&puller, directory) == 0).then_some(())
        })
        .await;
    }
    assert_eq!(private(&puller, "records/contents"), odd.len());
}

#[tokio::test]
async fn pulls_that_hang_before_their_first_byte_cost_no_threads() {
    let registry = ScriptedRegistry::start().await;
    registry
        .on(Get::blobs().of("team/hung"))
        .then(Stall::before_answer());
    let puller = Puller::start().flag("--max-pulls-per-registry", "200").await;
    let before = threads(&puller);
    for n in 0..100 {
        let image = Image::new().layer(Layer::gzip().file("n", n.to_string()));
        puller
            .fetch(&registry.hold(&format!("team/hung:v{n}"), &image))
            .await;
    }
    registry.wait_for_number(100, Get::blobs().of("team/hung")).await;
    let image = Image::new().layer(Layer::gzip().noise(10, 10_000));
    puller.pull(&registry.hold("team/fine:v1", &image)).await;
    // For a moment each may hold the writer of its layer; who waits longer lets it go.
    eventually("few threads", || (threads(&puller) < before + 50).then_some(())).await;
}
