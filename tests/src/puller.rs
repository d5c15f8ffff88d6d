//! The built daemon as a process, and its command line.
//!
//! ```no_run
//! # async fn scenario(reference: &str) {
//! # use puller_tests::puller::Puller;
//! let mut puller = Puller::start().flag("--max-pulls", "2").await;
//! let image = puller.fetch(reference).claimant("me").await;
//! let image = puller.unpacked(&image.id).await;
//! assert!(puller.content(&image).join("etc/motd").exists());
//! puller.kill_and_start_again().await;
//! assert_eq!(puller.unpacked(&image.id).await.id, image.id);
//! # }
//! ```

mod calls;
mod cli;
mod crash;
mod fetch;
mod memory;
mod watch;

pub use cli::{CliOutput, cli};
pub use crash::crash_points;
pub use fetch::Fetch;
pub use puller_api::v1::{Image, Phase, Reason};
pub use watch::{WatchCall, Watcher, version_of};

use std::{
    fs,
    future::IntoFuture,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use puller_api::v1::puller_client::PullerClient;
use tempfile::TempDir;
use tokio::{process::Command, time::Instant};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    certificates::install_crypto_provider,
    process::{Process, free_address, run_to_end, without_hostile_environment},
    wait::{PATIENCE, within_patience},
};

/// How often a puller that starts is asked whether it serves.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// A running puller. Dropped, it is killed; if the scenario panics, its last log lines are shown.
#[derive(Debug)]
pub struct Puller {
    process: Option<Process>,
    client: Option<PullerClient<Channel>>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    binary: PathBuf,
    volume: PathBuf,
    socket: PathBuf,
    tcp_address: Option<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    policy: PathBuf,
    /// Holds the socket, the log, and the volume unless the scenario brought its own.
    directory: TempDir,
}

/// A puller about to be started; `.await` it, or [`try_start`](Starting::try_start) it.
#[derive(Debug, Default)]
#[must_use = "await it"]
pub struct Starting {
    binary: Option<PathBuf>,
    volume: Option<PathBuf>,
    socket: Option<PathBuf>,
    tcp_address: Option<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    policy: Option<PathBuf>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Starting {
    /// Uses this volume instead of a new one of its own.
    pub fn volume(mut self, directory: impl Into<PathBuf>) -> Self {
        self.volume = Some(directory.into());
        self
    }

    /// Runs this program instead of the built one.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Uses this socket instead of one of its own.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Passes a flag with its value, such as `.flag("--grace-period", "2s")`.
    pub fn flag(mut self, name: &str, value: impl Into<String>) -> Self {
        self.arguments.extend([name.to_owned(), value.into()]);
        self
    }

    /// Passes a flag that has no value.
    pub fn switch(mut self, name: &str) -> Self {
        self.arguments.push(name.to_owned());
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Goes by this verification policy. A puller that is told none has none, whatever this machine has.
    pub fn policy(mut self, file: impl AsRef<Path>) -> Self {
        self.policy = Some(file.as_ref().to_owned());
        self
    }

    /// Speaks plain HTTP with this registry.
    pub fn plain_http(self, host: &str) -> Self {
        self.flag("--plain-http", host)
    }

    /// Trusts this authority as well.
    pub fn ca_file(self, file: impl AsRef<Path>) -> Self {
        self.flag("--ca-file", file.as_ref().display().to_string())
    }

    /// Serves on a TCP port of loopback too.
    ///
    /// # Panics
    /// Loopback has no free port.
    pub fn listen_on_loopback(mut self) -> Self {
        let address = free_address().unwrap_or_else(|error| panic!("{error:#}"));
        self.tcp_address = Some(address);
        self.flag("--listen", address.to_string())
    }

    /// Serves metrics on a TCP port of loopback.
    ///
    /// # Panics
    /// Loopback has no free port.
    pub fn metrics(mut self) -> Self {
        let address = free_address().unwrap_or_else(|error| panic!("{error:#}"));
        self.metrics_address = Some(address);
        self.flag("--metrics-address", address.to_string())
    }

    /// Gives an attempt up when nothing moved for so long.
    pub fn idle_timeout(self, duration: Duration) -> Self {
        self.flag("--idle-timeout", format!("{}ms", duration.as_millis()))
    }

    /// Keeps what nobody claims for so long.
    pub fn grace_period(self, duration: Duration) -> Self {
        self.flag("--grace-period", format!("{}ms", duration.as_millis()))
    }

    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// The binary is missing, or ends, or does not serve within a minute; the message has its last
    /// words.
    pub async fn try_start(self) -> anyhow::Result<Puller> {
        let mut puller = self.prepare()?;
        puller.launch().await?;
        Ok(puller)
    }

    /// Starts it where it is expected to end by itself, and returns its exit code and what it said.
    ///
    /// # Panics
    /// It does not end within a minute.
    pub async fn fails(self) -> (i32, String) {
        let puller = self.prepare().unwrap_or_else(|error| panic!("{error:#}"));
        let output = run_to_end(&mut puller.command(), "puller serve").await;
        (output.status, format!("{}{}", output.stdout, output.stderr))
    }

    /// Makes all ready for a start, and does not start it.
    ///
    /// # Errors
    /// The binary is missing.
    pub fn prepare(self) -> anyhow::Result<Puller> {
        let directory = TempDir::new()?;
        Ok(Puller {
            process: None,
            client: None,
            binary: self.binary.map_or_else(built_binary, Ok)?,
            arguments: self.arguments,
            environment: self.environment,
            tcp_address: self.tcp_address,
            metrics_address: self.metrics_address,
            policy: self
                .policy
                .unwrap_or_else(|| directory.path().join("no-policy.json")),
            socket: self
                .socket
                .unwrap_or_else(|| directory.path().join("puller.sock")),
            volume: self.volume.unwrap_or_else(|| directory.path().join("volume")),
            directory,
        })
    }
}

impl IntoFuture for Starting {
    type Output = Puller;
    type IntoFuture = Pin<Box<dyn Future<Output = Puller> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.try_start().await.unwrap_or_else(|error| panic!("{error:#}")) })
    }
}

impl Puller {
    /// A puller with a new volume and a socket of its own. `.await` it.
    pub fn start() -> Starting {
        Starting::default()
    }

    /// The Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// The Unix socket, as clients and the command line name it.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// The volume.
    pub fn volume(&self) -> &Path {
        &self.volume
    }

    /// The root of an Image's published tree.
    ///
    /// # Panics
    /// It has none.
    pub fn content(&self, image: &Image) -> PathBuf {
        let content = image
            .content
            .as_ref()
            .unwrap_or_else(|| panic!("no content in {image:#?}"));
        self.volume.join(&content.path)
    }

    /// The process's id.
    ///
    /// # Panics
    /// It does not run.
    pub fn pid(&self) -> u32 {
        self.process
            .as_ref()
            .and_then(Process::id)
            .expect("the puller runs")
    }

    /// All that it has logged so far, over restarts.
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// A gRPC client over the socket.
    ///
    /// # Panics
    /// The puller does not run.
    pub fn client(&self) -> PullerClient<Channel> {
        self.client.clone().expect("the puller runs")
    }

    /// kill -9.
    pub async fn kill(&mut self) {
        self.client = None;
        if let Some(mut process) = self.process.take() {
            process.kill().await;
        }
    }

    /// SIGTERM; waits for the end and returns the exit code.
    ///
    /// # Panics
    /// It does not run, does not end within a minute, or is killed by a signal.
    pub async fn terminate(&mut self) -> i32 {
        self.ask_to_end();
        self.ended().await
    }

    /// SIGTERM, and no more.
    ///
    /// # Panics
    /// It does not run.
    pub fn ask_to_end(&self) {
        self.process.as_ref().expect("the puller runs").ask_to_end();
    }

    /// Waits for the end and returns the exit code.
    ///
    /// # Panics
    /// It does not run, does not end within a minute, or is killed by a signal.
    pub async fn ended(&mut self) -> i32 {
        self.client = None;
        let mut process = self.process.take().expect("the puller runs");
        let status = process.end().await;
        status
            .code()
            .unwrap_or_else(|| panic!("the puller ended by a signal: {status}"))
    }

    /// Starts it again after [`kill`](Self::kill) or [`terminate`](Self::terminate), on the same volume
    /// with the same flags.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start_again(&mut self) {
        self.launch().await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// The same, where it may not start.
    ///
    /// # Errors
    /// It does not start; the message has its last words.
    pub async fn try_start_again(&mut self) -> anyhow::Result<()> {
        self.launch().await
    }

    /// kill -9, and starts it again.
    pub async fn kill_and_start_again(&mut self) {
        self.kill().await;
        self.start_again().await;
    }

    /// Adds a flag for the next start.
    pub fn add_flag(&mut self, name: &str, value: impl Into<String>) {
        self.arguments.extend([name.to_owned(), value.into()]);
    }

    /// The TCP address, where the puller was told to [`listen_on_loopback`](Starting::listen_on_loopback).
    ///
    /// # Panics
    /// It was not.
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp_address
            .expect("the puller was told to listen on loopback")
    }

    /// What is measured, as Prometheus gets it.
    ///
    /// # Panics
    /// The puller was not told to serve [`metrics`](Starting::metrics), or does not.
    pub async fn metrics(&self) -> String {
        let address = self.metrics_address.expect("it was told to serve metrics");
        install_crypto_provider();
        let answer = async {
            let client = reqwest::Client::builder().no_proxy().build()?;
            let answer = client.get(format!("http://{address}/metrics")).send().await?;
            answer.error_for_status()?.text().await
        };
        within_patience("metrics", answer).await.expect("metrics")
    }

    /// A connection over the socket of its own, which outlives the puller's end.
    ///
    /// # Panics
    /// The socket's path is no URI.
    pub fn connection(&self) -> Channel {
        self.channel().unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The file of [`log`](Self::log); it goes with this.
    pub fn log_file(&self) -> PathBuf {
        self.directory.path().join("puller.log")
    }

    /// The binary without arguments, in an environment that holds nothing of the machine's user.
    fn bare_command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        without_hostile_environment(&mut command)
            .env("HOME", self.directory.path())
            // Not there: what the machine has must not matter.
            .env(
                "PULLER_REGISTRIES_CONF",
                self.directory.path().join("registries.conf"),
            );
        command
    }

    fn command(&self) -> Command {
        let mut command = self.bare_command();
        command
            .arg("serve")
            .env("PULLER_POLICY", &self.policy)
            .arg("--volume")
            .arg(&self.volume)
            .arg("--socket")
            .arg(self.socket())
            // Not the machine's; one that is not there.
            .env("PULLER_CERTS_DIR", self.directory.path().join("certs.d"));
        command
            .args(&self.arguments)
            .envs(self.environment.iter().cloned());
        command
    }

    /// A connection to the socket, made when it is first used.
    fn channel(&self) -> anyhow::Result<Channel> {
        Ok(Endpoint::from_shared(self.endpoint())?.connect_lazy())
    }

    async fn launch(&mut self) -> anyhow::Result<()> {
        let mut process = Process::start(&mut self.command(), "puller serve", &self.log_file())?;
        let channel = self.channel()?;
        let deadline = Instant::now() + PATIENCE;
        while !serves(&channel).await {
            if let Some(status) = process.ended() {
                anyhow::bail!("puller serve ended with {status}:\n{}", process.last_words());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "puller serve does not serve after {PATIENCE:?}:\n{}",
                process.last_words()
            );
            tokio::time::sleep(ASK_EVERY).await;
        }
        self.client = Some(PullerClient::new(channel));
        self.process = Some(process);
        Ok(())
    }
}

/// The built binary: beside the running one, or where `PULLER_BIN` says.
pub(crate) fn built_binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("PULLER_BIN") {
        return Ok(path.into());
    }
    crate::process::built_binary("puller")
}

/// Whether the health service says so.
async fn serves(channel: &Channel) -> bool {
    let answer = HealthClient::new(channel.clone())
        .check(HealthCheckRequest::default())
        .await;
    answer.is_ok_and(|answer| answer.into_inner().status() == ServingStatus::Serving)
}

#[cfg(test)]
mod tests;
