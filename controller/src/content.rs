//! placeholder until merged
use std::{io, path::Path, time::SystemTime};
use puller_client::ContentDir;
#[derive(Debug)]
pub struct Content { bytes: u64 }
impl Content {
    pub fn open(directory: &Path, _digest: String, _modified: SystemTime) -> io::Result<Self> { Ok(Self{bytes: std::fs::metadata(directory.join("catalog.jsonl"))?.len()}) }
    pub fn bytes(&self) -> u64 { self.bytes }
}
#[derive(Debug, thiserror::Error)]
#[error("no")]
pub struct WriteError;
pub struct Written { pub digest: String, pub bytes: u64, pub documents: u64 }
pub fn write(_tree: &ContentDir, directory: &Path) -> Result<Written, WriteError> { std::fs::write(directory.join("catalog.jsonl"), "").map_err(|_| WriteError)?; Ok(Written{digest: "x".into(), bytes: 0, documents: 0}) }
