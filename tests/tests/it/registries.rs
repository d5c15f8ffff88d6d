//! What registries do in the field, case by case: R01 and the others are ids of reports, each with what
//! is right. A case stands for its kind, so most are tables.

mod caps;
mod challenges;
mod documents;
mod foreign;
mod heads;
mod manifests;
mod names;
mod quoting;
mod rate_limits;
mod redirects;
mod resume;
mod tokens;

use puller_tests::{
    image::{Content, Image, Layer},
    puller::{self, Puller},
    scripted::{Answer, Any, Challenge, Lie, ScriptedRegistry},
    tree::Tree,
};

/// A layer of half a megabyte, other than that of any other name.
fn image(name: &str) -> Image {
    Image::new().layer(Layer::gzip().file("name", name).noise(10, 50_000))
}

/// A small image, other than that of any other name.
fn small(name: &str) -> Image {
    Image::new().layer(Layer::gzip().file("name", name))
}

/// Pulls what the registry holds under a name, in the first attempt.
async fn pull_at_once(
    puller: &Puller,
    registry: &ScriptedRegistry,
    name: &str,
    image: &Image,
) -> puller::Image {
    let unpacked = puller.pull(&registry.hold(name, image)).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(image));
    assert_eq!(unpacked.attempt, 1, "{name}: {unpacked:#?}");
    unpacked
}

/// The error of the first attempt that fails.
async fn first_error(
    puller: &Puller,
    registry: &ScriptedRegistry,
    name: &str,
    content: impl Into<Content>,
) -> (puller::Reason, String) {
    let fetched = puller.fetch(&registry.hold(name, content)).await;
    let image = puller
        .wait_for(&fetched.id, "an error", |image| image.last_error.is_some())
        .await;
    let error = image.last_error.expect("it was waited for");
    (error.reason(), error.message)
}

/// Has a registry want the token `good`: it answers with these challenges, and its token server with this
/// body.
fn guard(registry: &ScriptedRegistry, challenges: &[String], token: &str) {
    registry
        .on(Any::token())
        .then(Answer::status(200))
        .and(Lie::body(token));
    registry
        .on(Any::anything().with_authorization("Bearer good"))
        .then(vec![]);
    registry.on(Any::anything()).then(Challenge::fields(challenges));
}

/// A challenge that every client understands.
fn plain_challenge(registry: &ScriptedRegistry) -> [String; 1] {
    [format!(
        "Bearer realm=\"http://{}/token\",service=\"reg\"",
        registry.host()
    )]
}
