//! References that can't be right are refused at once, and the answer names the part.

use puller_tests::puller::Puller;
use tonic::Code;

#[tokio::test]
async fn bad_references_are_refused_by_their_part() {
    let puller = Puller::start().await;
    let digest = format!("sha256:{}", "a".repeat(64));
    let long_tag = "t".repeat(129);
    for (reference, part) in [
        ("", "empty"),
        ("registry.example.com/Team/App:v1", "repository"),
        ("registry.example.com/team/app", "tag"),
        ("registry.example.com/team/app:", "tag"),
        (&format!("registry.example.com/team/app:{long_tag}"), "tag"),
        ("registry.example.com/team/app@sha256:abc", "digest"),
        (
            &format!("registry.example.com/team/app@{}", digest.to_uppercase()),
            "digest",
        ),
        (
            &format!(
                "registry.example.com/team/app@{}",
                digest.replace("sha256", "md5")
            ),
            "digest",
        ),
        ("registry.example.com/team/my app:v1", "space"),
        (" registry.example.com/team/app:v1", "space"),
        ("registry.example.com/../etc/passwd:v1", "repository"),
        ("registry.example.com/team/../../app:v1", "repository"),
        ("registry.example.com//app:v1", "repository"),
        ("nginx:1.27", "registry"),
        ("registry.example.com:port/team/app:v1", "port"),
        ("https://registry.example.com/team/app:v1", "https://"),
    ] {
        let status = puller.fetch(reference).refused().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{reference:?}: {status}");
        assert!(
            status.message().contains(part),
            "{reference:?}: the answer does not name {part:?}: {:?}",
            status.message()
        );
    }
    assert_eq!(puller.list().await.len(), 0, "a refused wish was recorded");
}

#[tokio::test]
async fn other_bad_parts_of_a_fetch_are_named_too() {
    let puller = Puller::start().await;
    let good = "registry.example.com/team/app:v1";
    let long_name = "c".repeat(254);
    for (fetch, part) in [
        (puller.fetch(good).claimant(""), "claimant"),
        (puller.fetch(good).claimant(&long_name), "claimant"),
        (puller.fetch(good).platform("", "amd64"), "platform"),
        (puller.fetch(good).path("/../up"), "path"),
        (puller.fetch(good).dockerconfigjson("{"), "dockerconfigjson"),
        (puller.fetch(good).in_use("sha256:abc"), "in_use"),
    ] {
        let status = fetch.refused().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{part}: {status}");
        assert!(
            status.message().contains(part),
            "{part} is not named in {:?}",
            status.message()
        );
    }
    assert_eq!(puller.list().await.len(), 0, "a refused wish was recorded");
}
