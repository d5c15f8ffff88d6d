//! Pullers that die where they are told.

use std::os::unix::process::ExitStatusExt as _;

use rustix::process::Signal;

use super::{Puller, Starting};
use crate::process::Process;

/// Tells the puller where to die: `NAME`, or `NAME:N` for the N-th time that it comes by.
const VARIABLE: &str = "PULLER_CRASH_AT";

/// What a puller logs that dies by its own hand.
const LAST_WORDS: &str = "dies here, as it was told";

impl Starting {
    /// Dies there.
    pub fn crash_at(self, point: &str) -> Self {
        self.environment(VARIABLE, point)
    }
}

impl Puller {
    /// Starts it, after it has died or was killed, with the order to die there.
    ///
    /// # Panics
    /// It does not start, or dies before it serves.
    pub async fn start_to_crash_at(&mut self, point: &str) {
        self.order(point);
        self.start_again().await;
    }

    /// The same, and waits until it has died, whether it serves before or not.
    ///
    /// # Panics
    /// It does not die within a minute, or by something else.
    pub async fn start_and_crash_at(&mut self, point: &str) {
        self.order(point);
        let process = Process::start(&mut self.command(), "puller serve", &self.log_file());
        self.process = Some(process.unwrap_or_else(|error| panic!("{error:#}")));
        self.crashed().await;
    }

    /// Waits until it has died by the order. The next start has none.
    ///
    /// # Panics
    /// It does not die within a minute, or by something else.
    pub async fn crashed(&mut self) {
        self.client = None;
        let mut process = self.process.take().expect("the puller was started");
        let status = process.end().await;
        assert_eq!(
            status.signal(),
            Some(Signal::KILL.as_raw()),
            "it ended with {status}"
        );
        let log = self.log();
        let last = log.lines().last().unwrap_or_default();
        assert!(
            last.contains(LAST_WORDS),
            "it was killed by somebody else: {last}"
        );
        self.environment.retain(|(name, _)| name != VARIABLE);
    }

    fn order(&mut self, point: &str) {
        self.environment.push((VARIABLE.to_owned(), point.to_owned()));
    }
}

/// The names of all places where a puller can be told to die.
///
/// # Panics
/// It was built without them, as for a release.
pub async fn crash_points() -> Vec<String> {
    let (status, words) = Puller::start().crash_at("?").fails().await;
    let (_, names) = words
        .split_once("the names are ")
        .unwrap_or_else(|| panic!("ended with {status} and named no place to die at: {words}"));
    let line = names.lines().next().unwrap_or_default();
    line.split(", ").map(str::to_owned).collect()
}
