//! The scenarios, in one binary. Each module is one promise of the puller.

mod artifacts;
mod crash_points;
mod crashes;
mod credential_helpers;
mod credential_providers;
mod credentials;
mod differential;
mod freshness;
mod grpc;
mod hostile;
mod hung;
mod mirrors;
mod network;
mod once;
mod operations;
mod policy;
mod power_loss;
mod real_images;
mod references;
mod registries;
mod service;
mod sharing;
mod start;
mod tls;
mod watch;
