//! How long a start takes with many Images on the volume.

use std::time::{Duration, Instant};

use super::{process, thousand};
use crate::puller::Puller;

/// Starts that are measured.
const STARTS: usize = 9;

/// One start.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Until gRPC health says that it serves.
    pub ready: Duration,
    /// Until List has all Images, unpacked.
    pub whole: Duration,
    /// Resident bytes then.
    pub memory: u64,
}

/// Starts measured after kill -9; the volume holds all Images.
///
/// # Errors
/// It does not start, or a call failed.
pub async fn measure(puller: &mut Puller) -> anyhow::Result<Vec<Start>> {
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        puller.kill().await;
        let start = Instant::now();
        puller.try_start_again().await?;
        let ready = start.elapsed();
        while !thousand::is_whole(puller).await? {}
        starts.push(Start {
            ready,
            whole: start.elapsed(),
            memory: process::memory_of(puller.pid()),
        });
    }
    Ok(starts)
}
