//! The harness of the end-to-end scenarios.
//!
//! - [`image`]: images made by hand, byte for byte.
//! - [`registry`]: the real docker-registry as a process; [`scripted`]: a registry that misbehaves,
//!   request by request, as it is told.
//! - [`puller`]: the built daemon as a process, and its command line; [`grpcurl`]: the real grpcurl.
//! - [`kube`]: the real kube-apiserver with its etcd, and the real kubectl.
//! - [`environment`]: what a person sets for the random ones.
//! - [`bench`]: what `make bench` is made of.
//! - [`soak`]: what `make soak` is made of.
//! - [`strace`]: the puller's system calls, in their order.
//! - [`tree`]: directory trees, compared; [`umoci`]: the tree that skopeo and umoci make of an image.
//!
//! Its functions panic where a scenario could do nothing but fail: a scenario then reads like its
//! sentence. Every wait has a deadline ([`wait::PATIENCE`]) and says what it waited for.

pub mod bench;
pub mod certificates;
pub mod controller;
pub mod environment;
pub mod grpcurl;
pub mod image;
pub mod kube;
mod process;
pub mod puller;
pub mod registry;
pub mod scripted;
pub mod small_disk;
pub mod soak;
pub mod strace;
pub mod tree;
pub mod umoci;
pub mod wait;
