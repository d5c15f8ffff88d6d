//! Compiles `puller/v1/puller.proto` with protox, so that a build needs no `protoc`, and keeps the
//! descriptor set for the reflection service.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const PROTO: &str = "puller/v1/puller.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("puller.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
