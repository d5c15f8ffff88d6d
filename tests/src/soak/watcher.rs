//! Follows the Watch by its words alone, and checks each event. The client's informer is another reading
//! of the same words.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt as _;
use puller_api::v1::{Image, Phase, Reason, WatchRequest, watch_event::Event};
use puller_client::{Client, Error};
use rand::{RngExt as _, rngs::StdRng};
use tokio::time::{sleep, timeout_at};

use super::{Ground, lock};

/// How long a connection is kept, in milliseconds, by whom it is cut now and then.
const KEPT: std::ops::Range<u64> = 200..8_000;

/// How long whoever cuts never would wait.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// Before a puller that is gone is looked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// A Watch that is opened again and again.
#[derive(Debug)]
pub struct Follower {
    /// Only what this claimant claims; empty: all.
    pub claimant: String,
    /// Whether it leaves now and then, and comes back with its version.
    pub cuts: bool,
    /// Whether it counts what is published.
    pub counts: bool,
}

/// What a follower knows.
#[derive(Debug, Default)]
pub struct Known {
    images: BTreeMap<String, Image>,
    /// Where to resume; empty: nowhere.
    version: String,
    /// The ids that were told since all are told again.
    told: Option<BTreeSet<String>>,
    /// The last version of the stream: the next one is higher.
    last: Option<Vec<u64>>,
    /// Of each Image that there ever was: the last version.
    versions: BTreeMap<String, Vec<u64>>,
}

impl Follower {
    /// Begins to follow; what it knows is in the answer.
    pub fn start(self, ground: Arc<Ground>, client: Client, random: StdRng) -> Arc<Mutex<Known>> {
        let known: Arc<Mutex<Known>> = Arc::default();
        tokio::spawn(self.run(ground, client, random, Arc::clone(&known)));
        known
    }

    async fn run(self, ground: Arc<Ground>, client: Client, mut random: StdRng, known: Arc<Mutex<Known>>) {
        loop {
            let request = WatchRequest {
                version: lock(&known).begin(),
                claimant: self.claimant.clone(),
                ids: Vec::new(),
            };
            let kept = match self.cuts {
                true => Duration::from_millis(random.random_range(KEPT)),
                false => FOR_EVER,
            };
            let end = tokio::time::Instant::now() + kept;
            let mut watch = match client.watch(request).await {
                Ok(watch) => watch,
                Err(error) => {
                    if !may_be(&error) {
                        ground.broken(format!("Watch was refused: {error}"));
                    }
                    sleep(PAUSE).await;
                    continue;
                }
            };
            ground.counts.watches.up();
            while let Ok(Some(event)) = timeout_at(end, watch.next()).await {
                let event = match event {
                    Ok(event) => event.event,
                    Err(error) if may_be(&error) => break,
                    Err(error) => return ground.broken(format!("a Watch broke: {error}")),
                };
                ground.counts.events.up();
                let text = format!("{event:#?}");
                let taken = event.map_or(Ok(false), |event| lock(&known).take(event));
                match taken {
                    Ok(published) if published && self.counts => ground.counts.pulls.up(),
                    Ok(_) => {}
                    Err(problem) => return ground.broken(format!("{problem}: {text}")),
                }
            }
        }
    }
}

/// Whether the puller's end explains it.
fn may_be(error: &Error) -> bool {
    error.is_transient()
}

impl Known {
    /// The Images, by id.
    pub fn images(&self) -> &BTreeMap<String, Image> {
        &self.images
    }

    fn begin(&mut self) -> String {
        // Broken off while all were told: that begins anew.
        if self.told.is_some() {
            self.version.clear();
        }
        if self.version.is_empty() {
            self.told = Some(BTreeSet::new());
            self.last = None;
        }
        self.version.clone()
    }

    /// Takes an event, and says whether content was published.
    fn take(&mut self, event: Event) -> Result<bool, String> {
        match event {
            Event::Put(image) => {
                self.rises(&image.version, false)?;
                self.rises_of(&image.id, &image.version)?;
                check(&image)?;
                let old = self
                    .images
                    .get(&image.id)
                    .filter(|old| old.created == image.created);
                old.map_or(Ok(()), |old| compare(old, &image))?;
                let published = |image: &Image| image.content.as_ref().and_then(|content| content.published);
                let is_news = published(&image).is_some() && old.and_then(published) != published(&image);
                if let Some(told) = &mut self.told {
                    told.insert(image.id.clone());
                }
                self.images.insert(image.id.clone(), image);
                Ok(is_news)
            }
            Event::Deleted(deleted) => {
                self.rises(&deleted.version, false)?;
                self.rises_of(&deleted.id, &deleted.version)?;
                self.images.remove(&deleted.id);
                Ok(false)
            }
            Event::Bookmark(bookmark) => {
                self.rises(&bookmark.version, true)?;
                if let Some(told) = self.told.take_if(|_| bookmark.synced) {
                    self.images.retain(|id, _| told.contains(id));
                }
                Ok(false)
            }
            Event::Reset(_) => {
                self.told = Some(BTreeSet::new());
                self.last = None;
                Ok(false)
            }
        }
    }

    fn rises(&mut self, version: &str, may_stay: bool) -> Result<(), String> {
        let new = numbers(version)?;
        version.clone_into(&mut self.version);
        match self.last.replace(new.clone()) {
            Some(old) if old > new || (old == new && !may_stay) => {
                Err(format!("the version {new:?} follows {old:?}"))
            }
            _ => Ok(()),
        }
    }

    fn rises_of(&mut self, id: &str, version: &str) -> Result<(), String> {
        let new = numbers(version)?;
        match self.versions.insert(id.to_owned(), new.clone()) {
            Some(old) if old > new => Err(format!("{id} was at version {old:?} and is at {new:?}")),
            _ => Ok(()),
        }
    }
}

/// Versions are opaque to clients; the soak knows that they are numbers that rise.
fn numbers(version: &str) -> Result<Vec<u64>, String> {
    let numbers = version.split('.').map(|number| number.parse().ok());
    numbers
        .collect::<Option<_>>()
        .ok_or_else(|| format!("the version {version:?}"))
}

/// What holds for every state.
fn check(image: &Image) -> Result<(), String> {
    let error = image.last_error.as_ref();
    match image.phase() {
        Phase::Unspecified => Err("a phase that is none".into()),
        Phase::Failed => Err("there is nothing wrong with the images, and one Failed".into()),
        Phase::Unpacked if image.content.is_none() => Err("unpacked without content".into()),
        Phase::Retrying if error.is_none_or(|error| error.reason() == Reason::Unspecified) => {
            Err("retrying without a reason".into())
        }
        _ if image.message.is_empty() => Err("a state without a message".into()),
        _ => Ok(()),
    }
}

/// What holds between two states.
fn compare(old: &Image, new: &Image) -> Result<(), String> {
    if old.content.is_some() && new.content.is_none() {
        return Err("content has gone".into());
    }
    let (Some(old_progress), Some(new_progress)) = (&old.progress, &new.progress) else {
        return Ok(());
    };
    let is_same = old.attempt == new.attempt && old_progress.started == new_progress.started;
    let falls = old_progress.bytes_done > new_progress.bytes_done
        || old_progress.layers_done > new_progress.layers_done
        || old_progress.unpacked_bytes > new_progress.unpacked_bytes
        || old_progress.unpacked_entries > new_progress.unpacked_entries;
    match is_same && falls {
        true => Err(format!("the progress fell from {old_progress:?}")),
        false => Ok(()),
    }
}
