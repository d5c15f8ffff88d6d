//! The programs: where they are, how they start, and that they don't outlive their scenario.

use std::{env, ffi::OsString, path::Path};

use anyhow::Context as _;
use tokio::process::Command;

use crate::process::{Process, dies_with_us, tool};

/// What Kubernetes' own tests call the directory that holds kube-apiserver, etcd and kubectl.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// One of the programs: in the directory that [`ASSETS`] names, in `target/tools/bin`, or on the PATH.
pub(super) fn program(name: &str) -> OsString {
    match env::var_os(ASSETS).filter(|directory| !directory.is_empty()) {
        Some(directory) => Path::new(&directory).join(name).into(),
        None => tool(name),
    }
}

/// A server's command line.
pub(super) fn server(name: &str) -> Command {
    dies_with_us(program(name))
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
    Process::start_server(command, name, log, is_ready)
        .await
        .context("a scenario with Kubernetes needs setpriv of util-linux, and what `make tools` installs")
}
