//! The puller: pulls OCI images in the background, unpacks them on a shared volume, and tells anybody
//! who asks how that is going.
//!
//! ARCHITECTURE.md at the root of the repository is the map.

pub mod cli;
pub mod config;
pub mod domain;
pub mod error;
pub mod hub;
pub mod layer;
pub mod machine;
pub mod logging;
pub mod registry;
pub mod store;
