//! Manifests, configs and layers that come with the wrong labels, or are something else.

use std::io::Write as _;

use puller_tests::{
    image::{Image, Index, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Answer, Any, Behaviour, Get, Head, Lie, ScriptedRegistry, Without},
};

use super::{first_error, image, pull_at_once, small};

#[tokio::test]
async fn r01_the_digest_header_is_optional_and_must_be_right_if_there() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (name, header) in [
        ("none", Without::digest_header()),
        ("blank", Lie::digest_header("")),
        ("nonsense", Lie::digest_header("W/\"etag\"")),
        (
            "unknown",
            Lie::digest_header("md5:d41d8cd98f00b204e9800998ecf8427e"),
        ),
    ] {
        let repository = format!("digest/{name}");
        registry.on(Any::manifests().of(&repository)).then(header);
        let image = small(name);
        let unpacked = pull_at_once(&puller, &registry, &format!("{repository}:v1"), &image).await;
        assert_eq!(unpacked.resolution.expect("a resolution").digest, image.digest());
    }
    registry
        .on(Head::manifests().of("digest/wrong"))
        .then(Answer::status(405));
    registry
        .on(Get::manifests().of("digest/wrong"))
        .then(Lie::digest_header(&image("other").digest()));
    let (reason, message) = first_error(&puller, &registry, "digest/wrong:v1", &small("wrong")).await;
    assert_eq!(reason, Reason::DigestMismatch, "{message}");
}

#[tokio::test]
async fn r02_lengths_need_not_be_told() {
    let registry = ScriptedRegistry::start().await;
    registry.on(Any::anything()).then(Without::content_length());
    let puller = Puller::start().await;
    pull_at_once(&puller, &registry, "length/app:v1", &image("length")).await;
    let index = Index::new().image(&small("length"));
    puller.pull(&registry.hold("length/index:v1", &index)).await;
    // Empty files and layers of no entries have lengths too.
    pull_at_once(
        &puller,
        &registry,
        "length/empty:v1",
        &Image::new()
            .layer(Layer::gzip())
            .layer(Layer::plain().file("empty", "")),
    )
    .await;
}

#[tokio::test]
async fn r04_the_content_type_does_not_decide() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (at, content_type) in [
        "application/json",
        "text/html",
        "text/plain; charset=utf-8",
        "application/octet-stream",
        "application/x-gzip",
        "APPLICATION/VND.OCI.IMAGE.INDEX.V1+JSON",
        "nonsense",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        for docker in [true, false] {
            let repository = format!("type/{at}-{docker}");
            let image = match docker {
                true => small(&repository).docker(),
                false => small(&repository),
            };
            registry
                .on(Any::anything().of(&repository))
                .then(Lie::content_type(content_type));
            pull_at_once(&puller, &registry, &format!("{repository}:v1"), &image).await;
        }
    }
    registry
        .on(Any::anything().of("type/none"))
        .then(Without::header("content-type"));
    pull_at_once(&puller, &registry, "type/none:v1", &small("none")).await;
}

#[tokio::test]
async fn r04_schema_1_is_refused_by_its_name() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let schema_1 = r#"{"schemaVersion":1,"name":"a","tag":"v1","architecture":"amd64","fsLayers":[{"blobSum":"sha256:e3b0"}],"history":[]}"#;
    let signed = "application/vnd.docker.distribution.manifest.v1+prettyjws";
    let own_digest = puller_tests::image::sha256(schema_1.as_bytes());
    // A signed one has the digest of what is signed, which is not all of its body.
    let payload_digest = puller_tests::image::sha256(b"without the signatures");
    for (at, (content_type, digest)) in [
        ("text/plain", &own_digest),
        ("application/json", &own_digest),
        (signed, &own_digest),
        (signed, &payload_digest),
        (
            "application/vnd.docker.distribution.manifest.v1+json; charset=utf-8",
            &payload_digest,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        for head in [true, false] {
            let repository = format!("schema/one{at}-{head}");
            if !head {
                registry
                    .on(Head::manifests().of(&repository))
                    .then(Answer::status(405));
            }
            registry
                .on(Any::manifests().of(&repository))
                .then(Answer::status(200))
                .and(Lie::body(schema_1))
                .and(Lie::content_type(content_type))
                .and(Lie::digest_header(digest));
            let fetched = puller
                .fetch(&registry.hold(&format!("{repository}:v1"), small("schema")))
                .await;
            let failed = puller.failed(&fetched.id).await;
            let error = failed.last_error.expect("an error");
            assert_eq!(error.reason(), Reason::UnsupportedMediaType);
            assert!(error.message.contains("schema1"), "{}", error.message);
        }
    }
}

#[tokio::test]
async fn r22_a_page_in_place_of_a_layer_is_never_content_and_is_quoted() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let page = b"<!DOCTYPE html><html><body>Please sign in";
    for (name, padded, chunked) in [
        ("good-length", true, false),
        ("good-length-chunked", true, true),
        ("short", false, false),
    ] {
        let image = image(name);
        let layer = &image.layers()[0];
        let mut body = page.to_vec();
        if padded {
            body.resize(layer.bytes().len(), b' ');
        }
        let mut lie = vec![Lie::body(body), Lie::content_type("text/html; charset=utf-8")];
        lie.extend(chunked.then(Without::content_length));
        registry.on(Get::blob(layer.digest())).times(1).then(lie);
        let fetched = puller
            .fetch(&registry.hold(&format!("page/{name}:v1"), &image))
            .await;
        let failed = puller
            .wait_for(&fetched.id, "an error", |image| !image.attempts.is_empty())
            .await;
        assert_eq!(failed.attempts[0].reason(), Reason::DigestMismatch, "{failed:#?}");
        let message = &failed.attempts[0].message;
        assert!(
            message.contains("text/html") && message.contains("Please sign in"),
            "{name}: {message}"
        );
        let unpacked = puller.unpacked(&fetched.id).await;
        assert_eq!(
            unpacked.attempts.len(),
            2,
            "the page's bytes are not gone on with"
        );
    }
}

/// A page in place of a manifest may go away by itself.
#[tokio::test]
async fn r22_a_page_in_place_of_a_manifest_is_tried_again() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let page = registry
        .on(Any::manifests())
        .times(2)
        .then(Lie::html())
        .and(Without::digest_header());
    let fetched = puller
        .fetch(&registry.hold("page/manifest:v1", small("page")))
        .await;
    let unpacked = puller.unpacked(&fetched.id).await;
    assert_eq!(unpacked.phase(), Phase::Unpacked);
    assert!(
        unpacked.attempts[0].message.contains("text/html"),
        "{unpacked:#?}"
    );
    page.release();
}

/// Digests are of the bytes that a registry was given: what has the right one is not decoded, whatever the header
/// says.
#[tokio::test]
async fn an_encoding_that_is_none_is_not_undone() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for encoding in ["gzip", "x-gzip", "br", "zstd", "deflate", "identity"] {
        let repository = format!("encoding/{encoding}");
        registry
            .on(Get::anything().of(&repository))
            .then(Answer::header("content-encoding", encoding));
        pull_at_once(&puller, &registry, &format!("{repository}:v1"), &small(encoding)).await;
    }
    for request in registry.requests() {
        assert_eq!(request.header("accept-encoding"), "identity", "{request:?}");
    }
}

/// A proxy that encodes whatever it is asked for costs nothing; one that encodes what nobody can decode is told.
#[tokio::test]
async fn what_was_encoded_on_the_way_is_decoded() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let image = small("encoded");
    let encoded = |bytes: &[u8]| -> [Behaviour; 2] {
        [Lie::body(gzip(bytes)), Answer::header("content-encoding", "gzip")]
    };
    let layer = &image.layers()[0];
    registry
        .on(Get::manifests().of("encoding/all"))
        .then(encoded(&image.manifest().bytes));
    registry
        .on(Get::blob(layer.digest()).of("encoding/all"))
        .then(encoded(layer.bytes()));
    pull_at_once(&puller, &registry, "encoding/all:v1", &image).await;

    let other = small("brotli");
    let unknown: [Behaviour; 2] = [Lie::body("no brotli"), Answer::header("content-encoding", "br")];
    registry.on(Get::manifests().of("encoding/br")).then(unknown);
    let (reason, message) = first_error(&puller, &registry, "encoding/br:v1", &other).await;
    assert_eq!(reason, Reason::DigestMismatch, "{message}");
    assert!(message.contains("its encoding \"br\""), "{message}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}
