//! kube-apiserver's files and flags.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use rcgen::KeyPair;
use tokio::process::Command;

use crate::{certificates::Authority, process::Process};

use super::{
    audit, program,
    user::{ADMIN, USERS},
};

/// The program's name.
pub(super) const PROGRAM: &str = "kube-apiserver";

/// All that a server is started with, as often as it is.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) directory: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) etcd: SocketAddr,
    pub(super) ca: PathBuf,
}

impl Settings {
    /// Writes the files that the flags name.
    pub(super) fn write_files(directory: &Path, authority: &Authority) -> anyhow::Result<()> {
        authority
            .server_cert(&["localhost", "127.0.0.1"])
            .write_to(directory)?;
        let key = KeyPair::generate()?;
        fs::write(directory.join("accounts.key"), key.serialize_pem())?;
        fs::write(directory.join("accounts.pub"), key.public_key_pem())?;
        let tokens: String = USERS.iter().map(|user| user.line()).collect();
        fs::write(directory.join("tokens"), tokens)?;
        fs::write(directory.join("audit-policy.json"), audit::policy().to_string())?;
        Ok(())
    }

    /// Starts the server and waits until it is ready; `None`: somebody has taken the port.
    pub(super) async fn start(&self, client: &reqwest::Client) -> anyhow::Result<Option<Process>> {
        let is_ready = async || {
            // Of its own namespaces it makes the last one when it already says that it is ready.
            for path in ["/readyz", "/api/v1/namespaces/default"] {
                let request = client.get(format!("{}{path}", self.url()));
                let answer = request.bearer_auth(ADMIN.token()).send().await;
                if !answer.is_ok_and(|answer| answer.status().is_success()) {
                    return false;
                }
            }
            true
        };
        let log = self.directory.join("log");
        program::start(&mut self.command(), PROGRAM, &log, is_ready).await
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    fn command(&self) -> Command {
        let mut command = program::server(PROGRAM);
        let mut flag = |name: &str, value: &str| {
            command.arg(format!("--{name}={value}"));
        };
        flag("etcd-servers", &format!("http://{}", self.etcd));
        flag("bind-address", &self.address.ip().to_string());
        flag("secure-port", &self.address.port().to_string());
        // It refuses loopback as the address of the service `kubernetes`, which nobody here calls.
        flag("advertise-address", &self.address.ip().to_string());
        flag("endpoint-reconciler-type", "none");
        flag("service-cluster-ip-range", "10.0.0.0/24");
        flag("authorization-mode", "RBAC");
        // Without a controller-manager nobody makes the accounts that it wants pods to have.
        flag("disable-admission-plugins", "ServiceAccount");
        flag("allow-privileged", "true");
        flag("service-account-issuer", "https://kubernetes.default.svc");
        let mut file = |name: &str, path: &Path| {
            command.arg(format!("--{name}={}", path.display()));
        };
        let own = |name: &str| self.directory.join(name);
        file("service-account-signing-key-file", &own("accounts.key"));
        file("service-account-key-file", &own("accounts.pub"));
        file("tls-cert-file", &own("server.crt"));
        file("tls-private-key-file", &own("server.key"));
        file("client-ca-file", &self.ca);
        file("cert-dir", &own("certificates"));
        file("token-auth-file", &own("tokens"));
        file("audit-policy-file", &own("audit-policy.json"));
        file("audit-log-path", &self.audit_log());
        command
    }
}
