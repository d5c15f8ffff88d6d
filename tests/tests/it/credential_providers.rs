//! The kubelet's credential provider plugins give passwords, and their failures are told.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason, Starting},
    registry::DockerRegistry,
    wait::eventually,
};
use serde_json::json;

use crate::{
    credential_helpers::{program, runs},
    credentials::next_retry,
};

const API: &str = "credentialprovider.kubelet.k8s.io/v1";

fn image(n: &str) -> Image {
    Image::new()
        .layer(Layer::gzip().file("secret", "sauce"))
        .layer(Layer::gzip().file(n, "x"))
}

/// A directory with a config and the one provider that it names.
struct Provider(tempfile::TempDir);

impl Provider {
    fn new(script: &str, hosts: &[&str]) -> Self {
        let provider = Self(tempfile::tempdir().unwrap());
        fs::create_dir(provider.bin()).unwrap();
        program(&provider.bin().join("vault-provider"), script);
        provider.configure(API, hosts);
        provider
    }

    fn configure(&self, api: &str, hosts: &[&str]) {
        // A list of texts is the same in JSON.
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: vault-provider
    matchImages: {hosts:?}
    defaultCacheDuration: 1h
    apiVersion: {api}
    env: [{{name: USER_NAME, value: user}}]
"
        );
        fs::write(self.config(), config).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.0.path().join("config.yaml")
    }

    fn bin(&self) -> PathBuf {
        self.0.path().join("bin")
    }

    fn puller(&self) -> Starting {
        Puller::start()
            .flag("--credential-provider-config", self.config().to_str().unwrap())
            .flag("--credential-provider-bin-dir", self.bin().to_str().unwrap())
    }

    fn runs(&self) -> usize {
        runs(&self.bin())
    }
}

/// A script that gives the right password for this host, and leaves its last request in `request`.
fn answering(host: &str, more: &serde_json::Value) -> String {
    let mut answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": API,
        "auth": { host: { "username": "$USER_NAME", "password": "right" } },
    });
    answer
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let answer = answer.to_string().replace('"', "\\\"");
    format!("cat > \"$(dirname \"$0\")/request\"\necho \"{answer}\"")
}

async fn registry() -> DockerRegistry {
    DockerRegistry::start().htpasswd("user", "right").await
}

#[tokio::test]
async fn a_provider_gives_the_password_and_is_asked_once_for_a_registry() {
    let registry = registry().await;
    let script = answering(
        &registry.host(),
        &json!({"cacheKeyType": "Registry", "cacheDuration": "1h"}),
    );
    let provider = Provider::new(&script, &[&registry.host()]);
    let puller = provider.puller().await;
    for name in ["team/app:v1", "team/other:v1"] {
        let reference = registry.push(name, &image(name)).await;
        assert_eq!(puller.pull(&reference).await.phase(), Phase::Unpacked);
    }
    assert_eq!(provider.runs(), 1);
    let request = fs::read(provider.bin().join("request")).unwrap();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&request).unwrap(),
        json!({
            "kind": "CredentialProviderRequest",
            "apiVersion": API,
            "image": format!("{}/team/app", registry.host()),
        })
    );
    assert!(!puller.log().contains("right"), "the password is in the log");
}

#[tokio::test]
async fn an_answer_that_is_not_to_be_kept_is_asked_for_again() {
    let registry = registry().await;
    let script = answering(
        &registry.host(),
        &json!({"cacheKeyType": "Global", "cacheDuration": "0s"}),
    );
    let provider = Provider::new(&script, &[&registry.host()]);
    let puller = provider.puller().await;
    let first = registry.push("team/app:v1", &image("one")).await;
    assert_eq!(puller.pull(&first).await.phase(), Phase::Unpacked);
    let before = provider.runs();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let second = registry.push("team/app:v2", &image("two")).await;
    assert_eq!(puller.pull(&second).await.phase(), Phase::Unpacked);
    assert!(
        before >= 1 && provider.runs() > before,
        "{before} {}",
        provider.runs()
    );
}

#[tokio::test]
async fn one_that_hangs_holds_up_no_public_image_and_is_waited_for_by_name() {
    let (private, public) = (registry().await, DockerRegistry::start().await);
    let provider = Provider::new("sleep 600", &[&private.host(), &public.host()]);
    let puller = provider.puller().await;

    let reference = public.push("team/app:v1", &image("public")).await;
    assert_eq!(puller.pull(&reference).await.phase(), Phase::Unpacked);
    assert_eq!(provider.runs(), 0);

    let reference = private.push("team/app:v1", &image("private")).await;
    let fetched = puller.fetch(&reference).await;
    let wanted = format!("credentials for {}/team/app", private.host());
    let waits = puller.wait_for(&fetched.id, "it waits for credentials", |image| {
        image.message.contains(&wanted)
    });
    waits.await;
    // It is said from before the program runs.
    eventually("a run", || (provider.runs() > 0).then_some(())).await;
    assert_eq!(provider.runs(), 1);
}

#[tokio::test]
async fn garbage_is_told_without_what_it_held() {
    let registry = registry().await;
    let provider = Provider::new("echo '{\"password\": \"hunter2\"'", &[&registry.host()]);
    let reference = registry.push("team/app:v1", &image("x")).await;
    let puller = provider.puller().await;
    let fetched = puller.fetch(&reference).await;
    let error = puller.retrying(&fetched.id).await.last_error.unwrap();
    assert_eq!(error.reason(), Reason::Unauthorized);
    assert!(
        error.message.contains("vault-provider answered no JSON"),
        "{}",
        error.message
    );
    assert!(!error.message.contains("hunter2") && !puller.log().contains("hunter2"));
}

#[tokio::test]
async fn an_answer_that_is_refused_is_asked_for_anew() {
    let registry = registry().await;
    let right = answering(
        &registry.host(),
        &json!({"cacheKeyType": "Global", "cacheDuration": "1h"}),
    );
    // `runs` has one line at the first run.
    let script = format!("[ $(wc -l < \"$(dirname \"$0\")/runs\") -gt 1 ] || USER_NAME=expired\n{right}");
    let provider = Provider::new(&script, &[&registry.host()]);
    let reference = registry.push("team/app:v1", &image("x")).await;
    let puller = provider.puller().await;
    let fetched = puller.fetch(&reference).await;
    let error = puller.retrying(&fetched.id).await.last_error.unwrap();
    assert_eq!(error.reason(), Reason::Unauthorized);
    puller.unpacked(&fetched.id).await;
    assert_eq!(provider.runs(), 2);
}

#[tokio::test]
async fn a_config_that_is_corrected_ends_the_back_off() {
    let registry = registry().await;
    let script = answering(&registry.host(), &json!({"cacheKeyType": "Image"}));
    let provider = Provider::new(&script, &[&registry.host()]);
    provider.configure("credentialprovider.kubelet.k8s.io/v1beta1", &[&registry.host()]);
    let reference = registry.push("team/app:v1", &image("x")).await;
    let puller = provider.puller().await;

    let fetched = puller.fetch(&reference).await;
    let long = Duration::from_secs(10);
    let waiting = puller.wait_for(&fetched.id, "a back-off of many seconds", |image| {
        next_retry(image).is_some_and(|next| next > SystemTime::now() + long)
    });
    let waiting = waiting.await;
    let error = waiting.last_error.as_ref().unwrap();
    assert!(
        error.message.contains("answered in apiVersion"),
        "{}",
        error.message
    );

    // What can't be used changes nothing.
    fs::write(provider.config(), "kind: [").unwrap();
    provider.configure(API, &[&registry.host()]);
    puller.unpacked(&fetched.id).await;
    let next = next_retry(&waiting);
    assert!(
        next.is_some_and(|next| SystemTime::now() < next),
        "the back-off was waited for"
    );
}

#[tokio::test]
async fn an_unusable_config_fails_the_start() {
    let provider = Provider::new("true", &["x.io"]);
    fs::remove_file(provider.bin().join("vault-provider")).unwrap();
    let (_, said) = provider.puller().fails().await;
    assert!(
        said.contains("vault-provider") && said.contains("No such file"),
        "{said}"
    );
    fs::write(provider.config(), "kind: Pod").unwrap();
    let (_, said) = provider.puller().fails().await;
    assert!(said.contains("config.yaml"), "{said}");
}
