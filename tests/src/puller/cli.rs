//! The command line, run to its end.

use super::Puller;
use crate::process::run_to_end;

/// What a run of the command line came to.
#[derive(Debug, Clone)]
pub struct CliOutput {
    /// The exit code.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Puller {
    /// Runs the command line against this puller: `puller.cli(["get", &id])`.
    ///
    /// # Panics
    /// It does not end within a minute.
    pub async fn cli<I: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> CliOutput {
        let mut command = self.bare_command();
        command.args(arguments).env("PULLER_ENDPOINT", self.endpoint());
        run_to_end(&mut command, "the command line").await
    }
}

/// Runs the command line where it needs no daemon: `puller::cli(["pull", &reference, "--to", "dir"])`.
///
/// # Panics
/// It does not end within a minute.
pub async fn cli<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> CliOutput {
    let puller = Puller::start()
        .prepare()
        .unwrap_or_else(|error| panic!("{error:#}"));
    puller.cli(arguments).await
}
