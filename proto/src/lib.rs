//! The puller's gRPC API, package `puller.v1`, generated from `proto/puller/v1/puller.proto`.
//!
//! The proto file is the reference: every field there says its unit, when it is unset and who sets
//! it. This crate adds only the encoded descriptor set, which the reflection service serves.

/// Package `puller.v1`.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated from the proto file, which holds the documentation"
)]
pub mod v1 {
    tonic::include_proto!("puller.v1");
}

/// The encoded `google.protobuf.FileDescriptorSet` of package `puller.v1` and what it imports.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/puller.v1.bin"));
