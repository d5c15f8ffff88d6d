//! Manifests that are no container images (R30).

use puller_tests::{
    image::{Artifact, Layer},
    puller::Puller,
    scripted::{Get, ScriptedRegistry},
    tree::{Tree, file},
};

const EMPTY: &str = "application/vnd.oci.empty.v1+json";

#[tokio::test]
async fn r30_an_artifact_that_is_all_annotations_is_an_empty_tree() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for artifact in [
        Artifact::new("application/x.note").blob(EMPTY, "{}"),
        Artifact::new("application/x.note").blob(EMPTY, "{}").inline(),
        Artifact::new("application/x.note"),
    ] {
        let unpacked = puller.pull(&registry.hold("team/note:v1", &artifact)).await;
        assert_eq!(unpacked.content.as_ref().expect("content").files, 0);
        assert_eq!(
            registry.count(Get::blobs()),
            0,
            "neither config nor layer is needed"
        );
    }
}

#[tokio::test]
async fn r30_layers_that_the_manifest_holds_itself_are_not_fetched() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let artifact = Artifact::new("application/x.settings")
        .file("settings.json", "application/json", "{\"a\": 1}")
        .inline()
        .layer(Layer::gzip().file("inside", "archive"))
        .inline();
    let unpacked = puller.pull(&registry.hold("team/settings:v1", &artifact)).await;
    let tree = Tree::of(puller.content(&unpacked));
    assert_eq!(tree.get("settings.json"), Some(&file("{\"a\": 1}")));
    assert_eq!(tree.get("inside"), Some(&file("archive")));
    assert_eq!(registry.count(Get::blobs()), 0);
    // Another wish of the same content.
    puller.pull(&registry.hold("other/settings:v1", &artifact)).await;
    assert_eq!(registry.count(Get::blobs()), 0);
}

#[tokio::test]
async fn r30_charts_modules_and_files_without_a_title_are_kept() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let chart = Layer::gzip().file("chart/Chart.yaml", "name: chart\n").build();
    let artifact = Artifact::new("application/vnd.cncf.helm.config.v1+json").blob(
        "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
        chart.bytes(),
    );
    let unpacked = puller.pull(&registry.hold("team/chart:v1", &artifact)).await;
    let tree = Tree::of(puller.content(&unpacked));
    assert_eq!(tree.get("chart/Chart.yaml"), Some(&file("name: chart\n")));

    let module = Artifact::new("application/vnd.wasm.config.v0+json").blob("application/wasm", "\0asm");
    let digest = puller_tests::image::sha256(b"\0asm").replace(':', "-");
    let unpacked = puller.pull(&registry.hold("team/module:v1", &module)).await;
    assert_eq!(
        Tree::of(puller.content(&unpacked)).get(&digest),
        Some(&file("\0asm"))
    );
}
