//! A thousand watchers of a thousand Images, some of whom never read.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use puller_api::v1::{
    ListRequest, WatchEvent, WatchRequest, puller_client::PullerClient, watch_event::Event,
};
use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller},
    scripted::ScriptedRegistry,
    wait::within_patience,
};
use tokio::time::sleep;
use tonic::{Streaming, transport::Channel};

const IMAGES: usize = 1000;

/// Who watches: fifty read everything, a hundred want everything and never read, and the others read what a
/// claimant claims, as controllers do.
const READERS: usize = 50;
const SLEEPERS: usize = 100;
const CONTROLLERS: usize = 850;

/// Each of them claims as many Images as the others.
const CLAIMANTS: usize = 100;

/// Calls on one connection. Those who never read are on connections of their own, since HTTP/2 shares a
/// window between the calls of a connection.
const PER_CONNECTION: usize = 50;

/// Images that change once everybody has it all.
const CHANGES: usize = 20;

/// How often an Image is looked at that is to be unpacked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What all of it may cost at the peak, most of it what connections buffer; generous, since allocators differ.
const BOUND: u64 = 192 << 20;

/// The version of each Image that somebody was told last.
type Known = BTreeMap<String, String>;

fn claimant(n: usize) -> String {
    format!("controller-{}", n % CLAIMANTS)
}

/// Somebody who watches, and what it was told.
struct Watcher {
    claimant: String,
    events: Streaming<WatchEvent>,
    known: Known,
}

impl Watcher {
    /// Opens a Watch for each of these claimants (empty: all Images), on as many connections as that needs.
    async fn open(puller: &Puller, claimants: impl Iterator<Item = String>) -> Vec<Self> {
        let mut watchers = Vec::new();
        let mut client: Option<PullerClient<Channel>> = None;
        for claimant in claimants {
            if watchers.len() % PER_CONNECTION == 0 {
                client = None;
            }
            let client = client.get_or_insert_with(|| PullerClient::new(puller.connection()));
            let request = WatchRequest {
                claimant: claimant.clone(),
                ..WatchRequest::default()
            };
            let watch = within_patience("a Watch", client.watch(request)).await;
            watchers.push(Self {
                claimant,
                events: watch.expect("a Watch").into_inner(),
                known: Known::new(),
            });
        }
        watchers
    }

    /// Reads until it knows what is wanted.
    async fn read(mut self, wanted: Known) -> Self {
        while self.known != wanted {
            let event = within_patience("an event", self.events.message()).await;
            match event.expect("it goes on well").expect("and on").event {
                Some(Event::Put(image)) => {
                    self.known.insert(image.id, image.version);
                }
                Some(Event::Deleted(deleted)) => {
                    self.known.remove(&deleted.id);
                }
                Some(Event::Bookmark(_)) => {}
                Some(Event::Reset(_)) | None => panic!("there is nothing to reset"),
            }
        }
        self
    }
}

/// What `List` says.
async fn listed(puller: &Puller, claimant: &str) -> Known {
    let request = ListRequest {
        claimant: claimant.to_owned(),
    };
    let answer = puller.client().list(request).await.expect("a List").into_inner();
    let images = answer.images.into_iter();
    images.map(|image| (image.id, image.version)).collect()
}

/// Lets everybody read at once, until each knows what `List` says.
async fn all_read(puller: &Puller, watchers: Vec<Watcher>) -> Vec<Watcher> {
    let mut wanted = BTreeMap::new();
    let mut reading = Vec::new();
    for watcher in watchers {
        if !wanted.contains_key(&watcher.claimant) {
            let listed = listed(puller, &watcher.claimant).await;
            wanted.insert(watcher.claimant.clone(), listed);
        }
        let wanted = wanted[&watcher.claimant].clone();
        reading.push(tokio::spawn(watcher.read(wanted)));
    }
    let read = join_all(reading).await;
    read.into_iter()
        .map(|watcher| watcher.expect("it has read"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watchers_of_a_thousand_images_are_all_told_and_cost_little() {
    let registry = ScriptedRegistry::start().await;
    let image = Image::new().layer(Layer::gzip().file("a", "b"));
    let puller = Puller::start().await;
    let began = Instant::now();
    let everything = |number| std::iter::repeat_n(String::new(), number);
    let sleepers = Watcher::open(&puller, everything(SLEEPERS)).await;
    let mut references = Vec::new();
    let mut ids = Vec::new();
    for n in 0..IMAGES {
        references.push(registry.hold(&format!("team/app:v{n}"), &image));
        ids.push(puller.fetch(&references[n]).claimant(&claimant(n)).await.id);
    }
    for id in &ids {
        // Not by a Watch for each: what they cost is measured here.
        within_patience("an unpacked Image", async {
            while puller.get(id).await.phase() != Phase::Unpacked {
                sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }
    println!(
        "{:?}: all is unpacked; {} bytes",
        began.elapsed(),
        puller.memory()
    );

    let mut watchers = Watcher::open(&puller, everything(READERS)).await;
    watchers.extend(Watcher::open(&puller, (0..CONTROLLERS).map(claimant)).await);
    let watchers = all_read(&puller, watchers).await;
    println!("{:?}: all have read; {} bytes", began.elapsed(), puller.memory());
    for n in 0..CHANGES {
        puller.release(&ids[n], &claimant(n)).await;
        puller.fetch(&references[n]).claimant(&claimant(n + 1)).await;
    }
    let watchers = all_read(&puller, watchers).await;
    let known: usize = watchers.iter().map(|watcher| watcher.known.len()).sum();
    assert_eq!(known, READERS * IMAGES + CONTROLLERS * IMAGES / CLAIMANTS);

    let peak = puller.peak_memory();
    println!(
        "{:?}: all know what has changed; {peak} bytes at the peak",
        began.elapsed()
    );
    assert!(peak < BOUND, "{peak} bytes");
    drop(sleepers);
}
