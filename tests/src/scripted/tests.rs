use std::time::Duration;

use super::*;
use crate::{
    certificates::install_crypto_provider,
    image::{Image, Layer},
};

struct Scene {
    registry: ScriptedRegistry,
    image: Image,
    client: reqwest::Client,
}

impl Scene {
    async fn new() -> Self {
        install_crypto_provider();
        let image = Image::new().layer(Layer::plain().noise(1, 100_000));
        let registry = ScriptedRegistry::start().await;
        registry.hold("app:v1", &image);
        Self {
            registry,
            image,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    fn layer(&self) -> &str {
        self.image.layers()[0].digest()
    }

    fn bytes(&self) -> &[u8] {
        &self.image.layers()[0].blob.bytes
    }

    fn blob(&self) -> reqwest::RequestBuilder {
        self.client.get(self.registry.blob_url("app", self.layer()))
    }

    fn manifest(&self, reference: &str) -> reqwest::RequestBuilder {
        self.client.get(format!(
            "http://{}/v2/app/manifests/{reference}",
            self.registry.host()
        ))
    }
}

/// As many bytes as come before the body breaks or ends.
async fn read_all(mut response: reqwest::Response) -> (usize, bool) {
    let mut read = 0;
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => read += chunk.len(),
            Ok(None) => return (read, true),
            Err(_) => return (read, false),
        }
    }
}

#[tokio::test]
async fn is_honest_unless_told_otherwise() {
    let scene = Scene::new().await;
    let manifest = scene.manifest("v1").send().await.unwrap();
    assert_eq!(
        manifest.headers()["docker-content-digest"],
        scene.image.digest().as_str()
    );
    assert_eq!(manifest.bytes().await.unwrap(), scene.image.manifest().bytes);
    assert_eq!(
        scene.blob().send().await.unwrap().bytes().await.unwrap(),
        scene.bytes()
    );

    let part = scene.blob().header("range", "bytes=99000-").send().await.unwrap();
    assert_eq!(part.status(), 206);
    let total = scene.bytes().len();
    assert_eq!(
        part.headers()["content-range"],
        format!("bytes 99000-{}/{total}", total - 1).as_str()
    );
    assert_eq!(part.bytes().await.unwrap(), scene.bytes()[99_000..]);
    let beyond = scene
        .blob()
        .header("range", format!("bytes={total}-"))
        .send()
        .await
        .unwrap();
    assert_eq!(beyond.status(), 416);

    assert_eq!(scene.manifest("v2").send().await.unwrap().status(), 404);
    let moved = Image::new();
    scene.registry.hold("app:v1", &moved);
    assert_eq!(
        scene.manifest("v1").send().await.unwrap().bytes().await.unwrap(),
        moved.manifest().bytes
    );
    assert!(
        scene
            .manifest(&scene.image.digest())
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
    );
}

#[tokio::test]
async fn cuts_in_the_middle_as_often_as_told() {
    let scene = Scene::new().await;
    scene
        .registry
        .on(Get::blob(scene.layer()))
        .times(1)
        .then(Cut::after(70_000));
    assert_eq!(
        read_all(scene.blob().send().await.unwrap()).await,
        (70_000, false)
    );
    assert_eq!(
        read_all(scene.blob().send().await.unwrap()).await,
        (scene.bytes().len(), true)
    );
}

#[tokio::test]
async fn resets_before_the_answer() {
    let scene = Scene::new().await;
    scene.registry.on(Get::blobs()).times(1).then(Cut::reset());
    assert!(scene.blob().send().await.is_err());
    assert!(scene.blob().send().await.is_ok());
}

#[tokio::test]
async fn stalls_until_released() {
    let scene = Scene::new().await;
    let head = scene.registry.on(Get::manifests()).then(Stall::before_answer());
    let body = scene.registry.on(Get::blobs()).then(Stall::after(1000));
    let manifest = tokio::spawn(scene.manifest("v1").send());
    scene.registry.wait_for(Get::manifest("v1")).await;
    let mut blob = scene.blob().send().await.unwrap();
    assert_eq!(blob.chunk().await.unwrap().unwrap().len(), 1000);
    let more = tokio::time::timeout(Duration::from_millis(100), blob.chunk()).await;
    assert!(more.is_err(), "the body goes on although nobody released it");
    assert!(!manifest.is_finished());

    head.release();
    body.release();
    assert!(manifest.await.unwrap().unwrap().status().is_success());
    assert_eq!(read_all(blob).await, (scene.bytes().len() - 1000, true));
}

#[tokio::test]
async fn lies_throttles_redirects_and_answers_otherwise() {
    let scene = Scene::new().await;
    let registry = &scene.registry;
    registry.on(Get::blobs()).times(1).then(Lie::html());
    let page = scene.blob().send().await.unwrap();
    assert_eq!(
        (
            page.status().as_u16(),
            &page.headers()["content-type"] == "text/html; charset=utf-8"
        ),
        (200, true)
    );
    assert!(page.text().await.unwrap().starts_with("<!DOCTYPE html>"));

    registry.on(Get::blobs()).times(1).then(Lie::corrupt(5));
    let corrupt = scene.blob().send().await.unwrap().bytes().await.unwrap();
    assert_eq!(
        (corrupt.len(), &corrupt[5..]),
        (scene.bytes().len(), &scene.bytes()[5..])
    );
    assert_ne!(corrupt[..5], scene.bytes()[..5]);

    registry.on(Get::blobs()).times(1).then(Throttle::to(400_000));
    let began = Instant::now();
    assert!(read_all(scene.blob().send().await.unwrap()).await.1);
    assert!(
        began.elapsed() > Duration::from_millis(150),
        "100 kB at 400 kB/s took {:?}",
        began.elapsed()
    );

    registry.on(Get::blobs()).times(1).then(Answer::retry_after("7"));
    let limited = scene.blob().send().await.unwrap();
    assert_eq!(
        (
            limited.status().as_u16(),
            limited.headers()["retry-after"].to_str().unwrap()
        ),
        (429, "7")
    );

    registry
        .on(Get::manifest("v1"))
        .times(1)
        .then(Redirect::to("/v2/app/manifests/v2"));
    assert_eq!(scene.manifest("v1").send().await.unwrap().status(), 404);
    assert_eq!(registry.count(Get::manifest("v2")), 1);

    registry
        .on(Get::manifest("v1"))
        .times(1)
        .then(Without::content_length())
        .and(Without::digest_header());
    let bare = scene.manifest("v1").send().await.unwrap();
    assert_eq!(
        (bare.content_length(), bare.headers().get("docker-content-digest")),
        (None, None)
    );
    assert_eq!(bare.bytes().await.unwrap(), scene.image.manifest().bytes);
}

#[tokio::test]
async fn treats_ranges_wrongly() {
    let scene = Scene::new().await;
    let ranged = || scene.blob().header("range", "bytes=100-");
    scene
        .registry
        .on(Get::blobs().ranged())
        .times(1)
        .then(Ranges::ignored());
    let whole = ranged().send().await.unwrap();
    assert_eq!(
        (whole.status().as_u16(), whole.bytes().await.unwrap().len()),
        (200, scene.bytes().len())
    );

    scene
        .registry
        .on(Get::blobs())
        .times(1)
        .then(Ranges::shifted_by(10));
    let shifted = ranged().send().await.unwrap();
    assert!(
        shifted.headers()["content-range"]
            .to_str()
            .unwrap()
            .starts_with("bytes 110-")
    );
    assert_eq!(shifted.bytes().await.unwrap(), scene.bytes()[110..]);

    scene
        .registry
        .on(Get::blobs())
        .times(1)
        .then(Ranges::mislabelled_by(10));
    let mislabelled = ranged().send().await.unwrap();
    assert!(
        mislabelled.headers()["content-range"]
            .to_str()
            .unwrap()
            .starts_with("bytes 110-")
    );
    assert_eq!(mislabelled.bytes().await.unwrap(), scene.bytes()[100..]);
}

#[tokio::test]
async fn wants_tokens_for_the_right_repository() {
    let scene = Scene::new().await;
    scene.registry.set_auth(Auth::bearer("user", "secret"));
    let refused = scene.blob().send().await.unwrap();
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
    assert!(
        challenge.ends_with("scope=\"repository:app:pull\""),
        "{challenge}"
    );

    let endpoint = format!(
        "http://{}/token?service=scripted&scope=repository%3Aapp%3Apull",
        scene.registry.host()
    );
    assert_eq!(scene.client.get(&endpoint).send().await.unwrap().status(), 401);
    let given = scene
        .client
        .get(&endpoint)
        .basic_auth("user", Some("secret"))
        .send()
        .await
        .unwrap();
    let given: serde_json::Value = serde_json::from_str(&given.text().await.unwrap()).unwrap();
    let token = given["token"].as_str().unwrap();
    assert_eq!(
        scene.blob().bearer_auth(token).send().await.unwrap().status(),
        200
    );
    assert_eq!(scene.registry.count(Get::token()), 2);

    let elsewhere = scene.registry.blob_url("other", scene.layer());
    assert_eq!(
        scene
            .client
            .get(elsewhere)
            .bearer_auth(token)
            .send()
            .await
            .unwrap()
            .status(),
        401
    );
    scene.registry.revoke_tokens();
    assert_eq!(
        scene.blob().bearer_auth(token).send().await.unwrap().status(),
        401
    );
}

#[tokio::test]
async fn can_be_switched_off_and_on() {
    let mut scene = Scene::new().await;
    scene.registry.switch_off().await;
    assert!(scene.blob().send().await.is_err());
    scene.registry.switch_on().await;
    assert!(scene.blob().send().await.is_ok());
}

#[tokio::test]
async fn a_black_hole_accepts_and_says_nothing() {
    install_crypto_provider();
    let hole = Blackhole::start().await;
    let asked = tokio::spawn(reqwest::get(format!("http://{}/v2/", hole.host())));
    hole.wait_for_a_victim().await;
    assert_eq!(hole.accepted(), 1);
    assert!(!asked.is_finished());
    asked.abort();
}
