//! References and what is asked for them (R23, R25). What is no reference is in `references`, what mirrors
//! make of one in `mirrors`.

use puller_tests::{
    puller::Puller,
    scripted::{Any, Get, ScriptedRegistry},
};
use tonic::Code;

use super::small;

#[tokio::test]
async fn r23_of_tag_and_digest_the_digest_decides_and_the_tag_is_shown() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let (old, new) = (small("old"), small("new"));
    registry.hold("team/app:v1", &old);
    registry.hold("team/app:v1", &new);
    for tag in ["v1", "never-pushed"] {
        let reference = format!("{}/team/app:{tag}@{}", registry.host(), old.digest());
        let unpacked = puller.pull(&reference).await;
        assert_eq!(unpacked.wish.expect("a wish").reference, reference);
        let content = unpacked.content.expect("content");
        assert_eq!(content.manifest_digest, old.digest());
        assert_eq!(registry.count(Any::manifest(tag)), 0, "the tag is not asked for");
    }
    assert!(registry.count(Get::manifest(old.digest())) > 0);
}

#[tokio::test]
async fn r25_registries_of_every_form_are_accepted() {
    let puller = Puller::start().await;
    let digest = format!("sha256:{}", "a".repeat(64));
    for reference in [
        "[::1]:1/a/b:t".to_owned(),
        "[::1]/a/b:t".to_owned(),
        "[0:0:0:0:0:0:0:1]:1/a:t".to_owned(),
        format!("[::1]:1/a/b@{digest}"),
        "127.0.0.1:1/x:t".to_owned(),
        format!("127.0.0.1:1/x@{digest}"),
        "localhost/x:t".to_owned(),
        "localhost:1/x:5000".to_owned(),
        "LOCALHOST:1/x:T".to_owned(),
        "localhost:1/a.b/c_d/e__f/g-h/i--j:1.0_x-Y".to_owned(),
    ] {
        let image = puller.fetch(&reference).send().await;
        assert!(image.is_ok(), "{reference}: {image:?}");
    }
    for (reference, words) in [
        ("localhost:5000/x", "neither tag nor digest"),
        ("localhost:1/Team/app:t", "lower case"),
        ("localhost:1/team/APP:t", "lower case"),
        ("[::1:5000/a:t", "bracket"),
        ("[::g]:1/a:t", "IPv6"),
        ("[::1]x/a:t", "bracket"),
        ("::1/a:t", "registry"),
        ("nginx", "registry"),
        ("team/app:t", "registry"),
        ("localhost:65536/a:t", "port"),
        ("localhost:1/a:t@", "digest"),
        ("localhost:1/a:t:u", "repository"),
    ] {
        let status = puller.fetch(reference).refused().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{reference}");
        assert!(
            status.message().contains(words),
            "{reference}: {}",
            status.message()
        );
    }
}
