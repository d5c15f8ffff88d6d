//! The programs: where they are, how they start, and that they don't outlive their scenario.

use std::{env, ffi::OsString, path::Path};

use anyhow::Context as _;
use tokio::{process::Command, time::Instant};

use crate::{
    process::{Process, tool, without_hostile_environment},
    wait::PATIENCE,
};

/// What Kubernetes' own tests call the directory that holds kube-apiserver, etcd and kubectl.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// One of the programs: in the directory that [`ASSETS`] names, in `target/tools/bin`, or on the PATH.
pub(super) fn program(name: &str) -> OsString {
    match env::var_os(ASSETS).filter(|directory| !directory.is_empty()) {
        Some(directory) => Path::new(&directory).join(name).into(),
        None => tool(name),
    }
}

/// A server's command line. The kernel kills the server when the thread that starts it ends, so that not
/// even a killed test binary leaves one behind.
pub(super) fn server(name: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program(name));
    without_hostile_environment(&mut command);
    command
}

/// Starts a server and waits until it is ready; `None`: somebody has taken its port.
pub(super) async fn start<F: Future<Output = bool>>(
    command: &mut Command,
    name: &str,
    log: &Path,
    is_ready: impl Fn() -> F,
) -> anyhow::Result<Option<Process>> {
    // The log is appended to: what a server before this one wrote there says nothing of this one.
    std::fs::remove_file(log).ok();
    let mut process = Process::start(command, name, log)
        .context("a scenario with Kubernetes needs setpriv of util-linux, and what `make tools` installs")?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // An answer alone is not enough: it may come from whoever has the port.
        let ready = is_ready().await;
        if let Some(status) = process.ended() {
            let words = process.last_words();
            anyhow::ensure!(
                words.contains("address already in use"),
                "{name}: {status}: {words}"
            );
            return Ok(None);
        }
        if ready {
            return Ok(Some(process));
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "{name} does not get ready: {}",
            process.last_words()
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
