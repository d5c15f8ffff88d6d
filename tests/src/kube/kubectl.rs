//! The real kubectl, as a person would use it.

use std::{
    future::IntoFuture,
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    pin::Pin,
    process::Stdio,
};

use tokio::process::Command;

use crate::process::{run_reading, without_hostile_environment};

use super::program::program;

/// A call of kubectl that is about to be made; `.await` it for what kubectl prints.
#[derive(Debug)]
#[must_use = "await it"]
pub struct Kubectl {
    arguments: Vec<String>,
    input: Option<String>,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// How a call of kubectl failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubectlError {
    /// The exit status; 1 for nearly everything.
    pub status: i32,
    /// What it says, such as `Error from server (Forbidden): …`.
    pub stderr: String,
}

impl Kubectl {
    pub(super) fn new<A: Into<String>>(
        arguments: impl IntoIterator<Item = A>,
        kubeconfig: PathBuf,
        home: &Path,
    ) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            input: None,
            kubeconfig,
            home: home.to_owned(),
        }
    }

    /// What it reads, where an argument is `-f -`.
    pub fn stdin(mut self, input: impl Into<String>) -> Self {
        self.input = Some(input.into());
        self
    }

    async fn run(self) -> Result<String, KubectlError> {
        let mut command = Command::new(program("kubectl"));
        command
            .args(&self.arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            // It caches what the server knows, and must not believe what another one knew.
            .env("HOME", &self.home)
            .env_remove("KUBECACHEDIR")
            .env_remove("KUBERC");
        without_hostile_environment(&mut command);
        let input = match &self.input {
            Some(input) => file_with(input).expect("a temporary file").into(),
            None => Stdio::null(),
        };
        let what = format!("kubectl {}", self.arguments.join(" "));
        let output = run_reading(&mut command, input, &what).await;
        if output.status == 0 {
            return Ok(output.stdout);
        }
        Err(KubectlError {
            status: output.status,
            stderr: output.stderr,
        })
    }
}

impl IntoFuture for Kubectl {
    type Output = Result<String, KubectlError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A nameless file that is read from its start.
fn file_with(content: &str) -> std::io::Result<std::fs::File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(content.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
