//! Pauses that registries ask for: one registry's pause holds for all requests to it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::domain::Activity;

/// The pause for a 429 that names none: enough to let other requests see it too.
const UNNAMED: Duration = Duration::from_secs(1);

/// Those who waited for the end of one pause start again spread over at most this.
const SPREAD: Duration = Duration::from_millis(500);

/// When each registry may be asked again. Registries that ask for no pause are not in it.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<HashMap<String, Instant>>);

impl Pauses {
    /// Begins a pause, unless a longer one is on.
    pub(super) fn begin(&self, registry: &str, pause: Option<Duration>) {
        let now = Instant::now();
        let until = now + pause.unwrap_or(UNNAMED);
        let mut pauses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.retain(|_, until| *until > now);
        let entry = pauses.entry(registry.to_owned()).or_insert(until);
        *entry = until.max(*entry);
    }

    /// Waits until no pause is on.
    pub(super) async fn wait(&self, registry: &str, activity: &Activity) {
        while let Some(left) = self.left(registry) {
            let until = jiff::Timestamp::now()
                .checked_add(jiff::SignedDuration::try_from(left).unwrap_or_default())
                .and_then(|until| until.round(jiff::Unit::Second))
                .map(|until| until.to_string())
                .unwrap_or_default();
            let _wait = activity.waiting_for(format!("a pause that {registry} asked for, until {until}"));
            let spread = left.min(SPREAD).mul_f64(rand::random::<f64>());
            tokio::time::sleep(left + spread).await;
        }
    }

    fn left(&self, registry: &str) -> Option<Duration> {
        let pauses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = pauses.get(registry)?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pause_holds_for_its_registry_and_is_only_lengthened() {
        let pauses = Pauses::default();
        pauses.begin("a.io", Some(Duration::from_secs(60)));
        pauses.begin("a.io", Some(Duration::from_secs(1)));
        assert!(pauses.left("a.io").unwrap() > Duration::from_secs(50));
        assert_eq!(pauses.left("b.io"), None);
        pauses.begin("b.io", Some(Duration::ZERO));
        assert_eq!(pauses.left("b.io"), None);
        pauses.begin("b.io", None);
        assert!(pauses.left("b.io").is_some());
    }
}
