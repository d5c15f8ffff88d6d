//! Docker's credential helpers: programs that the daemon's own files name (`credHelpers`, `credsStore`).

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{Credential, process};
use crate::registry::fault::quoted;

/// How long one may take: cloud helpers ask a server, which takes a second or two.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How long an answer is used: far below the shortest life of a cloud's token (an hour), and long enough
/// that no helper runs for each layer.
const KEPT: Duration = Duration::from_secs(5 * 60);
/// How long a failure, or an answer that a registry has refused, is used all the same: many Images that
/// fail together ask once.
const KEPT_BADLY: Duration = Duration::from_secs(5);
/// What a helper says, by the protocol, where it has nothing for a server.
const NOT_FOUND: &str = "credentials not found in native keychain";

/// `None`: it has none. The error is for people and holds no secret.
type Answer = Result<Option<Credential>, String>;

/// Asks helpers, each once at a time for each server.
#[derive(Debug)]
pub(super) struct Helpers {
    /// Where they are; `None`: on the `PATH`.
    pub(super) directory: Option<PathBuf>,
    pub(super) time_limit: Duration,
    answers: Mutex<HashMap<(String, String), Arc<Slot>>>,
}

/// Locked while the helper runs.
type Slot = tokio::sync::Mutex<Option<(Instant, Answer)>>;

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
            directory: None,
            time_limit: TIME_LIMIT,
            answers: Mutex::default(),
        }
    }
}

impl Helpers {
    /// What the helper of this name has for a registry.
    pub(super) async fn get(&self, name: &str, registry: &str) -> Answer {
        let slot = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(answers.entry((name.to_owned(), registry.to_owned())).or_default())
        };
        let mut slot = slot.lock().await;
        if let Some((at, answer)) = &*slot {
            let kept = if answer.is_ok() { KEPT } else { KEPT_BADLY };
            if at.elapsed() < kept {
                return answer.clone();
            }
        }
        let answer = self.ask(name, registry).await;
        if let Err(problem) = &answer {
            tracing::warn!(registry, problem, "a credential helper gave nothing");
        }
        *slot = Some((Instant::now(), answer.clone()));
        answer
    }

    /// A registry has refused what there was: the next lookup asks again.
    pub(super) fn refused(&self, registry: &str) {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for ((_, of), slot) in &*answers {
            // Whoever holds the lock is asking already.
            if of == registry
                && let Ok(mut slot) = slot.try_lock()
            {
                slot.take_if(|(at, _)| at.elapsed() >= KEPT_BADLY);
            }
        }
    }

    async fn ask(&self, name: &str, registry: &str) -> Answer {
        if !is_safe(name) {
            return Err(format!(
                "the credential helper {:?} is not run: a name has only letters, digits, '.', '_' and '-'",
                quoted(name)
            ));
        }
        let program = format!("docker-credential-{name}");
        let path = match &self.directory {
            Some(directory) => directory.join(&program),
            None => PathBuf::from(&program),
        };
        let output = process::run(&path, "get", server(registry).as_bytes(), self.time_limit)
            .await
            .map_err(|problem| format!("{program} {problem}"))?;
        if output.success {
            return parse(&output.stdout)
                .map(Some)
                .ok_or_else(|| format!("{program} answered something that is no usable credential"));
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
        Err(format!("{program} failed: {}", quoted(&said)))
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
