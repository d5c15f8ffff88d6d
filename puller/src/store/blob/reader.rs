//! Following a layer's file while it grows.

use std::{
    io::{self, Read},
    os::unix::fs::FileExt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::Blob;
use crate::{
    domain::{Activity, Reason},
    error::Fault,
    store::files::lock,
};

/// Most bytes of one read: few enough that progress is seen and other readers get on, many enough that
/// the system call is a small part of it.
pub const READ_SIZE: usize = 256 << 10;
/// How long a reader that waits for bytes may take to see that its attempt is cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// Reads a layer from its first byte, on a thread that may block. The end comes when the whole has been
/// verified, and not before. An error carries a [`Fault`]. It has no buffer: give it large ones.
#[derive(Debug)]
pub struct BlobReader {
    blob: Arc<Blob>,
    activity: Arc<Activity>,
    position: u64,
    generation: u64,
}

impl Blob {
    /// A reader for this attempt; it fails once the attempt is cancelled.
    pub fn reader(self: &Arc<Self>, activity: Arc<Activity>) -> BlobReader {
        BlobReader {
            blob: Arc::clone(self),
            activity,
            position: 0,
            generation: lock(&self.state).generation,
        }
    }
}

impl BlobReader {
    /// Waits for bytes after those read so far, and returns how many there are; 0: that was all.
    fn wait(&mut self) -> io::Result<u64> {
        let mut state = lock(&self.blob.state);
        loop {
            if self.activity.is_cancelled() {
                return Err(self.failed(Reason::Internal, "the pull was cancelled"));
            }
            if state.generation != self.generation {
                if self.position > 0 {
                    return Err(match &state.fault {
                        Some(fault) => io::Error::other(fault.clone()),
                        // Somebody has found that the bytes were others, and has begun already.
                        None => self.failed(Reason::DigestMismatch, "it was begun anew"),
                    });
                }
                self.generation = state.generation;
            }
            if state.received > self.position {
                return Ok(state.received - self.position);
            }
            if state.verified {
                return Ok(0);
            }
            let waited = self.blob.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn failed(&self, reason: Reason, happened: &str) -> io::Error {
        let asked = format!("read layer {}", self.blob.digest);
        io::Error::other(Fault::new(reason, asked, happened, ""))
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let there = usize::try_from(self.wait()?).unwrap_or(usize::MAX);
            if there == 0 {
                return Ok(0);
            }
            let n = buffer.len().min(there).min(READ_SIZE);
            let got = match self.blob.file.read_at(&mut buffer[..n], self.position) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let asked = format!("read layer {}", self.blob.digest);
                    return Err(io::Error::other(Fault::volume(asked, &error)));
                }
            };
            if lock(&self.blob.state).generation != self.generation {
                // The file was begun anew while we read: those bytes may be anything.
                continue;
            }
            if got == 0 {
                return Err(self.failed(
                    Reason::Internal,
                    "its file is shorter than what was written to it",
                ));
            }
            self.position += got as u64;
            return Ok(got);
        }
    }
}
