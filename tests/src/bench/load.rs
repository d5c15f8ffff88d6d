//! The daemon under load: four pulls at a time, and what callers notice of them.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use puller_api::v1::{FetchRequest, GetRequest, Wish, get_request::By};

use super::{contestant::beside, process};
use crate::puller::{Phase, Puller};

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Resident bytes before the first call.
    pub idle: u64,
    /// The largest resident set during four pulls, in bytes.
    pub peak: u64,
    /// Fetch: median and 99th percentile.
    pub fetch: (Duration, Duration),
    /// Get: the same.
    pub get: (Duration, Duration),
    /// Calls of each kind.
    pub calls: usize,
}

/// Callers ask this often: not so often that they are the load themselves.
const PAUSE: Duration = Duration::from_millis(2);

/// Pulls four images at the same time into an empty directory and calls meanwhile.
///
/// # Errors
/// The puller can't be started, or a call failed.
pub async fn measure(references: &[String], directory: &Path) -> anyhow::Result<Load> {
    let puller = Puller::start()
        .volume(directory.join("volume"))
        .binary(beside("puller")?)
        .try_start()
        .await?;
    let idle = process::memory_of(puller.pid());
    let mut ids = Vec::new();
    for reference in references {
        ids.push(puller.fetch(reference).await.id);
    }
    let mut client = puller.client();
    let (mut fetches, mut gets) = (Vec::new(), Vec::new());
    loop {
        let start = Instant::now();
        let wish = Wish {
            reference: references[0].clone(),
            ..Wish::default()
        };
        client
            .fetch(FetchRequest {
                wish: Some(wish),
                claimant: "bench".into(),
                ..FetchRequest::default()
            })
            .await?;
        fetches.push(start.elapsed());
        let mut done = true;
        for id in &ids {
            let start = Instant::now();
            let got = client
                .get(GetRequest {
                    by: Some(By::Id(id.clone())),
                })
                .await?
                .into_inner();
            gets.push(start.elapsed());
            done &= got.image.is_some_and(|image| image.phase() == Phase::Unpacked);
        }
        if done {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Load {
        idle,
        peak: process::peak_of(puller.pid()),
        calls: fetches.len(),
        fetch: percentiles(fetches),
        get: percentiles(gets),
    })
}

/// Median and 99th percentile.
pub(super) fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
    (
        at(50).copied().unwrap_or_default(),
        at(99).copied().unwrap_or_default(),
    )
}
