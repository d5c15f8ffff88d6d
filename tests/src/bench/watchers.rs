//! How long a change takes to those who watch.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use puller_api::v1::{WatchEvent, WatchRequest, puller_client::PullerClient, watch_event::Event};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_stream::StreamExt as _;
use tonic::Streaming;

use super::process;
use crate::{puller::Puller, wait::PATIENCE};

/// How many watch.
pub const NUMBERS: [usize; 3] = [1, 100, 1000];

/// Changes that are measured with each number.
const CHANGES: usize = 40;

/// Between two changes: all is quiet again.
const PAUSE: Duration = Duration::from_millis(50);

/// What was measured with one number of watchers.
#[derive(Debug, Clone)]
pub struct FanOut {
    /// How many watched, each over a connection of its own.
    pub watchers: usize,
    /// Of each change: until the first of them had it, and until the last one had.
    pub changes: Vec<(Duration, Duration)>,
    /// The daemon's resident bytes meanwhile.
    pub memory: u64,
}

/// Opens so many watches and makes changes of phase: Fetches of images that are new, told as Initiated.
///
/// # Errors
/// A call failed, or a change did not reach everybody.
pub async fn measure(puller: &Puller, registry: &str, watchers: usize) -> anyhow::Result<FanOut> {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let mut watching = JoinSet::new();
    for _ in 0..watchers {
        let mut client = PullerClient::new(puller.connection());
        let mut events = client.watch(WatchRequest::default()).await?.into_inner();
        until_synced(&mut events).await?;
        let arrived = arrived.clone();
        watching.spawn(async move {
            let mut seen = HashSet::new();
            while let Some(Ok(WatchEvent { event })) = events.next().await {
                let now = Instant::now();
                // The first event of an Image: later ones are of other changes.
                if let Some(Event::Put(image)) = event
                    && seen.insert(image.id.clone())
                    && arrived.send((image.id, now)).is_err()
                {
                    return;
                }
            }
        });
    }
    let mut changes = Vec::new();
    for change in 0..CHANGES {
        tokio::time::sleep(PAUSE).await;
        let reference = format!("{registry}/bench/change-{watchers}-{change}:v1");
        let start = Instant::now();
        let id = puller.fetch(&reference).claimant("bench").send().await?.id;
        let mut times = Vec::new();
        while times.len() < watchers {
            let arrival = timeout(PATIENCE, arrivals.recv()).await;
            let (of, at) = arrival
                .context("a change did not reach everybody")?
                .context("nobody watches any more")?;
            if of == id {
                times.push(at - start);
            }
        }
        let last = times.iter().max().copied().unwrap_or_default();
        changes.push((times.iter().min().copied().unwrap_or_default(), last));
        puller.release(&id, "bench").await;
    }
    let memory = process::memory_of(puller.pid());
    watching.shutdown().await;
    Ok(FanOut {
        watchers,
        changes,
        memory,
    })
}

async fn until_synced(events: &mut Streaming<WatchEvent>) -> anyhow::Result<()> {
    loop {
        let event = events.next().await.context("the watch ended")??.event;
        if matches!(event, Some(Event::Bookmark(bookmark)) if bookmark.synced) {
            return Ok(());
        }
    }
}
