//! The kubelet's credential provider plugins: programs that the daemon's own config names.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::SignedDuration;

use super::{answers::Answer, process::Program};
use crate::registry::fault::quoted;

pub(crate) mod config;
pub(crate) mod response;

pub(super) use config::Provider;

/// How long one may take: the kubelet's own limit.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A config that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the credential providers are not usable: {0}")]
pub struct InvalidProviders(pub(super) String);

/// All providers.
#[derive(Debug, Default)]
pub(super) struct Providers {
    /// Where the programs are.
    directory: PathBuf,
    pub(super) time_limit: Duration,
    list: Vec<Provider>,
}

impl Providers {
    /// Those of a config; beside them, what of it is ignored.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(config: &[u8], directory: &Path) -> Result<(Self, Vec<String>), String> {
        let (list, ignored) = config::parse(config)?;
        let providers = Self {
            directory: directory.to_owned(),
            time_limit: TIME_LIMIT,
            list,
        };
        Ok((providers, ignored))
    }

    /// # Errors
    /// One of the programs can't be run.
    pub(super) fn check_programs(&self) -> Result<(), String> {
        for provider in &self.list {
            let path = self.directory.join(&provider.name);
            let problem = match fs::metadata(&path) {
                Ok(meta) if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 => {
                    "it is no file that may be executed".to_owned()
                }
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Err(format!("the program {}: {problem}", path.display()));
        }
        Ok(())
    }

    /// Those that are asked for the images of a repository.
    pub(super) fn matching(&self, registry: &str, repository: &str) -> impl Iterator<Item = &Provider> {
        let is_asked = move |provider: &&Provider| provider.is_for(registry, repository);
        self.list.iter().filter(is_asked)
    }

    /// What a provider has for a repository.
    ///
    /// # Errors
    /// Why that is not known, for people; it holds no secret.
    pub(super) async fn ask(
        &self,
        provider: &Provider,
        registry: &str,
        repository: &str,
    ) -> Result<Answer, String> {
        let Provider { name, api, .. } = provider;
        let program = Program {
            path: &self.directory.join(name),
            arguments: &provider.arguments,
            environment: &provider.environment,
        };
        let request = response::request(api, registry, repository);
        let run = program.run(&request, self.time_limit).await;
        let answered = run.and_then(|output| match output.success {
            true => response::parse(&output.stdout, api),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("failed: {}", quoted(said.trim())))
            }
        });
        let answer =
            answered.map_err(|problem| format!("the credential provider {} {problem}", quoted(name)))?;
        Ok(Answer {
            config: answer.config,
            cover: answer.cover,
            life: answer.life.unwrap_or(provider.default_life),
        })
    }
}

/// A duration as Go writes it.
fn duration(text: &str) -> Option<SignedDuration> {
    match text {
        "0" => Some(SignedDuration::ZERO),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
