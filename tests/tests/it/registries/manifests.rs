//! Manifests and configs as tools of every age and make have written them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use puller_tests::{
    image::{Blob, Content, Image, media_type, sha256},
    puller::{Puller, Reason},
    scripted::{Answer, Any, Behaviour, Get, Head, Lie, ScriptedRegistry, Without},
    tree::Tree,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use super::{first_error, small};

fn sha512(bytes: &[u8]) -> String {
    format!("sha512:{}", hex::encode(Sha512::digest(bytes)))
}

/// An image's content with another manifest.
fn with_manifest(image: &Image, manifest: Vec<u8>) -> Content {
    let Content { mut manifests, blobs } = image.into();
    let media_type = manifests.pop().expect("it has one").media_type;
    Content::new(vec![Blob::new(&media_type, manifest)], blobs)
}

/// The same with its manifest changed here and there.
fn changed(image: &Image, change: impl FnOnce(&mut Value)) -> Content {
    let mut manifest: Value = serde_json::from_slice(&image.manifest().bytes).expect("it is JSON");
    change(&mut manifest);
    with_manifest(image, manifest.to_string().into_bytes())
}

type Change = Box<dyn Fn(&mut Value)>;

/// Sets what is at a JSON pointer's parent under its last part.
fn set(pointer: &'static str, value: Value) -> Change {
    Box::new(move |manifest| {
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = manifest.pointer_mut(parent).expect("it is there");
        match parent {
            Value::Array(list) => list[name.parse::<usize>().expect("a number")] = value.clone(),
            parent => parent[name] = value.clone(),
        }
    })
}

#[tokio::test]
async fn manifests_of_every_make_are_understood() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let layer = |image: &Image| image.layers()[0].bytes().to_vec();
    let changes: Vec<(&str, Change)> = vec![
        (
            "unknown",
            set("/unheardOf", json!({"deep": [[[null]]], "size": 1e300})),
        ),
        (
            "subject",
            set(
                "/subject",
                json!({"mediaType": "a/b", "digest": sha256(b"x"), "size": 1}),
            ),
        ),
        ("no-schema", set("/schemaVersion", json!(null))),
        ("no-type", set("/mediaType", json!(null))),
        ("blank-type", set("/mediaType", json!(""))),
        (
            "artifact-type",
            set("/artifactType", json!("application/vnd.example")),
        ),
        (
            "null-annotations",
            set("/layers/0/annotations", json!({"a": null})),
        ),
        ("own-annotations", set("/annotations", json!({"a": 7}))),
        ("null-urls", set("/layers/0/urls", json!(null))),
        ("empty-urls", set("/layers/0/urls", json!([]))),
        (
            "urls",
            set("/layers/0/urls", json!(["https://example.com/x", "", "ftp://x"])),
        ),
        ("null-data", set("/layers/0/data", json!(null))),
        (
            "type-parameters",
            set(
                "/layers/0/mediaType",
                json!("Application/vnd.oci.image.layer.v1.tar+GZIP; x=y"),
            ),
        ),
        (
            "zstd-that-is-gzip",
            set(
                "/layers/0/mediaType",
                json!("application/vnd.oci.image.layer.v1.tar+zstd"),
            ),
        ),
        (
            "plain-that-is-gzip",
            set("/layers/0/mediaType", json!(media_type::LAYER)),
        ),
        (
            "docker-layer",
            set(
                "/layers/0/mediaType",
                json!("application/vnd.docker.image.rootfs.diff.tar.gzip"),
            ),
        ),
        (
            "foreign-but-here",
            set(
                "/layers/0/mediaType",
                json!("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"),
            ),
        ),
        (
            "platform",
            set("/config/platform", json!({"os": "plan9", "architecture": 7})),
        ),
        ("artifact-fields", set("/config/artifactType", json!("x"))),
        ("no-config-type", set("/config/mediaType", json!(null))),
    ];
    for (name, change) in changes {
        let image = small(name);
        let fetched = puller
            .pull(&registry.hold(&format!("made/{name}:v1"), changed(&image, change)))
            .await;
        assert_eq!(fetched.attempt, 1, "{name}: {fetched:#?}");
        Tree::of(puller.content(&fetched)).assert_same_as(&Tree::of_image(&image));
    }
    // Bytes are hashed as they are, whatever they are.
    for (name, before, after) in [("spaces", "\r\n\t ", " \n\n"), ("pretty", "", "\n")] {
        let image = small(name);
        let text = [before.as_bytes(), &image.manifest().bytes, after.as_bytes()].concat();
        puller
            .pull(&registry.hold(&format!("made/{name}:v1"), with_manifest(&image, text)))
            .await;
    }
    // Digests of the other registered algorithm, and what is in the manifest already.
    let image = small("sha512");
    let content = changed(&image, |manifest| {
        manifest["layers"][0]["digest"] = json!(sha512(&layer(&image)));
        manifest["config"]["digest"] = json!(sha512(&image.config().bytes));
    });
    let Content { manifests, blobs } = content;
    let blobs = blobs.into_iter().map(|blob| Blob {
        digest: sha512(&blob.bytes),
        ..blob
    });
    puller
        .pull(&registry.hold("made/sha512:v1", Content::new(manifests, blobs.collect())))
        .await;
    let image = small("inline");
    let content = changed(&image, |manifest| {
        manifest["layers"][0]["data"] = json!(STANDARD.encode(layer(&image)));
        manifest["config"]["data"] = json!(STANDARD.encode(&image.config().bytes));
    });
    let held = registry.hold("made/inline:v1", Content::new(content.manifests, vec![]));
    puller.pull(&held).await;
    assert_eq!(registry.count(Any::blobs().of("made/inline")), 0);
}

/// Docker pulls them: docker/distribution#1621.
#[tokio::test]
async fn a_docker_manifest_whose_config_says_nothing_of_itself_is_an_image() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (at, config) in ["application/octet-stream", "application/json", "text/html", ""]
        .iter()
        .enumerate()
    {
        let image = small(config).docker().label("what", "name");
        let held = registry.hold(
            &format!("untold/config{at}:v1"),
            changed(&image, |manifest| manifest["config"]["mediaType"] = json!(config)),
        );
        // Artifacts have no labels.
        let fetched = puller.fetch(&held).path_of_label("what").await;
        let unpacked = puller.unpacked(&fetched.id).await;
        assert_eq!(unpacked.content.expect("content").files, 1, "{config}");
    }
}

#[tokio::test]
async fn manifests_that_cannot_be_right_are_told_as_what_they_are() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let upper = sha256(b"x").to_uppercase().replace("SHA256", "sha256");
    let unsupported = Reason::UnsupportedMediaType;
    let changes: Vec<(&str, Change, Reason, &str)> = vec![
        (
            "upper",
            set("/layers/0/digest", json!(upper)),
            unsupported,
            "lower-case",
        ),
        (
            "md5",
            set("/layers/0/digest", json!("md5:d41d8cd98f00b204e9800998ecf8427e")),
            unsupported,
            "sha256:",
        ),
        (
            "no-digest",
            set("/layers/0/digest", json!(null)),
            unsupported,
            "null",
        ),
        ("float", set("/layers/0/size", json!(1.5)), unsupported, "1.5"),
        ("text", set("/layers/0/size", json!("12")), unsupported, "\"12\""),
        ("negative", set("/layers/0/size", json!(-1)), unsupported, "-1"),
        (
            "huge",
            set("/layers/0/size", json!(u64::MAX)),
            unsupported,
            "18446744073709551615",
        ),
        (
            "vast",
            set("/layers/0/size", json!(i64::MAX)),
            Reason::LimitExceeded,
            "9223372036854775807",
        ),
        (
            "vast-config",
            set("/config/size", json!(i64::MAX)),
            Reason::LimitExceeded,
            "9223372036854775807",
        ),
        (
            "encrypted",
            set(
                "/layers/0/mediaType",
                json!("application/vnd.oci.image.layer.v1.tar+gzip+encrypted"),
            ),
            unsupported,
            "encrypted",
        ),
        ("lottery", set("/layers/0", json!([])), unsupported, "no manifest"),
        ("null-layer", set("/layers/0", json!(null)), unsupported, "null"),
        (
            "no-layers",
            set("/layers", json!(null)),
            Reason::VerificationFailed,
            "1 diffIDs for 0 layers",
        ),
        ("no-config", set("/config", json!(null)), unsupported, "no config"),
        ("index-too", set("/manifests", json!([])), unsupported, "both"),
        (
            "schema",
            set("/schemaVersion", json!(3)),
            unsupported,
            "schemaVersion",
        ),
        ("schema1", set("/schemaVersion", json!(1)), unsupported, "schema1"),
        (
            "type",
            set("/mediaType", json!("application/vnd.oci.image.index.v1+json")),
            unsupported,
            "index",
        ),
        (
            "short-config",
            set("/config/size", json!(1)),
            Reason::DigestMismatch,
            "descriptor says 1",
        ),
        (
            "short-layer",
            set("/layers/0/size", json!(1)),
            Reason::DigestMismatch,
            "descriptor says 1",
        ),
        (
            "long-layer",
            set("/layers/0/size", json!(100_000)),
            Reason::DigestMismatch,
            "descriptor says 100000",
        ),
        (
            "data",
            set("/layers/0/data", json!("AAAA")),
            Reason::DigestMismatch,
            "data of its layer 1",
        ),
        (
            "no-base64",
            set("/config/data", json!("%")),
            Reason::DigestMismatch,
            "data of its config",
        ),
    ];
    for (name, change, reason, words) in changes {
        let content = changed(&small(name), change);
        let (found, message) = first_error(&puller, &registry, &format!("bad/{name}:v1"), content).await;
        assert_eq!(found, reason, "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
        assert!(!message.contains(".."), "{name}: {message}");
    }
    for (name, text, words) in [
        ("bom", "\u{feff}{}", "no manifest"),
        (
            "twice",
            r#"{"schemaVersion":2,"config":null,"layers":[],"layers":[]}"#,
            "duplicate field",
        ),
        ("list", "[]", "no manifest"),
        ("nothing", "{}", "no config"),
        ("cut", r#"{"schemaVersion":2,"#, "EOF"),
        ("deep", &"[".repeat(100_000), "no manifest"),
        ("empty", "", "no manifest"),
    ] {
        let content = with_manifest(&small(name), text.as_bytes().to_vec());
        let (found, message) = first_error(&puller, &registry, &format!("bad/{name}:v1"), content).await;
        assert_eq!(found, Reason::UnsupportedMediaType, "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[tokio::test]
async fn configs_that_are_none_are_told() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (name, config, reason, words) in [
        (
            "empty",
            "{}",
            Reason::VerificationFailed,
            "0 diffIDs for 1 layers",
        ),
        (
            "null",
            r#"{"rootfs":null}"#,
            Reason::VerificationFailed,
            "0 diffIDs for 1 layers",
        ),
        (
            "one-more",
            r#"{"rootfs":{"diff_ids":["a","b"]}}"#,
            Reason::VerificationFailed,
            "2 diffIDs for 1 layers",
        ),
        (
            "odd",
            r#"{"rootfs":{"diff_ids":["sha256:x"]}}"#,
            Reason::VerificationFailed,
            "sha256:x",
        ),
        (
            "page",
            "<html>",
            Reason::UnsupportedMediaType,
            "its config is none",
        ),
        ("list", "[]", Reason::UnsupportedMediaType, "its config is none"),
    ] {
        let image = small(name);
        let Content { manifests, mut blobs } = (&image).into();
        let bytes = config.as_bytes().to_vec();
        let mut manifest: Value = serde_json::from_slice(&manifests[0].bytes).expect("JSON");
        manifest["config"]["digest"] = json!(sha256(&bytes));
        manifest["config"]["size"] = json!(bytes.len());
        blobs.push(Blob::new(media_type::CONFIG, bytes));
        let content = Content::new(vec![Blob::json(media_type::MANIFEST, &manifest)], blobs);
        let (found, message) = first_error(&puller, &registry, &format!("config/{name}:v1"), content).await;
        assert_eq!(found, reason, "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
    }
}

/// Statuses of success that are none for a manifest or a layer, and redirects that lead nowhere.
#[tokio::test]
async fn answers_that_say_nothing_are_no_content() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let nothing = |status: u16| -> Vec<Behaviour> {
        vec![
            Answer::status(status),
            Lie::body(""),
            Without::digest_header(),
            Without::header("location"),
        ]
    };
    for status in [
        200, 202, 203, 204, 206, 207, 226, 300, 302, 304, 305, 306, 307, 399,
    ] {
        let repository = format!("says/head{status}");
        registry
            .on(Head::manifests().of(&repository))
            .then(nothing(status));
        let unpacked = puller
            .pull(&registry.hold(&format!("{repository}:v1"), small(&repository)))
            .await;
        assert_eq!(unpacked.attempt, 1, "{status}: {unpacked:#?}");
        for (what, matcher) in [("manifest", Get::manifests()), ("blob", Get::blobs())] {
            let repository = format!("says/{what}{status}");
            registry
                .on(matcher.of(&repository))
                .times(1)
                .then(nothing(status));
            let fetched = puller
                .fetch(&registry.hold(&format!("{repository}:v1"), small(&repository)))
                .await;
            let unpacked = puller.unpacked(&fetched.id).await;
            assert_eq!(unpacked.attempt, 2, "{what} {status}: {unpacked:#?}");
            let reason = unpacked.attempts[0].reason();
            let retried = [Reason::RegistryError, Reason::DigestMismatch, Reason::Network];
            assert!(retried.contains(&reason), "{what} {status}: {unpacked:#?}");
        }
    }
}
