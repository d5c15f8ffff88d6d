//! A Watch whose events are collected in the background.

use std::{future::IntoFuture, pin::Pin};

use puller_api::v1::{
    Image, Phase, WatchEvent, WatchRequest, puller_client::PullerClient, watch_event::Event,
};
use tokio::{sync::watch, task::JoinHandle};
use tokio_stream::StreamExt as _;
use tonic::{Status, transport::Channel};

use crate::wait::PATIENCE;

/// A Watch about to be opened: `.await` it.
#[derive(Debug, Clone)]
#[must_use = "await it"]
pub struct WatchCall {
    client: PullerClient<Channel>,
    request: WatchRequest,
}

/// An open Watch. It is closed when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    seen: watch::Receiver<Seen>,
    reader: JoinHandle<()>,
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    events: Vec<Event>,
    /// How the stream ended, if it did: by whom, or cleanly.
    ended: Option<Result<(), Status>>,
}

impl WatchCall {
    pub(crate) fn new(client: PullerClient<Channel>) -> Self {
        let request = WatchRequest::default();
        Self { client, request }
    }

    /// Resumes after this version.
    pub fn from(mut self, version: &str) -> Self {
        self.request.version = version.to_owned();
        self
    }

    /// Only this claimant's Images.
    pub fn claimed_by(mut self, claimant: &str) -> Self {
        self.request.claimant = claimant.to_owned();
        self
    }

    /// Only this Image; called again, that one too.
    pub fn only(mut self, id: &str) -> Self {
        self.request.ids.push(id.to_owned());
        self
    }

    /// Opens it.
    ///
    /// # Errors
    /// The puller refuses.
    pub async fn open(mut self) -> Result<Watcher, Status> {
        let mut stream = self.client.watch(self.request).await?.into_inner();
        let (seen, receiver) = watch::channel(Seen::default());
        let reader = tokio::spawn(async move {
            loop {
                let next = stream.next().await;
                seen.send_modify(|seen| match &next {
                    Some(Ok(WatchEvent { event })) => {
                        seen.events.push(event.clone().expect("an event is of some kind"));
                    }
                    Some(Err(status)) => seen.ended = Some(Err(status.clone())),
                    None => seen.ended = Some(Ok(())),
                });
                if !matches!(next, Some(Ok(_))) {
                    return;
                }
            }
        });
        Ok(Watcher {
            seen: receiver,
            reader,
        })
    }
}

impl IntoFuture for WatchCall {
    type Output = Watcher;
    type IntoFuture = Pin<Box<dyn Future<Output = Watcher> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            self.open()
                .await
                .unwrap_or_else(|status| panic!("Watch: {status}"))
        })
    }
}

impl Watcher {
    /// All events so far.
    pub fn events(&self) -> Vec<Event> {
        self.seen.borrow().events.clone()
    }

    /// How the stream ended, if it did.
    pub fn ended(&self) -> Option<Result<(), Status>> {
        self.seen.borrow().ended.clone()
    }

    /// All states of an Image so far, oldest first.
    pub fn states_of(&self, id: &str) -> Vec<Image> {
        states_of(&self.seen.borrow().events, id)
    }

    /// The phases of an Image so far, each once for as long as it held.
    pub fn phases_of(&self, id: &str) -> Vec<Phase> {
        let mut phases: Vec<Phase> = self.states_of(id).iter().map(Image::phase).collect();
        phases.dedup();
        phases
    }

    /// The version of the last event that has one.
    pub fn last_version(&self) -> Option<String> {
        self.seen.borrow().events.iter().rev().find_map(version_of)
    }

    /// Waits until the events so far are as wanted, and returns what that found.
    ///
    /// # Panics
    /// They are not within a minute, or the stream ends before; the message shows the last event.
    pub async fn wait_until<T>(&self, what: &str, found: impl Fn(&[Event]) -> Option<T>) -> T {
        let mut seen = self.seen.clone();
        let waiting = async {
            loop {
                {
                    let seen = seen.borrow_and_update();
                    if let Some(found) = found(&seen.events) {
                        return Ok(found);
                    }
                    if let Some(ended) = &seen.ended {
                        return Err(format!("the Watch ended ({ended:?})"));
                    }
                }
                if seen.changed().await.is_err() {
                    return Err("the reader of the Watch is gone".to_owned());
                }
            }
        };
        let problem = match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(found)) => return found,
            Ok(Err(problem)) => problem,
            Err(_) => format!("{PATIENCE:?} went by"),
        };
        panic!(
            "waited for {what}, but {problem}; the last event: {:#?}",
            self.events().last()
        )
    }

    /// Waits for the bookmark that says "you have it all".
    pub async fn synced(&self) {
        self.wait_until("a synced bookmark", |events| {
            events.iter().any(is_synced).then_some(())
        })
        .await;
    }

    /// Waits until the latest state of an Image is as wanted.
    ///
    /// # Panics
    /// It is not within a minute; the message shows the last state.
    pub async fn wait_for_image(&self, id: &str, what: &str, is_so: impl Fn(&Image) -> bool) -> Image {
        self.wait_until(&format!("{what} of {id}"), |events| {
            states_of(events, id).pop().filter(|image| is_so(image))
        })
        .await
    }

    /// Waits for the event that says an Image is gone.
    pub async fn deleted(&self, id: &str) {
        let is_it = |event: &Event| matches!(event, Event::Deleted(deleted) if deleted.id == id);
        self.wait_until(&format!("the deletion of {id}"), |events| {
            events.iter().any(is_it).then_some(())
        })
        .await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The version that an event carries; a reset has none.
pub fn version_of(event: &Event) -> Option<String> {
    match event {
        Event::Put(image) => Some(image.version.clone()),
        Event::Deleted(deleted) => Some(deleted.version.clone()),
        Event::Bookmark(bookmark) => Some(bookmark.version.clone()),
        Event::Reset(_) => None,
    }
}

fn is_synced(event: &Event) -> bool {
    matches!(event, Event::Bookmark(bookmark) if bookmark.synced)
}

fn states_of(events: &[Event], id: &str) -> Vec<Image> {
    let puts = events.iter().filter_map(|event| match event {
        Event::Put(image) if image.id == id => Some(image.clone()),
        _ => None,
    });
    puts.collect()
}
