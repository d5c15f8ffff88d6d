//! The ClusterCatalog controller: asks the puller for what catalogs want, stores and serves it, and says on
//! each object what goes on. It never waits for a registry.

pub mod api;
pub mod content;
pub mod decision;
pub mod error;
pub mod fbc;
pub mod flags;
pub mod leader;
pub mod logging;
mod pace;
pub mod puller;
pub mod reconcile;
pub mod run;
pub mod secrets;
pub mod server;
pub mod status;
pub mod store;
pub mod tls;
