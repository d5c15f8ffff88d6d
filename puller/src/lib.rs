//! The puller: pulls OCI images in the background, unpacks them on a shared volume, and tells anybody
//! who asks how that is going.
//!
//! ARCHITECTURE.md at the root of the repository is the map.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod domain;
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
pub mod hub;
pub mod layer;
pub mod logging;
pub mod machine;
pub mod metrics;
pub mod oneshot;
pub mod policy;
pub mod pull;
pub mod registry;
pub mod serve;
pub mod server;
pub mod store;
