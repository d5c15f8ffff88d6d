//! Only what the policy lets pass is pulled, and what it holds back goes on when it changes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use puller_tests::{
    image::{Content, Image, Index, Layer, Signatures, SigningKey},
    puller::{self, Phase, Puller, Reason},
    registry::DockerRegistry,
    scripted::{Answer, Any, ScriptedRegistry},
    tree::Tree,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A policy in a directory of its own, with keys beside it.
struct Policy {
    directory: TempDir,
}

impl Policy {
    fn new(policy: &Value) -> Self {
        let new = Self {
            directory: TempDir::new().expect("a temporary directory"),
        };
        new.write(&policy.to_string());
        new
    }

    /// Everything needs a signature by this key for its repository, in the way of cosign.
    fn signed_by(key: &SigningKey) -> Self {
        let new = Self::new(&json!({}));
        let file = key.write_public(new.directory.path(), "cosign.pub");
        new.write(&needs(&file).to_string());
        new
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("policy.json")
    }

    /// Replaces it by a rename, as everybody should.
    fn write(&self, text: &str) {
        let new = self.directory.path().join("new");
        fs::write(&new, text).expect("the policy");
        fs::rename(new, self.path()).expect("the policy");
    }
}

fn accept() -> Value {
    json!({ "default": [{ "type": "insecureAcceptAnything" }] })
}

fn needs(key: &Path) -> Value {
    json!({ "default": [{
        "type": "sigstoreSigned", "keyPath": key, "signedIdentity": { "type": "matchRepository" },
    }] })
}

fn image(text: &str) -> Image {
    Image::new().layer(Layer::gzip().file("version", text))
}

async fn sign(registry: &DockerRegistry, repository: &str, signatures: &Signatures) {
    let name = format!("{repository}:{}", signatures.tag());
    registry.push(&name, signatures).await;
}

/// The message of an Image that must fail for this reason.
async fn refused(puller: &Puller, reference: &str, reason: Reason) -> String {
    let fetched = puller.fetch(reference).await;
    let failed = puller.failed(&fetched.id).await;
    assert!(failed.content.is_none());
    let error = failed.last_error.expect("a failed Image has an error");
    assert_eq!(error.reason(), reason, "{}", error.message);
    error.message
}

#[tokio::test]
async fn a_signed_image_is_pulled_and_no_other() {
    let registry = DockerRegistry::start().await;
    let (key, stranger) = (SigningKey::new(), SigningKey::new());
    let policy = Policy::signed_by(&key);
    let puller = Puller::start().policy(policy.path()).await;
    let name = registry.reference("team/app");

    let good = image("good");
    let reference = registry.push("team/app:good", &good).await;
    let signatures = Signatures::of(&good.digest())
        .by(&stranger, &name)
        .by(&key, &name);
    sign(&registry, "team/app", &signatures).await;
    let unpacked = puller.pull(&reference).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&good));

    let unsigned = image("unsigned");
    let reference = registry.push("team/app:unsigned", &unsigned).await;
    let why = refused(&puller, &reference, Reason::VerificationFailed).await;
    for part in ["no signature", "cosign.pub", "policy.json", &unsigned.digest()] {
        assert!(why.contains(part), "{part:?} is missing in {why}");
    }
    let log = registry.log().await;
    assert_eq!(
        log.gets_of(unsigned.layers()[0].digest()),
        0,
        "a layer was fetched before the policy was asked"
    );

    let wrong = image("wrong key");
    let reference = registry.push("team/app:wrong", &wrong).await;
    sign(
        &registry,
        "team/app",
        &Signatures::of(&wrong.digest()).by(&stranger, &name),
    )
    .await;
    let why = refused(&puller, &reference, Reason::VerificationFailed).await;
    assert!(why.contains("made by none of the keys"), "{why}");

    let other = image("another digest");
    let reference = registry.push("team/app:other", &other).await;
    let signatures = Signatures::of(&other.digest()).for_digest(&key, &name, &good.digest());
    sign(&registry, "team/app", &signatures).await;
    let why = refused(&puller, &reference, Reason::VerificationFailed).await;
    assert!(
        why.contains(&format!("for the digest {}", good.digest())),
        "{why}"
    );
}

#[tokio::test]
async fn a_signature_is_good_for_its_own_repository_only() {
    let registry = DockerRegistry::start().await;
    let key = SigningKey::new();
    let policy = Policy::signed_by(&key);
    let puller = Puller::start().policy(policy.path()).await;
    let image = image("copied");
    let signatures = Signatures::of(&image.digest()).by(&key, &registry.reference("team/app"));
    for repository in ["team/app", "evil/app"] {
        registry.push(&format!("{repository}:v1"), &image).await;
        sign(&registry, repository, &signatures).await;
    }
    puller.pull(&registry.reference("team/app:v1")).await;
    // The content is here already; the policy is asked all the same.
    let why = refused(
        &puller,
        &registry.reference("evil/app:v1"),
        Reason::VerificationFailed,
    )
    .await;
    assert!(why.contains("team/app") && why.contains("evil/app"), "{why}");
}

#[tokio::test]
async fn an_index_may_be_signed_or_what_it_leads_to() {
    let registry = DockerRegistry::start().await;
    let key = SigningKey::new();
    let policy = Policy::signed_by(&key);
    let puller = Puller::start().policy(policy.path()).await;
    let name = registry.reference("team/app");
    for (tag, signs_the_index) in [("index", true), ("manifest", false)] {
        let ours = image(tag);
        let theirs = Image::new()
            .platform("linux", "s390x")
            .layer(Layer::gzip().file("other", tag));
        let index = Index::new().image(&theirs).image(&ours);
        let digest = if signs_the_index {
            index.digest()
        } else {
            ours.digest()
        };
        let reference = registry.push(&format!("team/app:{tag}"), &index).await;
        sign(&registry, "team/app", &Signatures::of(&digest).by(&key, &name)).await;
        let unpacked = puller.pull(&reference).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&ours));
    }
    // A signature for another platform's manifest is none for ours.
    let (ours, theirs) = (image("unsigned"), Image::new().platform("linux", "s390x"));
    let reference = registry
        .push("team/app:unsigned", Index::new().image(&theirs).image(&ours))
        .await;
    sign(
        &registry,
        "team/app",
        &Signatures::of(&theirs.digest()).by(&key, &name),
    )
    .await;
    let why = refused(&puller, &reference, Reason::VerificationFailed).await;
    assert!(why.contains(&ours.digest()), "{why}");
}

#[tokio::test]
async fn what_is_rejected_is_never_asked_for() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image("rejected"));
    let policy = Policy::new(&json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { format!("{}/team", registry.host()): [{ "type": "reject" }] } },
    }));
    let puller = Puller::start().policy(policy.path()).await;
    let why = refused(&puller, &reference, Reason::BlockedByPolicy).await;
    assert!(why.contains("rejects it") && why.contains("/team"), "{why}");
    assert_eq!(registry.count(Any::anything()), 0);
    puller
        .pull(&registry.hold("else/app:v1", image("accepted")))
        .await;
}

#[tokio::test]
async fn a_policy_that_is_not_understood_accepts_nothing() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image("v1"));
    for (text, problem) in [
        ("{", "EOF"),
        (r#"{"default": []}"#, "the list is empty"),
        (r#"{"default": [{"type": "acceptAll"}]}"#, "acceptAll"),
        (
            r#"{"default": [{"type": "insecureAcceptAnything"}], "mode": "lax"}"#,
            "mode",
        ),
        (
            r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k"}]}"#,
            "GPG",
        ),
    ] {
        let policy = Policy::new(&json!({}));
        policy.write(text);
        let puller = Puller::start().policy(policy.path()).await;
        let why = refused(&puller, &reference, Reason::BlockedByPolicy).await;
        assert!(why.contains(problem) && why.contains("policy.json"), "{why}");
    }
    assert_eq!(registry.count(Any::anything()), 0);
}

#[tokio::test]
async fn a_corrected_policy_lets_the_image_go_on_by_itself() {
    let registry = DockerRegistry::start().await;
    let (key, old) = (SigningKey::new(), SigningKey::new());
    let policy = Policy::signed_by(&old);
    let puller = Puller::start().policy(policy.path()).await;
    let image = image("signed");
    let tagged = registry.push("team/app:v1", &image).await;
    let pinned = format!("{}@{}", registry.reference("team/app"), image.digest());
    let signatures = Signatures::of(&image.digest()).by(&key, &registry.reference("team/app"));
    sign(&registry, "team/app", &signatures).await;
    refused(&puller, &tagged, Reason::VerificationFailed).await;
    refused(&puller, &pinned, Reason::VerificationFailed).await;

    policy.write("{");
    for image in puller.list().await {
        puller
            .wait_for(&image.id, "the file's own trouble", |image| {
                let error = image.last_error.as_ref();
                error.is_some_and(|error| error.reason() == Reason::BlockedByPolicy)
            })
            .await;
    }
    policy.write(&needs(&policy.directory.path().join("cosign.pub")).to_string());
    // The key alone changes now.
    key.write_public(policy.directory.path(), "cosign.pub");
    for image in puller.list().await {
        let unpacked = puller.wait_for(&image.id, "the content", |image| image.phase() == Phase::Unpacked);
        assert_eq!(unpacked.await.last_error, None);
    }

    // What is unpacked stays, whatever the policy becomes.
    policy.write(&json!({ "default": [{ "type": "reject" }] }).to_string());
    let other = registry.push("team/app:v2", self::image("v2")).await;
    refused(&puller, &other, Reason::BlockedByPolicy).await;
    let states = puller.list().await;
    let unpacked = states.iter().filter(|image| image.phase() == Phase::Unpacked);
    assert_eq!(unpacked.count(), 2);
}

#[tokio::test]
async fn no_policy_is_said_once_and_accepts() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for n in 0..3 {
        let reference = registry.hold(&format!("team/app:v{n}"), image(&n.to_string()));
        puller.pull(&reference).await;
    }
    let said = puller.log().matches("there is no policy").count();
    assert_eq!(said, 1, "{}", puller.log());
}

#[tokio::test]
async fn trouble_with_fetching_signatures_is_no_verdict() {
    let registry = ScriptedRegistry::start().await;
    let key = SigningKey::new();
    let policy = Policy::signed_by(&key);
    let puller = Puller::start().policy(policy.path()).await;
    let image = image("v1");
    let reference = registry.hold("team/app:v1", &image);
    let name = registry.reference("team/app");
    let signatures = Signatures::of(&image.digest()).by(&key, &name);
    registry.hold(
        &format!("team/app:{}", signatures.tag()),
        Content::from(&signatures),
    );
    registry
        .on(Any::manifest(signatures.tag()))
        .then(Answer::status(500));
    let fetched = puller.fetch(&reference).await;
    let retrying = puller.retrying(&fetched.id).await;
    let error = retrying.last_error.expect("an error");
    assert_eq!(error.reason(), Reason::RegistryError, "{}", error.message);
    registry.behave();
    puller
        .wait_for(&fetched.id, "the content", |image| {
            image.phase() == Phase::Unpacked
        })
        .await;
}

#[tokio::test]
async fn pull_without_a_daemon_goes_by_a_policy_too() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image("v1"));
    let policy = Policy::new(&json!({ "default": [{ "type": "reject" }] }));
    let (path, to) = (policy.path(), policy.directory.path().join("tree"));
    let (path, to) = (path.display().to_string(), to.display().to_string());
    let arguments = ["pull", &reference, "--to", &to, "--policy", &path];
    let rejected = puller::cli(arguments).await;
    assert_ne!(rejected.status, 0);
    assert!(
        rejected.stderr.contains("blocked by policy"),
        "{}",
        rejected.stderr
    );
    policy.write(&accept().to_string());
    assert_eq!(puller::cli(arguments).await.status, 0);
}
