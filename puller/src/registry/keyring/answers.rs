//! What programs answered, and for how long that is used.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::config::Config;

/// Answers that are kept; more than a node has repositories that need a program each.
const MOST_ANSWERS: usize = 1024;

/// How long each answer is used, whatever its own life is and although a registry has refused it: one
/// attempt asks many times in a row, and many Images that fail together ask once.
const KEPT_AT_LEAST: Duration = Duration::from_secs(5);

/// How long a failure is used, unless a registry wants credentials in vain meanwhile: a program that
/// hangs costs its wait once, and not once for each image.
const FAILURE_KEPT: Duration = Duration::from_secs(5 * 60);

/// What programs are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) registry: &'a str,
    pub(super) repository: &'a str,
    /// Of the daemon's own files: what was answered under another is not used.
    pub(super) version: u64,
}

/// What an answer is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    Image,
    Registry,
    Everything,
}

/// What a program answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) config: Config,
    pub(super) cover: Cover,
    pub(super) life: Duration,
}

/// The credentials that a program gave, or what it failed with: words for people without any secret.
pub(super) type Given = Result<Arc<Config>, String>;

/// The answers of all programs.
#[derive(Debug, Default)]
pub(super) struct Answers {
    kept: Mutex<Kept>,
    /// Each program is asked for one thing of a registry at a time; whoever waited looks again at what
    /// is kept.
    flights: Mutex<HashMap<(String, String), Arc<Flight>>>,
}

type Flight = tokio::sync::Mutex<()>;

#[derive(Debug, Default)]
struct Kept {
    version: u64,
    answers: HashMap<Key, Entry>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    program: String,
    /// Empty: all of them.
    registry: String,
    /// Empty: all of the registry.
    repository: String,
}

#[derive(Debug)]
struct Entry {
    given: Given,
    since: Instant,
    until: Instant,
}

impl Answers {
    /// What a program has said, or says now. Its name tells it from all others.
    pub(super) async fn get<F>(&self, program: &str, asked: Asked<'_>, ask: impl FnOnce() -> F) -> Given
    where
        F: Future<Output = Result<Answer, String>>,
    {
        if let Some(given) = self.kept().get(program, asked) {
            return given;
        }
        let flight = self.flight(program, asked.registry);
        let _flying = flight.lock().await;
        if let Some(given) = self.kept().get(program, asked) {
            return given;
        }
        let (given, cover, life) = match ask().await {
            Ok(Answer { config, cover, life }) => (Ok(Arc::new(config)), cover, life.max(KEPT_AT_LEAST)),
            Err(problem) => {
                tracing::warn!(program, asked.registry, problem, "a program gave no credentials");
                (Err(problem), Cover::Registry, FAILURE_KEPT)
            }
        };
        self.kept()
            .put(Key::of(program, asked, cover), asked.version, life, given.clone());
        given
    }

    /// A registry has refused what there was for a repository: the program is asked again.
    pub(super) fn refused(&self, registry: &str, repository: &str) {
        self.kept()
            .answers
            .retain(|key, entry| entry.since.elapsed() < KEPT_AT_LEAST || !key.covers(registry, repository));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flight(&self, program: &str, registry: &str) -> Arc<Flight> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if flights.len() >= MOST_ANSWERS {
            flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        }
        let key = (program.to_owned(), registry.to_owned());
        Arc::clone(flights.entry(key).or_default())
    }
}

impl Kept {
    /// What covers the image alone goes first.
    fn get(&mut self, program: &str, asked: Asked<'_>) -> Option<Given> {
        if self.version < asked.version {
            self.version = asked.version;
            self.answers.clear();
        }
        let now = Instant::now();
        [Cover::Image, Cover::Registry, Cover::Everything]
            .into_iter()
            .filter_map(|cover| self.answers.get(&Key::of(program, asked, cover)))
            .find(|entry| now < entry.until)
            .map(|entry| entry.given.clone())
    }

    fn put(&mut self, key: Key, version: u64, life: Duration, given: Given) {
        if self.version != version {
            return;
        }
        let since = Instant::now();
        if self.answers.len() >= MOST_ANSWERS {
            self.answers.retain(|_, entry| since < entry.until);
        }
        while self.answers.len() >= MOST_ANSWERS {
            let oldest = self.answers.values().map(|entry| entry.since).min();
            self.answers.retain(|_, entry| Some(entry.since) != oldest);
        }
        let until = since + life;
        self.answers.insert(key, Entry { given, since, until });
    }
}

impl Key {
    fn of(program: &str, asked: Asked<'_>, cover: Cover) -> Self {
        let Asked {
            registry, repository, ..
        } = asked;
        let (registry, repository) = match cover {
            Cover::Image => (registry, repository),
            Cover::Registry => (registry, ""),
            Cover::Everything => ("", ""),
        };
        Self {
            program: program.to_owned(),
            registry: registry.to_owned(),
            repository: repository.to_owned(),
        }
    }

    fn covers(&self, registry: &str, repository: &str) -> bool {
        (self.registry.is_empty() || self.registry == registry)
            && (self.repository.is_empty() || self.repository == repository)
    }
}

#[cfg(test)]
mod tests;
