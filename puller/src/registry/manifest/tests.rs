use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::domain::{Digest, Platform};

const ASKED: &str = "the manifest of quay.io/a/b:v1";
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn parse_as(content_type: &str, value: &Value) -> Result<Manifest, Fault> {
    let raw = RawManifest {
        bytes: Bytes::from(value.to_string()),
        content_type: content_type.into(),
    };
    Manifest::parse(&raw, ASKED)
}

fn parse(value: &Value) -> Result<Manifest, Fault> {
    parse_as("application/octet-stream", value)
}

fn descriptor(media_type: &str) -> Value {
    json!({"mediaType": media_type, "digest": Digest::sha256(b"x").to_string(), "size": 1})
}

fn image(layers: &[Value]) -> Value {
    json!({"schemaVersion": 2, "config": descriptor(IMAGE_CONFIG_MEDIA_TYPE), "layers": layers})
}

fn fails(value: &Value, words: &str) {
    let fault = parse(value).unwrap_err();
    assert_eq!(fault.reason, Reason::UnsupportedMediaType, "{fault}");
    assert_eq!(fault.asked, ASKED);
    assert!(fault.happened.contains(words), "{fault} does not say {words:?}");
}

#[test]
fn the_kind_is_found_whatever_the_content_type_says() {
    let mut typed = image(&[descriptor(GZIP)]);
    typed["mediaType"] = json!(IMAGE_MANIFEST_MEDIA_TYPE);
    for content_type in [
        "",
        "text/html; charset=utf-8",
        "application/json",
        OCI_IMAGE_INDEX_MEDIA_TYPE,
    ] {
        assert!(
            matches!(parse_as(content_type, &typed), Ok(Manifest::Image(_))),
            "{content_type}"
        );
    }
    let untyped = image(&[]);
    for content_type in [
        "",
        "text/plain",
        "Application/vnd.oci.image.manifest.v1+JSON; x=y",
    ] {
        assert!(
            matches!(parse_as(content_type, &untyped), Ok(Manifest::Image(_))),
            "{content_type}"
        );
    }
    let index = json!({"schemaVersion": 2, "manifests": []});
    assert!(matches!(parse(&index), Ok(Manifest::Index(_))));
}

#[test]
fn what_is_two_things_or_none_is_refused() {
    let mut both = image(&[]);
    both["manifests"] = json!([]);
    fails(&both, "both an index and a manifest");
    let mut lies = image(&[]);
    lies["mediaType"] = json!(OCI_IMAGE_INDEX_MEDIA_TYPE);
    fails(&lies, "says that it is an index");
    fails(&json!({"schemaVersion": 2}), "octet-stream");
    fails(
        &json!({"schemaVersion": 3, "config": descriptor("a/b")}),
        "schemaVersion",
    );
    fails(&json!([]), "no manifest");
    let odd = json!({"mediaType": "application/vnd.oci.artifact.manifest.v1+json", "blobs": []});
    fails(&odd, "application/vnd.oci.artifact.manifest.v1+json");
}

#[test]
fn schema_1_is_named() {
    fails(
        &json!({"schemaVersion": 1, "fsLayers": [], "name": "x"}),
        "schema 1",
    );
    fails(&json!({"fsLayers": []}), "schema 1");
    for content_type in SCHEMA_1 {
        let fault = parse_as(content_type, &json!({})).unwrap_err();
        assert!(fault.happened.contains("schema 1"));
    }
}

#[test]
fn unsound_descriptors_are_named() {
    for (field, value, words) in [
        (
            "digest",
            json!("sha256:../../x"),
            "layer 2 is unsound: the digest",
        ),
        ("size", json!(-1), "layer 2 is unsound: its size is -1"),
        ("mediaType", json!("a\nb"), "layer 2 is unsound: its media type"),
        (
            "mediaType",
            json!("application/x-unheard-of"),
            "layer 2 is \"application/x-unheard-of\"",
        ),
        ("mediaType", json!(format!("{GZIP}+encrypted")), "encrypted"),
    ] {
        let mut layer = descriptor(GZIP);
        layer[field] = value;
        fails(&image(&[descriptor(GZIP), layer]), words);
    }
}

#[test]
fn layers_of_all_known_types_are_tars_and_foreign_ones_are_marked() {
    for (media_type, foreign) in [
        ("application/vnd.oci.image.layer.v1.tar", false),
        (GZIP, false),
        ("application/vnd.oci.image.layer.v1.tar+zstd", false),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", false),
        ("application/vnd.docker.image.rootfs.diff.tar", false),
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", true),
        (
            "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
            true,
        ),
    ] {
        let Manifest::Image(image) = parse(&image(&[descriptor(media_type)])).unwrap() else {
            panic!()
        };
        assert_eq!(image.layers[0].form, LayerForm::Tar);
        assert_eq!(image.layers[0].descriptor.foreign, foreign, "{media_type}");
    }
    let mut elsewhere = descriptor(GZIP);
    elsewhere["urls"] = json!(["https://x/"]);
    let Manifest::Image(image) = parse(&image(&[elsewhere])).unwrap() else {
        panic!()
    };
    assert!(image.layers[0].descriptor.foreign);
    let fault = image.layers[0].descriptor.refused_as_foreign(ASKED);
    assert_eq!(fault.reason, Reason::UnsupportedMediaType);
    assert!(fault.happened.contains("foreign"));
}

#[test]
fn an_artifact_has_files_and_archives() {
    let mut file = descriptor("text/plain");
    file["annotations"] = json!({"org.opencontainers.image.title": "a/b.txt"});
    let artifact = json!({
        "schemaVersion": 2,
        "artifactType": "application/vnd.example+json",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": Digest::sha256(b"{}").to_string(), "size": 2, "data": "e30="},
        "layers": [file, descriptor(GZIP), descriptor("application/x")],
    });
    let Manifest::Artifact(artifact) = parse(&artifact).unwrap() else {
        panic!()
    };
    assert_eq!(artifact.artifact_type, "application/vnd.example+json");
    assert_eq!(artifact.config.data.as_deref(), Some(&b"{}"[..]));
    let forms: Vec<_> = artifact.layers.into_iter().map(|layer| layer.form).collect();
    assert_eq!(
        forms,
        [
            LayerForm::File {
                title: Some("a/b.txt".into())
            },
            LayerForm::Tar,
            LayerForm::File { title: None }
        ]
    );
}

#[test]
fn inline_data_must_be_what_its_descriptor_says() {
    for data in ["e30", "!!", "e31=", "e30gIA=="] {
        let mut bad = image(&[]);
        bad["config"] = json!({"mediaType": IMAGE_CONFIG_MEDIA_TYPE, "digest": Digest::sha256(b"{}").to_string(), "size": 2, "data": data});
        assert_eq!(parse(&bad).unwrap_err().reason, Reason::DigestMismatch, "{data}");
    }
}

fn index(platforms: &[&str]) -> Index {
    let entries: Vec<_> = platforms
        .iter()
        .enumerate()
        .map(|(i, text)| {
            let mut parts = text.split('/');
            let mut entry = descriptor(OCI_IMAGE_MEDIA_TYPE);
            entry["size"] = json!(i);
            match *text {
                "" => {}
                "index" => entry["mediaType"] = json!(OCI_IMAGE_INDEX_MEDIA_TYPE),
                "attestation" => {
                    entry["platform"] = json!({"os": "linux", "architecture": "amd64"});
                    entry["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest"});
                }
                _ => {
                    entry["platform"] = json!({"os": parts.next(), "architecture": parts.next()});
                    if let Some(variant) = parts.next() {
                        entry["platform"]["variant"] = json!(variant);
                    }
                }
            }
            entry
        })
        .collect();
    match parse(&json!({"schemaVersion": 2, "manifests": entries})).unwrap() {
        Manifest::Index(index) => index,
        other => panic!("{other:?}"),
    }
}

#[test]
fn picks_by_platform_and_variant() {
    for (platforms, wanted, picked) in [
        (&["linux/arm64", "linux/amd64"][..], "linux/amd64", Some(1)),
        (
            &["unknown/unknown", "attestation", "linux/amd64"],
            "linux/amd64",
            Some(2),
        ),
        (&["attestation"], "linux/amd64", None),
        (&["linux/arm/v6", "linux/arm/v7"], "linux/arm/v7", Some(1)),
        (&["linux/arm", "linux/arm/v7"], "linux/arm/v7", Some(1)),
        (&["linux/arm/v6", "linux/arm"], "linux/arm/v7", Some(1)),
        (&["linux/arm/v6"], "linux/arm/v7", Some(0)),
        (&["linux/arm/v5", "linux/arm/v6"], "linux/arm/v8", Some(1)),
        (&["linux/arm/v7"], "linux/arm/v6", None),
        (&["linux/arm"], "linux/arm/v6", Some(0)),
        (
            &["linux/amd64", "linux/amd64/v2", "linux/amd64/v4"],
            "linux/amd64/v3",
            Some(1),
        ),
        (&["linux/amd64/v4", "linux/amd64/v1"], "linux/amd64/v3", Some(1)),
        (&["linux/amd64/v2"], "linux/amd64/v1", Some(0)),
        (&["linux/arm64"], "linux/arm64/v9", Some(0)),
        (&["linux/arm/v7"], "linux/arm64", None),
        (&["linux/ppc64le/power9"], "linux/ppc64le/power10", None),
        // Other names of the same.
        (&["linux/aarch64"], "linux/arm64", Some(0)),
        (&["linux/arm64/8"], "linux/aarch64", Some(0)),
        (&["Linux/x86_64"], "linux/amd64", Some(0)),
        (&["linux/armhf"], "linux/arm/v7", Some(0)),
        (&["linux/i386"], "linux/386", Some(0)),
        (&["linux/arm/v6", "linux/arm"], "linux/arm", Some(1)),
        (&["linux/arm/v6", "linux/arm/v7"], "linux/arm", Some(0)),
        (&["linux/arm64/v8"], "linux/arm64", Some(0)),
        (&["linux/arm64"], "linux/arm64/v8", Some(0)),
        (&["linux/arm64/v9", "linux/arm64/v8"], "linux/arm64", Some(1)),
        (&["linux/amd64/v3", "linux/amd64"], "linux/amd64", Some(1)),
        (&["windows/amd64"], "linux/amd64", None),
        (&["linux/amd64", "linux/amd64"], "linux/amd64", Some(0)),
        (&[""], "linux/amd64", Some(0)),
        (&["", "attestation"], "linux/amd64", Some(0)),
        (&["", ""], "linux/amd64", None),
        (&["linux/arm64", "index"], "linux/amd64", Some(1)),
        (&["index", "linux/amd64"], "linux/amd64", Some(1)),
        (&["li nux/amd64"], "linux/amd64", None),
        (&[], "linux/amd64", None),
    ] {
        let index = index(platforms);
        let wanted: Platform = wanted.parse().unwrap();
        let found = index
            .pick(&wanted, ASKED)
            .map(|entry| entry.descriptor.as_ref().unwrap().size);
        assert_eq!(found.ok(), picked, "{wanted} of {platforms:?}");
    }
}

/// What an index has beside what is wanted is no reason to refuse it; of two for a platform the one that
/// can be used is taken.
#[test]
fn odd_entries_of_an_index_are_passed_over() {
    let good = || {
        let mut good = descriptor(OCI_IMAGE_MEDIA_TYPE);
        good["platform"] = json!({"os": "linux", "architecture": "amd64"});
        good
    };
    for (field, value) in [
        ("digest", json!("blake3:00")),
        ("digest", json!(null)),
        ("size", json!(-1)),
        ("size", json!("7")),
        ("mediaType", json!("a b")),
        ("mediaType", json!(null)),
        ("mediaType", json!("application/vnd.example.unheard-of+json")),
        ("data", json!("AAAA")),
        ("annotations", json!({"a": null})),
        (
            "annotations",
            json!({"vnd.docker.reference.type": "attestation-manifest"}),
        ),
        ("urls", json!([null])),
        ("platform", json!({"os": null, "architecture": null})),
        ("platform", json!({"os": 7})),
        ("platform", json!(null)),
        (
            "platform",
            json!({"os": "linux", "architecture": "amd64", "os.features": ["nydus.remoteimage.v1"]}),
        ),
    ] {
        let mut odd = good();
        odd[field] = value.clone();
        odd["annotations"]["odd"] = json!("yes");
        let index = parse(&json!({"schemaVersion": 2, "manifests": [odd, json!({}), good()]}));
        let Ok(Manifest::Index(index)) = index else {
            panic!("{field} {value}: {index:?}")
        };
        let picked = index.pick(&"linux/amd64".parse().unwrap(), ASKED).unwrap();
        let is_fine = field == "annotations" && value.get("a").is_some() || field == "urls";
        let annotations = &picked.descriptor.as_ref().unwrap().annotations;
        assert_eq!(annotations.contains_key("odd"), is_fine, "{field} {value}");
    }
    // Where there is no other it is the one, and told.
    let mut odd = good();
    odd["digest"] = json!("blake3:00");
    let Ok(Manifest::Index(index)) = parse(&json!({"manifests": [odd]})) else {
        panic!()
    };
    let picked = index.pick(&"linux/amd64".parse().unwrap(), ASKED).unwrap();
    let fault = picked.descriptor.clone().unwrap_err();
    assert!(fault.happened.contains("manifest 1 is unsound"), "{fault}");
}

/// Docker's old clients wrote types that say nothing into manifests; Docker pulls such images.
#[test]
fn a_config_of_a_type_that_says_nothing_is_an_images_where_docker_says_so() {
    let of = |manifest: &str, config: Value, layer: &str| {
        let mut value = image(&[descriptor(layer)]);
        value["mediaType"] = json!(manifest);
        value["config"]["mediaType"] = config;
        matches!(parse(&value), Ok(Manifest::Image(_)))
    };
    let docker_layer = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    for config in ["application/octet-stream", "application/json", "text/html", ""] {
        let config = json!(config);
        assert!(
            of(IMAGE_MANIFEST_MEDIA_TYPE, config.clone(), docker_layer),
            "{config}"
        );
        let oci = of(OCI_IMAGE_MEDIA_TYPE, config.clone(), GZIP);
        assert_eq!(oci, config == json!(""), "{config}");
        assert!(!of(OCI_IMAGE_MEDIA_TYPE, config, "text/plain"));
    }
    assert!(of(OCI_IMAGE_MEDIA_TYPE, json!(null), GZIP));
    let plugin = json!("application/vnd.docker.plugin.v1+json");
    assert!(!of(IMAGE_MANIFEST_MEDIA_TYPE, plugin, docker_layer));
}

#[test]
fn what_nobody_needs_may_be_of_any_type() {
    let mut layer = descriptor(GZIP);
    layer["annotations"] = json!({"a": null, "b": 7, "c": "d"});
    layer["urls"] = json!(null);
    layer["x"] = json!([{"deep": [1e300]}]);
    let mut value = image(&[layer]);
    value["annotations"] = json!({"a": null});
    value["subject"] = json!("none");
    let Ok(Manifest::Image(image)) = parse(&value) else {
        panic!()
    };
    let annotations = &image.layers[0].descriptor.annotations;
    assert_eq!(annotations.len(), 1);
    assert_eq!(annotations["c"], "d");
    let config = br#"{"rootfs": {"diff_ids": []}, "config": {"Labels": {"a": null, "b": "c"}}}"#;
    assert_eq!(Config::parse(config, 0, ASKED).unwrap().labels.len(), 1);
    let config = br#"{"rootfs": null, "config": {"Env": "x"}, "created": 7}"#;
    assert!(Config::parse(config, 0, ASKED).unwrap().labels.is_empty());
}

#[test]
fn a_platform_that_is_missing_is_told_with_those_that_are_there() {
    let fault = index(&["linux/arm64", "attestation", "windows/amd64"])
        .pick(&"linux/amd64".parse().unwrap(), ASKED)
        .unwrap_err();
    assert_eq!(fault.reason, Reason::PlatformNotFound);
    assert_eq!(
        fault.happened,
        "the index has no image for linux/amd64; it has linux/arm64, windows/amd64"
    );
    let many: Vec<_> = std::iter::repeat_n("linux/arm64", 40).collect();
    let fault = index(&many)
        .pick(&"linux/amd64".parse().unwrap(), ASKED)
        .unwrap_err();
    assert!(fault.happened.ends_with("28 more"), "{fault}");
}

#[test]
fn a_config_has_a_diff_id_for_each_layer() {
    let id = Digest::sha256(b"x").to_string();
    let config = |diff_ids: Value| {
        json!({"rootfs": {"type": "layers", "diff_ids": diff_ids}, "config": {"Labels": {"a": "b"}}})
            .to_string()
    };
    let parsed = Config::parse(config(json!([id])).as_bytes(), 1, ASKED).unwrap();
    assert_eq!(parsed.diff_ids, [Digest::sha256(b"x")]);
    assert_eq!(parsed.labels["a"], "b");
    for (bytes, layers) in [
        (config(json!([id])), 2),
        (config(json!(["sha256:x"])), 1),
        ("{}".to_owned(), 1),
    ] {
        let fault = Config::parse(bytes.as_bytes(), layers, ASKED).unwrap_err();
        assert_eq!(fault.reason, Reason::VerificationFailed, "{bytes}");
    }
    let empty = Config::parse(
        br#"{"config": {"Labels": null}, "rootfs": {"diff_ids": null}}"#,
        0,
        ASKED,
    )
    .unwrap();
    assert!(empty.labels.is_empty() && empty.diff_ids.is_empty());
    assert_eq!(
        Config::parse(b"<html>", 0, ASKED).unwrap_err().reason,
        Reason::UnsupportedMediaType
    );
}

/// Found by fuzzing: a `Content-Type` was quoted whole.
#[test]
fn a_long_content_type_is_cut() {
    let raw = RawManifest {
        bytes: Bytes::from_static(b"<html>"),
        content_type: "a".repeat(20_000),
    };
    let happened = Manifest::parse(&raw, ASKED).unwrap_err().happened;
    assert!(happened.len() < 500, "{} bytes", happened.len());
    assert!(happened.contains("its type is \"aaa"), "{happened}");
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in "\\PC{0,80}", layers in 0..3usize) {
        let raw = RawManifest { bytes: Bytes::from(text.clone()), content_type: text.clone() };
        let _ = Manifest::parse(&raw, ASKED);
        let _ = Config::parse(text.as_bytes(), layers, ASKED);
    }

    /// Whatever one field of a sound manifest becomes, the answer is a manifest or a fault that says
    /// something.
    #[test]
    fn odd_fields_are_faults(field in 0..4usize, number in any::<i64>(), text in "\\PC{0,20}") {
        let name = ["mediaType", "digest", "size", "data"][field];
        for value in [json!(number), json!(text), Value::Null, json!([]), json!({})] {
            let mut layer = descriptor(GZIP);
            layer[name] = value;
            if let Err(fault) = parse(&image(&[layer])) {
                prop_assert!(!fault.happened.is_empty());
            }
        }
    }

    #[test]
    fn a_pick_is_of_the_platform_that_was_asked(
        platforms in prop::collection::vec("(linux|windows)/(amd64|arm|arm64)(/v[678])?", 0..6),
        wanted in "(linux|windows)/(amd64|arm|arm64)(/v[678])?",
    ) {
        let texts: Vec<_> = platforms.iter().map(String::as_str).collect();
        let wanted: Platform = wanted.parse().unwrap();
        if let Ok(entry) = index(&texts).pick(&wanted, ASKED) {
            let picked = entry.platform.clone().unwrap().unwrap();
            prop_assert_eq!((picked.os, picked.architecture), (wanted.os, wanted.architecture));
        }
    }
}
