//! Waiting with a deadline: no scenario sleeps and hopes, and none hangs.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Longest that anything in a scenario may take. Generous, since two cores may run several scenarios
/// at once; a scenario that measures time has its own bounds.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a state that can't be awaited is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Awaits a future and panics, naming what was awaited, when it takes longer than [`PATIENCE`].
pub async fn within_patience<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited {PATIENCE:?} in vain for {what}"),
    }
}

/// Looks until there is something, and panics, naming what was awaited, after [`PATIENCE`].
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "waited {PATIENCE:?} in vain for {what}"
        );
        sleep(LOOK_EVERY).await;
    }
}
