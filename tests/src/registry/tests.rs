use super::*;
use crate::image::{Artifact, Image, Index, Layer};

#[tokio::test]
async fn holds_what_was_pushed_and_counts_what_was_asked() {
    let mut registry = DockerRegistry::start().await;
    let image = Image::new().layer(Layer::gzip().file("a", "b"));
    let index = Index::new().image(&image).attestation(&image);
    registry.push("team/app:v1", &index).await;
    registry
        .push(
            "team/chart:v1",
            &Artifact::new("application/x.chart").file("a.txt", "text/plain", "a"),
        )
        .await;

    let layer = image.layers()[0].digest();
    let path = format!("/v2/team/app/blobs/{layer}");
    let body = registry
        .request(reqwest::Method::GET, &path)
        .send()
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    assert_eq!(body, image.layers()[0].blob.bytes);
    let log = registry.log().await;
    assert_eq!(
        (log.gets_of(layer), log.gets_of(&image.digest()), log.gets()),
        (1, 0, 1)
    );

    registry.switch_off().await;
    assert!(
        registry
            .request(reqwest::Method::GET, &path)
            .send()
            .await
            .is_err()
    );
    registry.switch_on().await;
    assert!(
        registry
            .request(reqwest::Method::GET, &path)
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
    );
    assert_eq!(
        registry.log().await.gets_of(layer),
        2,
        "the log goes on over a restart"
    );
}

#[tokio::test]
async fn speaks_tls_and_wants_the_password() {
    let authority = Authority::new();
    let registry = DockerRegistry::start()
        .tls(&authority)
        .htpasswd("user", "secret")
        .await;
    let image = Image::new().layer(Layer::gzip().file("a", "b"));
    registry.push_by_skopeo("team/app:v1", &image).await;

    let url = format!("https://{}/v2/team/app/manifests/v1", registry.host());
    assert_eq!(registry.client.get(&url).send().await.unwrap().status(), 401);
    let request = registry.request(reqwest::Method::GET, "/v2/team/app/manifests/v1");
    let right = request
        .header("accept", &image.manifest().media_type)
        .send()
        .await
        .unwrap();
    assert_eq!(right.headers()["docker-content-digest"], image.digest().as_str());
}
