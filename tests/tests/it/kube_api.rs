//! The harness's Kubernetes is a real one: what scenarios of the controller build on.

use puller_tests::kube::{ADMIN, KubeApi, NOBODY};

const CONFIG: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team}
data: {colour: green}
";

const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test]
async fn admin_may_write_and_nobody_may_not_and_the_log_has_both() {
    let kube = KubeApi::start().await;
    kube.apply(CONFIG).await;

    let object = kube.get_json(["configmap", "settings", "-n", "team"]).await;
    assert_eq!(object["data"]["colour"], "green");
    let refused = kube
        .kubectl_as(NOBODY, ["create", "configmap", "other", "-n", "team"])
        .await
        .expect_err("nobody may do nothing");
    assert!(refused.stderr.contains("forbidden"), "{refused:?}");

    let writes = kube.writes(ADMIN, "configmaps");
    assert_eq!(writes.len(), 1, "{writes:#?}");
    let write = &writes[0];
    assert_eq!(
        (
            write.verb.as_str(),
            write.namespace.as_str(),
            write.name.as_str(),
            write.code
        ),
        ("patch", "team", "settings", 201)
    );
    let sent = write.request_object.as_ref().expect("what was sent");
    assert_eq!(sent["data"]["colour"], "green");
    let writes = kube.writes(NOBODY, "configmaps");
    assert_eq!(writes.len(), 1, "{writes:#?}");
    assert_eq!((writes[0].verb.as_str(), writes[0].code), ("create", 403));
}

#[tokio::test]
async fn a_killed_server_comes_back_with_its_objects() {
    let mut kube = KubeApi::start().await;
    kube.apply(CONFIG).await;
    kube.apply(WIDGETS).await;
    kube.apply("{apiVersion: example.com/v1, kind: Widget, metadata: {name: first}}")
        .await;
    let (url, pid) = (kube.url(), kube.pid());

    kube.kill().await;
    assert_eq!(kube.pid(), None);
    let gone = kube.kubectl(["get", "widgets", "--request-timeout=5s"]).await;
    gone.expect_err("nobody answers");
    kube.restart().await;

    assert_eq!(kube.url(), url);
    assert_ne!(kube.pid(), pid);
    let object = kube.get_json(["configmap", "settings", "-n", "team"]).await;
    assert_eq!(object["data"]["colour"], "green");
    assert_eq!(
        kube.get_json(["widget", "first"]).await["metadata"]["name"],
        "first"
    );
    let before = kube.writes(ADMIN, "widgets");
    assert_eq!(before.len(), 1, "the log of before is kept: {before:#?}");
}

#[tokio::test]
async fn a_stopped_server_answers_nobody_until_it_goes_on() {
    let kube = KubeApi::start().await;

    kube.stop_answering();
    let get = ["get", "namespace", "default", "--request-timeout=1s"];
    let timeout = kube.kubectl(get).await.expect_err("nobody answers");
    assert!(!timeout.stderr.contains("NotFound"), "{timeout:?}");
    kube.go_on();

    let object = kube.get_json(["namespace", "default"]).await;
    assert_eq!(object["metadata"]["name"], "default");
}
