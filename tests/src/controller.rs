//! The built controller as a process, beside a puller and a kube-apiserver.

use std::net::SocketAddr;

use crate::{
    certificates::Authority,
    kube::{self, KubeApi},
    process::{Process, built_binary, dies_with_us, free_address},
    puller::Puller,
};

/// The CustomResourceDefinition that is shipped.
const CRD: &str = include_str!("../../deploy/crd.yaml");
/// What the controller may do.
const RBAC: &str = include_str!("../../deploy/rbac.yaml");

/// A running controller.
#[derive(Debug)]
pub struct Controller {
    process: Process,
    /// Kept: it goes with this.
    _directory: tempfile::TempDir,
    authority: Authority,
    content: SocketAddr,
    probes: SocketAddr,
}

/// Gives an API server what the controller needs there: the definition, and the rights that are shipped.
///
/// # Panics
/// The API server refuses any of it.
pub async fn install(api: &KubeApi) {
    api.apply("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: olmv1-system\n")
        .await;
    api.apply(CRD).await;
    api.apply(RBAC).await;
    let user = kube::CONTROLLER.name;
    let bind = |kind: &str, namespace: &str| {
        format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}Binding\nmetadata:\n  name: catalogd-manager\n{namespace}\
             roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: catalogd-manager-role\n\
             subjects:\n- apiGroup: rbac.authorization.k8s.io\n  kind: User\n  name: {user}\n"
        )
    };
    let bindings = bind("ClusterRole", "") + &bind("Role", "  namespace: olmv1-system\n");
    api.apply(&bindings).await;
}

impl Controller {
    /// Starts one, with a cache directory of its own.
    ///
    /// # Panics
    /// It can't be started.
    pub fn start(api: &KubeApi, puller: &Puller) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let authority = Authority::new();
        let (cert, key) = authority
            .server_cert(&["localhost"])
            .write_to(directory.path())
            .expect("a certificate can be written");
        let [content, probes] = [(); 2].map(|()| free_address().expect("a port is free"));
        let binary = built_binary("catalog-controller").unwrap_or_else(|error| panic!("{error:#}"));
        let mut command = dies_with_us(binary);
        command
            .arg("--kubeconfig")
            .arg(api.kubeconfig(kube::CONTROLLER))
            .args(["--puller-endpoint", &puller.endpoint(), "--puller-volume"])
            .arg(puller.volume())
            .arg("--cache-dir")
            .arg(directory.path().join("cache"))
            .arg("--tls-cert")
            .arg(cert)
            .arg("--tls-key")
            .arg(key)
            .args(["--system-namespace", "olmv1-system", "--leader-elect"])
            .args(["--external-address", &format!("localhost:{}", content.port())])
            .args(["--catalogs-server-addr", &content.to_string()])
            .args(["--health-probe-bind-address", &probes.to_string()])
            .args(["--metrics-bind-address", "0", "--log-format", "human"]);
        let log = directory.path().join("controller.log");
        let process = Process::start(&mut command, "catalog-controller", &log).expect("it can be started");
        Self {
            process,
            _directory: directory,
            authority,
            content,
            probes,
        }
    }

    /// Where content is served, as a status names it.
    pub fn base_url(&self, catalog: &str) -> String {
        format!("https://localhost:{}/catalogs/{catalog}", self.content.port())
    }

    /// A client that trusts it.
    ///
    /// # Panics
    /// Never: the certificate is sound.
    pub fn client(&self) -> reqwest::Client {
        let ca = reqwest::Certificate::from_pem(self.authority.pem().as_bytes()).expect("it is PEM");
        reqwest::Client::builder()
            .tls_certs_only([ca])
            .build()
            .expect("a client can be built")
    }

    /// The status of its readiness probe.
    ///
    /// # Panics
    /// It does not answer.
    pub async fn readiness(&self) -> u16 {
        let url = format!("http://{}/readyz", self.probes);
        reqwest::get(url).await.expect("it answers").status().as_u16()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        self.process.output()
    }

    /// Ends it as Kubernetes does, and gives its exit code.
    ///
    /// # Panics
    /// It does not end.
    pub async fn terminate(&mut self) -> i32 {
        self.process.ask_to_end();
        let status = self.process.end().await;
        status
            .code()
            .unwrap_or_else(|| panic!("the controller ended by a signal: {status}"))
    }
}
