//! Client of the puller.

/// What can go wrong between a client and the puller.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The puller can't be reached.
    #[error("cannot reach the puller at {endpoint}: {problem}")]
    Unreachable {
        /// The endpoint as it was given.
        endpoint: String,
        /// What happened.
        problem: String,
    },
}
