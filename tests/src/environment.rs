//! What a person sets to have more of a test, or the same one again.

use std::env;

/// The number in an environment variable, such as `PULLER_TEST_SEED`; `None`: it is not set.
///
/// # Panics
/// It is set to something else.
pub fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text:?}")),
    )
}
