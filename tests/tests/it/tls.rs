//! Whom the puller trusts, and what it shows, registry by registry.

use std::{fs, path::Path};

use puller_tests::{
    certificates::{Authority, Certificate},
    image::{Image, Layer},
    puller::{Puller, Reason},
    scripted::{Any, Get, Redirect, ScriptedRegistry},
};
use tempfile::TempDir;

fn image() -> Image {
    Image::new().layer(Layer::gzip().file("a", "1"))
}

fn trust(place: &Path, registry: &ScriptedRegistry, authority: &Authority) {
    let directory = place.join(registry.host());
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("ca.crt"), authority.pem()).expect("a file");
}

fn show(place: &Path, registry: &ScriptedRegistry, certificate: &Certificate) {
    let directory = place.join(registry.host());
    fs::write(directory.join("client.cert"), &certificate.certificate).expect("a file");
    fs::write(directory.join("client.key"), &certificate.key).expect("a file");
}

async fn puller(place: &Path) -> Puller {
    Puller::start()
        .flag("--certs-dir", place.display().to_string())
        .await
}

/// Pulls what can't be pulled, and says why.
async fn refused(puller: &Puller, reference: &str) -> String {
    let fetched = puller.fetch(reference).await;
    let error = puller.retrying(&fetched.id).await.last_error.expect("an error");
    assert_eq!(error.reason(), Reason::Tls, "{}", error.message);
    error.message
}

#[tokio::test]
async fn a_private_authority_is_trusted_for_its_registry_and_can_come_later() {
    let (authority, place) = (Authority::new(), TempDir::new().expect("a directory"));
    let registry = ScriptedRegistry::start().tls(&authority).await;
    let reference = registry.hold("team/app:v1", image());
    let puller = puller(place.path()).await;
    let message = refused(&puller, &reference).await;
    assert!(message.contains("certs-dir"), "{message}");
    trust(place.path(), &registry, &authority);
    puller.pull(&reference).await;
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_rotated_without_a_restart() {
    let (authority, place) = (Authority::new(), TempDir::new().expect("a directory"));
    let registry = ScriptedRegistry::start()
        .tls(&authority)
        .client_authority(&authority)
        .await;
    trust(place.path(), &registry, &authority);
    let reference = registry.hold("team/app:v1", image());
    let puller = puller(place.path()).await;
    let message = refused(&puller, &reference).await;
    assert!(message.contains("client certificate"), "{message}");
    // One by somebody else, and then the right one.
    show(place.path(), &registry, &Authority::new().client_cert("puller"));
    refused(&puller, &registry.hold("team/app:v2", image())).await;
    show(place.path(), &registry, &authority.client_cert("puller"));
    puller.pull(&reference).await;
}

#[tokio::test]
async fn a_client_certificate_is_not_shown_where_a_redirect_leads() {
    let (authority, place) = (Authority::new(), TempDir::new().expect("a directory"));
    let start = || {
        ScriptedRegistry::start()
            .tls(&authority)
            .client_authority(&authority)
    };
    let (registry, storage) = (start().await, start().await);
    trust(place.path(), &registry, &authority);
    trust(place.path(), &storage, &authority);
    show(place.path(), &registry, &authority.client_cert("puller"));
    let image = image();
    let layer = image.layers()[0].digest();
    storage.hold("store/app:v1", &image);
    registry
        .on(Get::blob(layer))
        .then(Redirect::to(&storage.blob_url("store/app", layer)));
    let puller = puller(place.path()).await;
    let message = refused(&puller, &registry.hold("team/app:v1", &image)).await;
    assert!(message.contains(&storage.host()), "{message}");
    assert_eq!(storage.count(Any::blobs()), 0);
}

#[tokio::test]
async fn openssls_variables_name_authorities() {
    let authority = Authority::new();
    let registry = ScriptedRegistry::start().tls(&authority).await;
    let reference = registry.hold("team/app:v1", image());
    for (variable, path) in [
        ("SSL_CERT_FILE", authority.ca_file()),
        ("SSL_CERT_DIR", authority.directory().to_owned()),
    ] {
        let puller = Puller::start()
            .environment(variable, path.display().to_string())
            .await;
        puller.pull(&reference).await;
    }
    let puller = Puller::start()
        .environment("SSL_CERT_FILE", "/not/there.pem")
        .await;
    assert!(puller.log().contains("/not/there.pem"), "{}", puller.log());
}
