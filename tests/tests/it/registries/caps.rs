//! Answers without end (R28).

use puller_tests::{
    image::Image,
    puller::{Puller, Reason},
    scripted::{Answer, Any, Challenge, Get, Head, Lie, ScriptedRegistry},
};

use super::{first_error, pull_at_once, small};

/// What a puller may grow by while it is sent answers without end: far more than the caps, far less
/// than what would have come.
const GROWTH: u64 = 64 << 20;

#[tokio::test]
async fn r28_endless_answers_are_cut_off() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let before = puller.memory();
    let challenge = super::plain_challenge(&registry);
    let image = small("endless");
    let config = Image::config(&image).digest;
    registry.on(Head::manifests()).then(Answer::status(405));
    registry
        .on(Get::manifests().of("endless/manifest"))
        .then(Lie::endless());
    registry
        .on(Get::blob(&config).of("endless/config"))
        .then(Lie::endless());
    registry
        .on(Get::manifests().of("endless/error"))
        .then(Answer::status(500))
        .and(Lie::endless());
    registry
        .on(Get::manifests().of("endless/challenge"))
        .then(Challenge::fields(&["Negotiate".to_owned()]))
        .and(Lie::endless());
    registry
        .on(Any::token())
        .then(Answer::status(200))
        .and(Lie::endless());
    registry
        .on(Any::anything().of("endless/token"))
        .then(Challenge::fields(&challenge));
    registry
        .on(Get::blob(image.layers()[0].digest()).of("endless/layer"))
        .then(Lie::endless());
    for (what, wanted) in [
        ("manifest", Reason::LimitExceeded),
        ("config", Reason::LimitExceeded),
        ("error", Reason::RegistryError),
        ("challenge", Reason::Unauthorized),
        ("token", Reason::RegistryError),
        ("layer", Reason::DigestMismatch),
    ] {
        let (reason, message) = first_error(&puller, &registry, &format!("endless/{what}:v1"), &image).await;
        assert_eq!(reason, wanted, "{what}: {message}");
        assert!(message.len() < 2000, "{what}: {} bytes", message.len());
    }
    let growth = puller.memory().saturating_sub(before);
    assert!(growth < GROWTH, "it grew by {growth} bytes");
    registry.behave();
    pull_at_once(&puller, &registry, "fine/app:v1", &small("fine")).await;
}

#[tokio::test]
async fn r28_a_manifest_below_the_cap_is_taken() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let large = small("large").annotation("padding", &"x".repeat(4 << 20));
    pull_at_once(&puller, &registry, "large/app:v1", &large).await;
    let larger = small("larger").annotation("padding", &"x".repeat(8 << 20));
    let (reason, message) = first_error(&puller, &registry, "larger/app:v1", &larger).await;
    assert_eq!(reason, Reason::LimitExceeded, "{message}");
    assert!(message.contains("8388608"), "the cap is told: {message}");
}
