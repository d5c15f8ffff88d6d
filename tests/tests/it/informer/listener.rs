//! A client that reads a Watch event by event, and holds each against what the API promises.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use puller_client::{
    Client, Filter, Watch,
    api::{self, watch_event::Event},
};
use puller_tests::puller::Phase;
use tokio::{sync::Notify, task::JoinHandle, time::sleep};

use super::numbers;

/// How long it waits before it dials again.
const DIAL_AGAIN: Duration = Duration::from_millis(20);

/// A Watch that is begun again whenever it ends.
pub(super) struct Listener {
    pub(super) filter: Filter,
    ear: Arc<Mutex<Ear>>,
    hang_up: Arc<Notify>,
    hurries: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// What it has heard.
#[derive(Debug, Default)]
struct Ear {
    copy: BTreeMap<String, api::Image>,
    /// The last version; none: all states are to be told.
    last: Option<Vec<u64>>,
    resume: String,
    /// What was told since all states are told again.
    told: Option<BTreeSet<String>>,
    /// The highest version of each Image ever.
    highest: BTreeMap<String, Vec<u64>>,
    /// The last state of each Image, as long as nothing between it and the next may be missing.
    before: BTreeMap<String, api::Image>,
    /// It hears of all Images, so of each from its first phase on.
    all: bool,
    deletions: usize,
    phases: usize,
}

impl Listener {
    /// Listens; `pause`: how long it looks away after each event.
    pub(super) fn start(client: &Client, filter: &Filter, pause: Duration) -> Self {
        let ear = Arc::new(Mutex::new(Ear {
            all: *filter == Filter::default(),
            ..Ear::default()
        }));
        let hang_up = Arc::new(Notify::new());
        let hurries = Arc::new(AtomicBool::new(false));
        let (hears, hangs_up, hurry) = (Arc::clone(&ear), Arc::clone(&hang_up), Arc::clone(&hurries));
        let (client, watched) = (client.clone(), filter.clone());
        let task = tokio::spawn(async move {
            loop {
                let request = request(&watched, hears.lock().expect("only this task fails").begin());
                match client.watch(request).await {
                    Ok(mut watch) => {
                        while let Some(event) = next(&mut watch, &hangs_up).await {
                            hears.lock().expect("only this task fails").hear(event);
                            if !hurry.load(Relaxed) {
                                sleep(pause).await;
                            }
                        }
                    }
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
                sleep(DIAL_AGAIN).await;
            }
        });
        Self {
            filter: filter.clone(),
            ear,
            hang_up,
            hurries,
            task,
        }
    }

    /// Looks away no more.
    pub(super) fn hurry(&self) {
        self.hurries.store(true, Relaxed);
    }

    /// Breaks its connection off; it dials again.
    pub(super) fn hang_up(&self) {
        self.hang_up.notify_one();
    }

    /// The states that it knows.
    pub(super) fn copy(&self) -> BTreeMap<String, api::Image> {
        self.heard(|ear| ear.copy.clone())
    }

    /// How many phases it saw entered.
    pub(super) fn phases(&self) -> usize {
        self.heard(|ear| ear.phases)
    }

    /// How many Images it saw go.
    pub(super) fn deletions(&self) -> usize {
        self.heard(|ear| ear.deletions)
    }

    fn heard<T>(&self, look: impl FnOnce(&Ear) -> T) -> T {
        assert!(!self.task.is_finished(), "the listener has failed");
        look(&self.ear.lock().expect("the listener has not failed"))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn request(filter: &Filter, version: String) -> api::WatchRequest {
    let Filter { claimant, ids } = filter.clone();
    api::WatchRequest {
        version,
        claimant,
        ids,
    }
}

/// The next event of this connection.
async fn next(watch: &mut Watch, hang_up: &Notify) -> Option<Event> {
    let event = tokio::select! {
        event = watch.next() => event?,
        () = hang_up.notified() => return None,
    };
    match event {
        Ok(event) => Some(event.event.expect("an event is of some kind")),
        Err(error) => {
            assert!(error.is_transient(), "{error}");
            None
        }
    }
}

impl Ear {
    fn begin(&mut self) -> String {
        if self.told.is_some() || self.last.is_none() {
            self.anew();
            self.resume.clear();
        }
        self.resume.clone()
    }

    /// All states are told again, and not how they came to be.
    fn anew(&mut self) {
        self.told = Some(BTreeSet::new());
        self.last = None;
        self.before.clear();
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Put(image) => self.put(image),
            Event::Deleted(api::Deleted { id, version }) => {
                self.rise(&version, true);
                self.copy.remove(&id);
                self.before.remove(&id);
                if let Some(told) = &mut self.told {
                    told.remove(&id);
                }
                self.deletions += 1;
            }
            Event::Bookmark(api::Bookmark { version, synced }) => {
                self.rise(&version, false);
                if let Some(told) = self.told.take_if(|_| synced) {
                    self.copy.retain(|id, _| told.contains(id));
                }
            }
            Event::Reset(api::Reset {}) => self.anew(),
        }
    }

    fn put(&mut self, image: api::Image) {
        let id = image.id.clone();
        self.rise(&image.version, true);
        let version = numbers(&image.version);
        let highest = self.highest.insert(id.clone(), version.clone());
        assert!(
            highest.is_none_or(|old| old <= version),
            "a version falls: {image:#?}"
        );
        if self.told.is_none() {
            let before = self.before.get(&id);
            // A deletion may be told by what came after it: an Image that was made later.
            let before = before.filter(|before| before.created == image.created);
            if before.is_some() || self.all {
                assert_follows(before, &image);
            }
        }
        if self
            .before
            .get(&id)
            .is_none_or(|before| before.phase() != image.phase())
        {
            self.phases += 1;
        }
        if let Some(told) = &mut self.told {
            told.insert(id.clone());
        }
        self.before.insert(id.clone(), image.clone());
        self.copy.insert(id, image);
    }

    fn rise(&mut self, text: &str, strictly: bool) {
        let version = numbers(text);
        let rises = |last: &Vec<u64>| {
            if strictly {
                *last < version
            } else {
                *last <= version
            }
        };
        assert!(
            self.last.as_ref().is_none_or(rises),
            "{text} after {:?}",
            self.last
        );
        self.last = Some(version);
        text.clone_into(&mut self.resume);
    }
}

/// No phase lies between the two that this watcher was not told of. Tags do not move in this scenario.
fn assert_follows(before: Option<&api::Image>, image: &api::Image) {
    use Phase::{Failed, Initiated, Pulling, Retrying, Unpacked, Unpacking};
    let Some(before) = before else {
        assert_eq!(
            image.phase(),
            Initiated,
            "it begins with its first phase: {image:#?}"
        );
        return;
    };
    let follows = match (before.phase(), image.phase()) {
        // Each failure is an event of its own; every other phase is left before it is entered again.
        (a, b) if a == b => before.phase_since == image.phase_since || a == Retrying || a == Failed,
        (Initiated, b) => matches!(b, Pulling | Retrying | Failed),
        // Initiated: nobody wants it any more.
        (Pulling, b) => matches!(b, Unpacking | Retrying | Failed | Initiated),
        (Unpacking, b) => matches!(b, Unpacked | Retrying | Failed | Initiated),
        (Unpacked, b) => b == Pulling,
        (Retrying, b) => matches!(b, Pulling | Failed),
        (Failed, b) => matches!(b, Pulling | Retrying),
        _ => false,
    };
    assert!(follows, "phases are missing between {before:#?} and {image:#?}");
}
