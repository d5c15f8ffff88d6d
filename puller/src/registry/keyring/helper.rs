//! Docker's credential helpers: programs that the daemon's own files name (`credHelpers`, `credsStore`).

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{
    Credential,
    answers::{Answer, Cover},
    config::Config,
    key::Key,
    process::Program,
};
use crate::registry::fault::quoted;

/// How long one may take: cloud helpers ask a server, which takes a second or two.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How long an answer is used: far below the shortest life of a cloud's token (an hour), and long enough
/// that no helper runs for each layer.
const KEPT: Duration = Duration::from_secs(5 * 60);
/// What a helper says, by the protocol, where it has nothing for a server.
const NOT_FOUND: &str = "credentials not found in native keychain";

/// Where helpers are, and how long they may take.
#[derive(Debug)]
pub(super) struct Helpers {
    /// Empty: on the `PATH`.
    pub(super) directory: PathBuf,
    pub(super) time_limit: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Wire {
    #[serde(default)]
    username: String,
    secret: String,
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            time_limit: TIME_LIMIT,
        }
    }
}

impl Helpers {
    /// What the helper of this name has for a registry.
    ///
    /// # Errors
    /// Why that is not known, for people; it holds no secret.
    pub(super) async fn ask(&self, name: &str, registry: &str) -> Result<Answer, String> {
        let credential = self.credential(name, registry).await?;
        Ok(Answer {
            config: Config::of(credential.map(|credential| (Key::parse(registry), credential))),
            cover: Cover::Registry,
            life: KEPT,
        })
    }

    async fn credential(&self, name: &str, registry: &str) -> Result<Option<Credential>, String> {
        if !is_safe(name) {
            return Err(format!(
                "the credential helper {:?} is not run: a name has only letters, digits, '.', '_' and '-'",
                quoted(name)
            ));
        }
        let name = format!("docker-credential-{name}");
        let program = Program {
            path: &self.directory.join(&name),
            arguments: &["get".to_owned()],
            environment: &[],
        };
        let output = program
            .run(server(registry).as_bytes(), self.time_limit)
            .await
            .map_err(|problem| format!("{name} {problem}"))?;
        if output.success {
            return parse(&output.stdout)
                .map(Some)
                .ok_or_else(|| format!("{name} answered something that is no usable credential"));
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        if stdout.trim() == NOT_FOUND {
            return Ok(None);
        }
        // By the protocol errors are on stdout. What looks like JSON may hold the secret.
        let said = match stdout.trim() {
            "" => String::from_utf8_lossy(&output.stderr),
            text if text.contains('{') => "(not shown)".into(),
            _ => stdout,
        };
        Err(format!("{name} failed: {}", quoted(&said)))
    }
}

fn parse(stdout: &[u8]) -> Option<Credential> {
    let Wire { username, secret } = serde_json::from_slice(stdout).ok()?;
    (!secret.is_empty()).then(|| Credential::of_login(username, secret))
}

/// What helpers know a registry by.
fn server(registry: &str) -> &str {
    match registry {
        "docker.io" => "https://index.docker.io/v1/",
        registry => registry,
    }
}

fn is_safe(name: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.chars().all(safe)
}

#[cfg(test)]
mod tests;
