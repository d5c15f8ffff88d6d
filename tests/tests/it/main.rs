//! The scenarios, in one binary. Each module is one promise of the puller.

mod artifacts;
mod content;
mod crashes;
mod credential_helpers;
mod credentials;
mod differential;
mod freshness;
mod grpc;
mod hostile;
mod hung;
mod informer;
mod mirrors;
mod network;
mod once;
mod policy;
mod real_images;
mod references;
mod registries;
mod service;
mod sharing;
mod start;
mod tcp;
mod tls;
mod watch;
