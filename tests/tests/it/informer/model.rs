//! Anything may happen to the puller, its registry and its informers, in any order: once it stops, every
//! store is what `List` says, whoever went by the triggers alone knows the same, and so does whoever reads the
//! Watch itself, who was told every phase on the way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt as _;
use puller_client::{Client, Filter, Informer, Key, api};
use puller_tests::{
    environment::number,
    image::{Image, Layer},
    puller::Puller,
    scripted::{Answer, Cut, Get, ScriptedRegistry, Throttle},
    wait::within_patience,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{LOOK_EVERY, Relay, claimed_by, client, listed, listener::Listener};

/// How long it goes on, before it is to come to rest.
const LASTS: Duration = Duration::from_secs(12);

/// Few, so that claims and pulls of the same Image meet.
const IMAGES: usize = 6;
const CLAIMANTS: [&str; 3] = ["a", "b", "c"];

/// So short that Images go while it lasts.
const GRACE: Duration = Duration::from_millis(500);

/// How long a slow follower looks away after each trigger.
const SLOW: Duration = Duration::from_millis(300);

/// Whoever copies the store, Image by Image, at its triggers.
struct Follower {
    informer: Informer,
    filter: Filter,
    copy: Arc<Mutex<BTreeMap<String, api::Image>>>,
    task: JoinHandle<()>,
}

impl Follower {
    fn start(client: &Client, filter: &Filter, pause: Duration) -> Self {
        let informer = Informer::start(client.clone(), filter.clone());
        let copy: Arc<Mutex<BTreeMap<String, api::Image>>> = Arc::default();
        let (reads, copies) = (informer.clone(), Arc::clone(&copy));
        let task = tokio::spawn(async move {
            let mut triggers = reads.triggers();
            loop {
                let id = triggers.next().await.expect("triggers never end");
                {
                    let mut copy = copies.lock().expect("no holder panics");
                    match reads.get(&id) {
                        Some(image) => copy.insert(id, (*image).clone()),
                        None => copy.remove(&id),
                    };
                }
                sleep(pause).await;
            }
        });
        Self {
            informer,
            filter: filter.clone(),
            copy,
            task,
        }
    }

    fn copy(&self) -> BTreeMap<String, api::Image> {
        assert!(!self.task.is_finished(), "the follower has failed");
        self.copy.lock().expect("no holder panics").clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_every_store_ends_as_list_has_it() {
    let seed = number("PULLER_TEST_SEED").unwrap_or_else(rand::random);
    println!("PULLER_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);

    let registry = ScriptedRegistry::start().await;
    let references: Vec<String> = (0..IMAGES)
        .map(|n| {
            let image = Image::new().layer(Layer::gzip().file("n", n.to_string()).noise(4, 20_000));
            registry.hold(&format!("team/app:v{n}"), &image)
        })
        .collect();
    let mut puller = Puller::start().grace_period(GRACE).await;
    let relay = Relay::to(&puller.socket()).await;
    let relayed = Client::connect(&relay.endpoint()).expect("an endpoint");
    let client = client(&puller);
    let id = puller.fetch(&references[0]).await.id;
    let one = Filter {
        claimant: String::new(),
        ids: vec![id],
    };
    // Each with what it follows by, what it is for, and how slow it is.
    let kinds = [
        (&client, Filter::default(), Duration::ZERO),
        (&client, Filter::default(), SLOW),
        (&client, claimed_by("a"), Duration::ZERO),
        (&client, one, Duration::ZERO),
        (&relayed, Filter::default(), Duration::ZERO),
        (&relayed, claimed_by("b"), SLOW),
    ];
    let start =
        |(client, filter, pause): &(&Client, Filter, Duration)| Follower::start(client, filter, *pause);
    let mut followers: Vec<Follower> = kinds.iter().map(start).collect();
    let listen =
        |(client, filter, pause): &(&Client, Filter, Duration)| Listener::start(client, filter, *pause);
    let listeners: Vec<Listener> = kinds.iter().map(listen).collect();

    let end = Instant::now() + LASTS;
    while Instant::now() < end {
        let reference = &references[random.random_range(0..IMAGES)];
        let claimant = CLAIMANTS[random.random_range(0..CLAIMANTS.len())];
        match random.random_range(0..100) {
            0..45 => {
                puller.fetch(reference).claimant(claimant).await;
            }
            45..65 => release(&client, reference, claimant).await,
            // Nobody wants it any more: it goes, unless somebody fetches it soon.
            65..75 => release_all(&client, reference).await,
            75..85 => fault(&registry, &mut random),
            85..89 => registry.behave(),
            89..93 => {
                relay.cut();
                sleep(Duration::from_millis(random.random_range(0..50))).await;
                relay.mend();
            }
            93..95 => {
                let which = random.random_range(0..kinds.len());
                followers[which] = start(&kinds[which]);
            }
            95..97 => listeners[random.random_range(0..kinds.len())].hang_up(),
            97..99 => puller.kill_and_start_again().await,
            _ => {
                assert_eq!(puller.terminate().await, 0);
                puller.start_again().await;
            }
        }
        sleep(Duration::from_millis(random.random_range(0..40))).await;
    }
    registry.behave();
    let last = &references[IMAGES - 1];
    let gone = puller.fetch(last).claimant(CLAIMANTS[0]).await.id;
    release_all(&client, last).await;
    puller.gone(&gone).await;
    for (n, follower) in followers.iter().enumerate() {
        within_patience(&format!("the rest of follower {n}"), async {
            loop {
                let listed = listed(&client, &follower.filter).await;
                if super::stored(&follower.informer) == listed && follower.copy() == listed {
                    return;
                }
                sleep(LOOK_EVERY).await;
            }
        })
        .await;
        assert!(follower.informer.has_synced());
        assert_eq!(follower.informer.last_error(), None);
    }
    for (n, listener) in listeners.iter().enumerate() {
        listener.hurry();
        within_patience(&format!("the rest of listener {n}"), async {
            while listener.copy() != listed(&client, &listener.filter).await {
                sleep(LOOK_EVERY).await;
            }
        })
        .await;
        println!(
            "listener {n} saw {} phases and {} deletions",
            listener.phases(),
            listener.deletions()
        );
    }
    // Whoever has to begin anew, as slow ones have after each restart, learns it from what is not told again.
    assert!(listeners[0].deletions() > 0, "it was not told of what is gone");
}

async fn release(client: &Client, reference: &str, claimant: &str) {
    let wish = Key::Wish(api::Wish {
        reference: reference.to_owned(),
        ..Default::default()
    });
    client
        .release(wish, claimant)
        .await
        .expect("a release is idempotent");
}

async fn release_all(client: &Client, reference: &str) {
    for claimant in CLAIMANTS {
        release(client, reference, claimant).await;
    }
}

/// Something goes wrong at the registry, for a while.
fn fault(registry: &ScriptedRegistry, random: &mut StdRng) {
    let what = match random.random_range(0..3) {
        0 => Get::manifests(),
        _ => Get::blobs(),
    };
    let rule = registry.on(what).times(random.random_range(1..6));
    rule.then(match random.random_range(0..4) {
        0 => Answer::status(503),
        1 => Answer::status(404),
        2 => Cut::after(10_000),
        _ => Throttle::to(50_000),
    });
}
