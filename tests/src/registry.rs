//! The real registry: Debian's docker-registry, as a process.
//!
//! ```no_run
//! # async fn scenario() {
//! # use puller_tests::{certificates::Authority, image::{Image, Layer}, registry::DockerRegistry};
//! let authority = Authority::new();
//! let registry = DockerRegistry::start().tls(&authority).htpasswd("user", "secret").await;
//! let image = Image::new().layer(Layer::gzip().file("a", "b"));
//! let reference = registry.push("team/app:v1", &image).await;
//! // … pull it …
//! assert_eq!(registry.log().await.gets_of(image.layers()[0].digest()), 1);
//! # }
//! ```

mod log;
mod push;

pub use log::{AccessLog, LogLine};

use std::{
    fs,
    future::IntoFuture,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
};

use anyhow::Context as _;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    certificates::{Authority, install_crypto_provider},
    image::Content,
    process::{Process, free_address, run, without_hostile_environment},
    wait::eventually,
};

/// The program, by its Debian package's name.
const PROGRAM: &str = "docker-registry";

/// bcrypt's cheapest: the registry checks the password anew with each request.
const BCRYPT_COST: u32 = 4;

/// How many ports are tried when others take them first.
const PORTS_TRIED: usize = 5;

/// A running registry.
#[derive(Debug)]
pub struct DockerRegistry {
    process: Option<Process>,
    directory: TempDir,
    address: SocketAddr,
    client: reqwest::Client,
    /// A directory with the certificate of the authority, if the registry speaks TLS.
    authority: Option<PathBuf>,
    login: Option<(String, String)>,
}

/// A registry about to be started; `.await` it.
#[derive(Debug, Default)]
#[must_use = "await it"]
pub struct Starting<'a> {
    authority: Option<&'a Authority>,
    login: Option<(String, String)>,
}

impl<'a> Starting<'a> {
    /// Speaks TLS, with a certificate by this authority for `localhost` and `127.0.0.1`.
    pub fn tls(mut self, authority: &'a Authority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Wants this user and password (basic authentication).
    pub fn htpasswd(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    async fn start(self) -> anyhow::Result<DockerRegistry> {
        install_crypto_provider();
        let directory = TempDir::new()?;
        let mut client = reqwest::Client::builder().no_proxy();
        if let Some(authority) = self.authority {
            authority
                .server_cert(&["localhost", "127.0.0.1"])
                .write_to(directory.path())?;
            client = client.tls_certs_only([reqwest::Certificate::from_pem(authority.pem().as_bytes())?]);
        }
        if let Some((user, password)) = &self.login {
            let hash = bcrypt::hash(password, BCRYPT_COST)?;
            fs::write(directory.path().join("htpasswd"), format!("{user}:{hash}\n"))?;
        }
        let mut registry = DockerRegistry {
            process: None,
            directory,
            address: free_address()?,
            client: client.build()?,
            authority: self.authority.map(|authority| authority.directory().to_owned()),
            login: self.login,
        };
        for _ in 0..PORTS_TRIED {
            if registry.try_switch_on().await? {
                return Ok(registry);
            }
            registry.address = free_address()?;
        }
        anyhow::bail!("{PROGRAM} found no free port in {PORTS_TRIED} tries")
    }
}

impl<'a> IntoFuture for Starting<'a> {
    type Output = DockerRegistry;
    type IntoFuture = Pin<Box<dyn Future<Output = DockerRegistry> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.start().await.unwrap_or_else(|error| panic!("{error:#}")) })
    }
}

impl DockerRegistry {
    /// An empty registry on a free port of loopback; plain HTTP without a password unless told
    /// otherwise. `.await` it.
    pub fn start<'a>() -> Starting<'a> {
        Starting::default()
    }

    /// `127.0.0.1:port`, the registry's name in references.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The full reference of a name in this registry.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Pushes by the registry's HTTP API; `name` is `repository:tag`. Returns the full reference.
    ///
    /// # Panics
    /// The registry refuses it.
    pub async fn push(&self, name: &str, content: impl Into<Content>) -> String {
        let content = content.into();
        push::push(self, name, &content)
            .await
            .unwrap_or_else(|error| panic!("push {name}: {error:#}"));
        self.reference(name)
    }

    /// Pushes by `skopeo copy` from an OCI layout; `name` is `repository:tag`. Returns the full
    /// reference.
    ///
    /// # Panics
    /// skopeo fails.
    pub async fn push_by_skopeo(&self, name: &str, content: impl Into<Content>) -> String {
        let layout = TempDir::new().expect("a temporary directory");
        content
            .into()
            .write_layout(layout.path(), "it")
            .expect("an OCI layout");
        let source = format!("oci:{}:it", layout.path().display());
        let destination = format!("docker://{}", self.reference(name));
        let mut arguments = vec!["--insecure-policy", "copy", "--all"];
        let flags = self.skopeo_flags("dest");
        arguments.extend(flags.iter().map(String::as_str));
        arguments.extend([source.as_str(), destination.as_str()]);
        run("skopeo", &arguments)
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
        self.reference(name)
    }

    /// What skopeo needs to be told of this registry; `side` is `src` or `dest`.
    pub(crate) fn skopeo_flags(&self, side: &str) -> Vec<String> {
        let mut flags = match &self.authority {
            Some(directory) => vec![format!("--{side}-cert-dir={}", directory.display())],
            None => vec![format!("--{side}-tls-verify=false")],
        };
        if let Some((user, password)) = &self.login {
            flags.push(format!("--{side}-creds={user}:{password}"));
        }
        flags
    }

    /// What the registry was asked, up to all requests that were answered before this call.
    ///
    /// # Panics
    /// The registry is switched off.
    pub async fn log(&self) -> AccessLog {
        // The registry writes a line when it is done with a request, which may be after the client has
        // its last byte. So one more request is made, and its line awaited.
        let mark = format!("/v2/?mark={:016x}", rand::random::<u64>());
        self.request(reqwest::Method::GET, &mark)
            .send()
            .await
            .expect("the registry answers");
        let process = self.process.as_ref().expect("the registry is switched on");
        eventually("the registry's access log", || {
            let output = process.output();
            output.contains(&mark).then(|| AccessLog::parse(&output))
        })
        .await
    }

    /// Its process id; none while it is switched off.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref()?.id()
    }

    /// Stops it; its content is kept.
    pub async fn switch_off(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
    }

    /// Starts it again, on the same port with the same content.
    ///
    /// # Panics
    /// Somebody has taken the port.
    pub async fn switch_on(&mut self) {
        let started = self
            .try_switch_on()
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
        assert!(started, "{PROGRAM}: somebody has taken {}", self.address);
    }

    fn scheme(&self) -> &'static str {
        if self.authority.is_some() { "https" } else { "http" }
    }

    /// A request with the registry's own password.
    fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let request = self
            .client
            .request(method, format!("{}://{}{path}", self.scheme(), self.address));
        match &self.login {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }

    /// Starts the process and waits for its first answer; false: the port is taken.
    async fn try_switch_on(&mut self) -> anyhow::Result<bool> {
        let config = self.directory.path().join("config.yml");
        fs::write(&config, self.config())?;
        let log = self.directory.path().join("log");
        let mut command = Command::new(PROGRAM);
        command
            .arg("serve")
            .arg(&config)
            .current_dir(self.directory.path());
        without_hostile_environment(&mut command);
        let is_ready = async || {
            let answer = self.request(reqwest::Method::GET, "/v2/").send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        };
        let process = Process::start_server(&mut command, PROGRAM, &log, is_ready)
            .await
            .context("the scenarios need Debian's package docker-registry; `make tools` installs it")?;
        let started = process.is_some();
        self.process = process;
        Ok(started)
    }

    /// The configuration file: YAML, of which JSON is a part.
    fn config(&self) -> String {
        let path = |name: &str| -> String { Path::join(self.directory.path(), name).display().to_string() };
        let mut config = json!({
            "version": 0.1,
            "log": { "level": "error", "accesslog": { "disabled": false } },
            "storage": { "filesystem": { "rootdirectory": path("storage") } },
            "http": { "addr": self.host() },
        });
        if self.authority.is_some() {
            config["http"]["tls"] = json!({ "certificate": path("server.crt"), "key": path("server.key") });
        }
        if self.login.is_some() {
            config["auth"] = json!({ "htpasswd": { "realm": "the scenarios", "path": path("htpasswd") } });
        }
        config.to_string()
    }
}

#[cfg(test)]
mod tests;
