//! The API by the real grpcurl, as an on-call engineer uses it.

use puller_tests::{
    grpcurl::Grpcurl,
    image::{Image, Layer},
    puller::Puller,
    registry::DockerRegistry,
};
use serde_json::{Value, json};

#[tokio::test]
async fn grpcurl_sees_a_pull_over_the_unix_socket() {
    let puller = Puller::start().await;
    every_call(&Grpcurl::unix(&puller.socket())).await;
}

#[tokio::test]
async fn grpcurl_sees_a_pull_over_plaintext_tcp() {
    let puller = Puller::start().listen_on_loopback().await;
    every_call(&Grpcurl::tcp(puller.tcp_address())).await;
}

async fn every_call(grpcurl: &Grpcurl) {
    let registry = DockerRegistry::start().await;
    let image = Image::new()
        .layer(Layer::gzip().noise(50, 20_000))
        .layer(Layer::zstd().noise(50, 20_000));
    let reference = registry.push("team/app:v1", &image).await;

    let services = grpcurl.list().await;
    for service in ["puller.v1.Puller", "grpc.health.v1.Health"] {
        assert!(
            services.iter().any(|listed| listed == service),
            "{service} is not in {services:?}"
        );
    }
    let description = grpcurl.describe("puller.v1.Puller").await;
    for method in ["Fetch", "Get", "List", "Watch", "Release"] {
        assert!(
            description.contains(&format!("rpc {method}")),
            "no {method} in {description}"
        );
    }

    let mut watch = grpcurl.stream("puller.v1.Puller/Watch", json!({}));
    watch.until(|event| event["bookmark"]["synced"] == true).await;
    let wish = json!({ "wish": { "reference": reference }, "claimant": "on-call" });
    let fetched = grpcurl
        .call("puller.v1.Puller/Fetch", wish)
        .await
        .expect("Fetch is accepted");
    let id = fetched["image"]["id"].as_str().expect("an id").to_owned();
    let events = watch.until(|event| event["put"]["phase"] == "UNPACKED").await;
    let states: Vec<&Value> = events
        .iter()
        .map(|event| &event["put"])
        .filter(|put| put["id"] == *id)
        .collect();

    let mut phases: Vec<&str> = states
        .iter()
        .filter_map(|state| state["phase"].as_str())
        .collect();
    phases.dedup();
    assert_eq!(phases, ["INITIATED", "PULLING", "UNPACKING", "UNPACKED"]);
    let bytes: Vec<u64> = states.iter().filter_map(|state| bytes_done(state)).collect();
    assert!(bytes.is_sorted(), "the bytes fall: {bytes:?}");
    assert_eq!(bytes.last(), Some(&image.layer_bytes()));

    let got = grpcurl
        .call("puller.v1.Puller/Get", json!({ "id": id }))
        .await
        .expect("Get finds it");
    assert_eq!(got["image"]["content"]["manifestDigest"], image.digest());
    assert_eq!(got["image"]["claims"][0]["claimant"], "on-call");
    let listed = grpcurl
        .call("puller.v1.Puller/List", json!({}))
        .await
        .expect("List answers");
    assert_eq!(listed["images"][0]["id"], *id);

    let release = json!({ "id": id, "claimant": "on-call" });
    grpcurl
        .call("puller.v1.Puller/Release", release.clone())
        .await
        .expect("Release is accepted");
    grpcurl
        .call("puller.v1.Puller/Release", release)
        .await
        .expect("Release is idempotent");
    let got = grpcurl
        .call("puller.v1.Puller/Get", json!({ "id": id }))
        .await
        .expect("it is kept for a while");
    assert!(got["image"]["claims"].is_null(), "{got:#}");

    let nobody = json!({ "wish": { "reference": "127.0.0.1:1/never/asked:v1" } });
    let error = grpcurl
        .call("puller.v1.Puller/Get", nobody)
        .await
        .expect_err("nobody asked for it");
    assert_eq!(error.code, "NotFound");
    assert!(!error.message.is_empty());
}

/// The compressed bytes that a state tells, if it tells any: proto3's JSON has uint64 as text.
fn bytes_done(state: &Value) -> Option<u64> {
    state["progress"]["bytesDone"].as_str()?.parse().ok()
}
