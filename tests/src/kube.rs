//! The real kube-apiserver, with an etcd of its own, as processes; and the real kubectl.
//!
//! No controller-manager runs: nobody makes service accounts or collects garbage, and a namespace that is
//! deleted stays there, terminating.
//!
//! ```no_run
//! # async fn scenario() {
//! # use puller_tests::kube::{CONTROLLER, KubeApi};
//! let kube = KubeApi::start().await;
//! kube.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}").await;
//! let refused = kube.kubectl_as(CONTROLLER, ["get", "namespaces"]).await.unwrap_err();
//! assert!(refused.stderr.contains("Forbidden"));
//! assert!(kube.writes(CONTROLLER, "").is_empty());
//! # }
//! ```

mod audit;
mod etcd;
mod kubectl;
mod program;
mod server;
mod user;

pub use audit::AuditEvent;
pub use kubectl::{Kubectl, KubectlError};
pub use user::{ADMIN, CONTROLLER, NOBODY, SCRAPER, User};

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    certificates::{Authority, install_crypto_provider},
    process::{Process, free_address},
    wait::PATIENCE,
};

use etcd::Etcd;
use server::{PROGRAM, Settings};

/// How many ports are tried when others take them first.
const PORTS_TRIED: usize = 5;

/// A running server; it and its etcd are killed when this is dropped, or when the thread that started it
/// ends.
#[derive(Debug)]
pub struct KubeApi {
    process: Option<Process>,
    settings: Settings,
    client: reqwest::Client,
    /// Kept so that it is killed on drop.
    _etcd: Etcd,
    /// Kept for its file.
    _authority: Authority,
    /// Last, so that it is removed when nobody writes into it any more.
    directory: TempDir,
}

impl KubeApi {
    /// A server with nothing but what Kubernetes itself puts there, on a free port of loopback.
    ///
    /// # Panics
    /// A program is missing, or does not get ready within a minute.
    pub async fn start() -> Self {
        Self::try_start()
            .await
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    async fn try_start() -> anyhow::Result<Self> {
        install_crypto_provider();
        let directory = TempDir::new()?;
        let authority = Authority::new();
        Settings::write_files(directory.path(), &authority)?;
        let client = reqwest::Client::builder()
            .no_proxy()
            // One that begins to answer before it is ready may let a request wait for long.
            .timeout(Duration::from_secs(2))
            .tls_certs_only([reqwest::Certificate::from_pem(authority.pem().as_bytes())?])
            .build()?;
        let etcd = Etcd::start(directory.path(), &client).await?;
        let mut settings = Settings {
            directory: directory.path().to_owned(),
            address: free_address()?,
            etcd: etcd.address,
            ca: authority.ca_file(),
        };
        for _ in 0..PORTS_TRIED {
            if let Some(process) = settings.start(&client).await? {
                let kube = Self {
                    process: Some(process),
                    settings,
                    client,
                    _etcd: etcd,
                    _authority: authority,
                    directory,
                };
                kube.write_kubeconfigs()?;
                return Ok(kube);
            }
            settings.address = free_address()?;
        }
        anyhow::bail!("{PROGRAM} found no free port in {PORTS_TRIED} tries")
    }

    /// `https://127.0.0.1:port`.
    pub fn url(&self) -> String {
        self.settings.url()
    }

    /// A file with the certificate of the server's authority.
    pub fn ca(&self) -> &Path {
        &self.settings.ca
    }

    /// The bearer token of a user.
    pub fn token(&self, user: User) -> String {
        user.token()
    }

    /// A kubeconfig file, with which a program calls the server as this user.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.directory.path().join(format!("{}.kubeconfig", user.name))
    }

    /// The server's process id; none while it is killed.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref()?.id()
    }

    /// A call of kubectl as [`ADMIN`]. On a server that does not answer it waits for long: give it
    /// `--request-timeout=1s`.
    pub fn kubectl<A: Into<String>>(&self, arguments: impl IntoIterator<Item = A>) -> Kubectl {
        self.kubectl_as(ADMIN, arguments)
    }

    /// A call of kubectl as this user.
    pub fn kubectl_as<A: Into<String>>(&self, user: User, arguments: impl IntoIterator<Item = A>) -> Kubectl {
        Kubectl::new(arguments, self.kubeconfig(user), self.directory.path())
    }

    /// Makes these objects be as the YAML says, as [`ADMIN`] and by server-side apply, whoever set their
    /// fields before. Kinds that they define can be used when this returns, but not in the same YAML.
    ///
    /// # Panics
    /// The server refuses something of it.
    pub async fn apply(&self, yaml: &str) {
        let apply = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "-o",
            "name",
            "-f",
            "-",
        ];
        let applied = self.kubectl(apply).stdin(yaml).await;
        let applied = applied.unwrap_or_else(|error| panic!("kubectl apply: {}", error.stderr));
        let kinds = applied
            .lines()
            .filter(|name| name.starts_with("customresourcedefinition."));
        for kind in kinds {
            self.kubectl(["wait", "--for=condition=Established", "--timeout=50s", kind])
                .await
                .unwrap_or_else(|error| panic!("{kind}: {}", error.stderr));
        }
    }

    /// What `kubectl get` says of these arguments, such as `["configmaps", "-n", "team"]`.
    ///
    /// # Panics
    /// It fails.
    pub async fn get_json<A: Into<String>>(&self, arguments: impl IntoIterator<Item = A>) -> Value {
        let arguments = arguments.into_iter().map(Into::into);
        let arguments: Vec<String> = ["get", "-o", "json"]
            .map(str::to_owned)
            .into_iter()
            .chain(arguments)
            .collect();
        let what = arguments.join(" ");
        let answer = self.kubectl(arguments).await;
        let answer = answer.unwrap_or_else(|error| panic!("kubectl {what}: {}", error.stderr));
        serde_json::from_str(&answer).expect("kubectl prints JSON")
    }

    /// SIGKILL; etcd runs on.
    pub async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
    }

    /// Starts the server again, on the same port with the same objects; kills it before, if it runs.
    ///
    /// # Panics
    /// It does not get ready, or somebody else keeps the port, for a minute.
    pub async fn restart(&mut self) {
        self.kill().await;
        let deadline = Instant::now() + PATIENCE;
        while self.process.is_none() {
            // A client that tries in vain to connect has, with bad luck, the port itself for a moment.
            assert!(
                Instant::now() < deadline,
                "somebody has taken {}",
                self.settings.address
            );
            let started = self.settings.start(&self.client).await;
            self.process = started.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }

    /// The server does nothing more, though its connections stay and new ones come about (SIGSTOP).
    pub fn stop_answering(&self) {
        self.signal(Signal::STOP);
    }

    /// The server goes on where it stopped (SIGCONT).
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// All that the server was asked, by anybody, in the order of its answers; also before a restart. What
    /// was answered to the end is there.
    ///
    /// # Panics
    /// The audit log is not what it is known to be.
    pub fn requests(&self) -> Vec<AuditEvent> {
        let log = fs::read(self.settings.audit_log()).unwrap_or_default();
        audit::parse(&String::from_utf8_lossy(&log))
    }

    /// The writes of this user, granted or not, to resources whose name has this part: `clustercatalogs`
    /// is also a part of `clustercatalogs/status`, and the empty string one of all.
    pub fn writes(&self, user: User, resource_part: &str) -> Vec<AuditEvent> {
        let mut events = self.requests();
        events.retain(|event| {
            event.is_write() && event.user == user.name && event.resource.contains(resource_part)
        });
        events
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("the server runs");
        process.signal(signal);
    }

    fn write_kubeconfigs(&self) -> anyhow::Result<()> {
        for user in user::USERS {
            let config = user.kubeconfig(&self.url(), self.ca());
            fs::write(self.kubeconfig(user), config.to_string())?;
        }
        Ok(())
    }
}
