//! ClusterCatalogs: the controller beside a puller, on a real API server, with the rights that are shipped.

use std::time::Duration;

use puller_tests::{
    controller::{self, Controller},
    image::{Image, Layer},
    kube::KubeApi,
    puller::Puller,
    registry::DockerRegistry,
    wait::PATIENCE,
};
use serde_json::Value;
use tokio::time::Instant;

fn catalog(name: &str, reference: &str) -> String {
    format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata:\n  name: {name}\n\
         spec:\n  source:\n    type: Image\n    image:\n      ref: {reference}\n"
    )
}

async fn object(api: &KubeApi, name: &str) -> Value {
    api.get_json(["clustercatalog", name]).await
}

/// Status and reason of a condition; empty where there is none.
fn condition(object: &Value, type_: &str) -> (String, String) {
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == type_);
    let text = |key: &str| {
        found
            .as_ref()
            .and_then(|found| found[key].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"))
}

/// Waits until a condition has this reason, and gives the object.
async fn becomes(api: &KubeApi, name: &str, type_: &str, reason: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let object = object(api, name).await;
        if condition(&object, type_).1 == reason {
            return object;
        }
        assert!(
            Instant::now() < deadline,
            "{name} does not become {reason}: {}",
            object["status"]
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_catalog_is_pulled_stored_and_served_and_leaves_nothing_when_it_is_deleted() {
    let registry = DockerRegistry::start().await;
    let image =
        Image::catalog(Layer::gzip().file("configs/a/catalog.yaml", "schema: olm.package\nname: a\n"));
    let reference = registry.push("team/catalog:v1", &image).await;
    let (api, puller) = (KubeApi::start().await, Puller::start().await);
    controller::install(&api).await;
    let mut controller = Controller::start(&api, &puller);

    api.apply(&catalog("cat", &reference)).await;
    let served = becomes(&api, "cat", "Serving", "Available").await;
    assert_eq!(
        condition(&served, "Progressing"),
        ("True".into(), "Succeeded".into())
    );
    assert_eq!(served["status"]["urls"]["base"], controller.base_url("cat"));
    let resolved = served["status"]["resolvedSource"]["image"]["ref"]
        .as_str()
        .expect("it is resolved");
    assert!(resolved.ends_with(&format!("@{}", image.digest())), "{resolved}");
    assert_eq!(
        served["metadata"]["labels"]["olm.operatorframework.io/metadata.name"],
        "cat"
    );

    let url = format!("{}/api/v1/all", controller.base_url("cat"));
    let answer = controller.client().get(&url).send().await.expect("it answers");
    assert_eq!(answer.status(), 200);
    assert_eq!(
        answer.text().await.expect("it has a body"),
        "{\"name\":\"a\",\"schema\":\"olm.package\"}\n"
    );
    assert_eq!(controller.readiness().await, 200);

    api.kubectl(["delete", "clustercatalog", "cat", "--timeout=30s"])
        .await
        .expect("nothing holds it");
    let answer = controller.client().get(&url).send().await.expect("it answers");
    assert_eq!(answer.status(), 404);
    assert_eq!(controller.terminate().await, 0, "{}", controller.log());
}

#[tokio::test]
async fn a_registry_that_has_no_such_image_and_a_reference_that_can_not_be_pulled_are_told() {
    let registry = DockerRegistry::start().await;
    let (api, puller) = (KubeApi::start().await, Puller::start().await);
    controller::install(&api).await;
    let _controller = Controller::start(&api, &puller);

    api.apply(&catalog("missing", &registry.reference("team/nothing:v1")))
        .await;
    api.apply(&catalog("wrong", "quay.io/a/B:latest")).await;
    let missing = becomes(&api, "missing", "Progressing", "Retrying").await;
    assert_eq!(
        condition(&missing, "Serving"),
        ("False".into(), "Unavailable".into())
    );
    assert!(missing["status"]["resolvedSource"].is_null());
    let wrong = becomes(&api, "wrong", "Progressing", "Blocked").await;
    assert_eq!(condition(&wrong, "Progressing").0, "False");

    let image =
        Image::catalog(Layer::gzip().file("configs/c.json", r#"{"schema":"olm.package","name":"c"}"#));
    let reference = registry.push("team/right:v1", &image).await;
    api.apply(&catalog("wrong", &reference)).await;
    becomes(&api, "wrong", "Serving", "Available").await;
}
