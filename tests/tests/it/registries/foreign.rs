//! Layers that are to be fetched from somewhere else (R29): nobody but the registry is asked for them.

use puller_tests::{
    image::{Blob, Content, Image, Layer, media_type},
    puller::{Puller, Reason},
    scripted::{Any, Auth, ScriptedRegistry},
};
use serde_json::{Value, json};

/// An image whose second layer is at `urls`, and whether the registry has it too.
fn foreign(name: &str, layer_type: &str, urls: Value, held: bool, artifact: bool) -> Content {
    let image = Image::new()
        .layer(Layer::gzip().file("own", name))
        .layer(Layer::gzip().file("foreign", name));
    let mut manifest: Value = serde_json::from_slice(&image.manifest().bytes).expect("a manifest");
    manifest["layers"][1]["mediaType"] = json!(layer_type);
    if !urls.is_null() {
        manifest["layers"][1]["urls"] = urls;
    }
    if artifact {
        manifest["artifactType"] = json!("application/x.thing");
        manifest["config"]["mediaType"] = json!(media_type::EMPTY);
    }
    let layers = &image.layers()[..if held { 2 } else { 1 }];
    let mut blobs = vec![image.config()];
    blobs.extend(layers.iter().map(|layer| layer.blob.clone()));
    Content::new(vec![Blob::json(media_type::MANIFEST, &manifest)], blobs)
}

#[tokio::test]
async fn r29_foreign_layers_are_refused_and_their_urls_are_not_asked() {
    let elsewhere = ScriptedRegistry::start().await;
    let registry = ScriptedRegistry::start()
        .auth(Auth::basic("user", "secret"))
        .await;
    let puller = Puller::start().await;
    let there = format!("http://{}/layer", elsewhere.host());
    let docker = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    let oci = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip";
    let mut number = 0;
    for artifact in [false, true] {
        for (layer_type, urls) in [
            (media_type::LAYER_GZIP, json!([there])),
            (docker, json!([there])),
            (oci, json!([there, "file:///etc/passwd"])),
            (oci, json!(["ftp://x/y", "unix:///run/docker.sock", "nonsense"])),
            (oci, Value::Null),
            (docker, json!([])),
        ] {
            for held in [false, true] {
                number += 1;
                let name = format!("foreign/n{number}:v1");
                let content = foreign(&name, layer_type, urls.clone(), held, artifact);
                let fetched = puller
                    .fetch(&registry.hold(&name, content))
                    .login(&registry.host(), "user", "secret")
                    .await;
                if held {
                    puller.unpacked(&fetched.id).await;
                    continue;
                }
                let failed = puller.failed(&fetched.id).await;
                let error = failed.last_error.expect("an error");
                assert_eq!(error.reason(), Reason::UnsupportedMediaType, "{}", error.message);
                assert!(error.message.contains("foreign"), "{}", error.message);
            }
        }
    }
    assert_eq!(elsewhere.count(Any::anything()), 0);
}
