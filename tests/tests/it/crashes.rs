//! kill -9 at any moment costs time, never correctness.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use puller_tests::{
    environment::number,
    image::{Image, Layer},
    puller::{Phase, Puller},
    scripted::{Get, ScriptedRegistry, Throttle},
    tree::Tree,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::time::sleep;

/// How often the puller is killed, unless PULLER_TEST_KILLS says otherwise.
const KILLS: u64 = 50;

/// Longest time between a Fetch and the kill: a little more than a pull takes at the registry's pace.
const PULL: Duration = Duration::from_millis(700);

/// How often a puller is killed right after it has answered a Release.
const RELEASES: usize = 10;

/// Bytes a second of each layer.
const RATE: u64 = 400_000;

fn image(n: u64) -> Image {
    let layer = |part: usize| {
        Layer::gzip()
            .file(&format!("part-{part}"), format!("{n}"))
            .noise(20, 9_000)
    };
    Image::new()
        .layer(layer(1))
        .layer(layer(2).members(3))
        .layer(Layer::zstd().file("n", n.to_string()).noise(60, 900))
}

/// S04, S05 and S06.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_it_ends_unpacked_and_never_shows_a_part() {
    let kills = number("PULLER_TEST_KILLS").unwrap_or(KILLS);
    let seed = number("PULLER_TEST_SEED").unwrap_or_else(rand::random);
    println!("PULLER_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);

    let mut registry = ScriptedRegistry::start().await;
    registry.on(Get::blobs()).then(Throttle::to(RATE));
    let mut puller = Puller::start().await;
    let reader = Reader::start(puller.volume().join("content"));
    let mut done = Vec::new();
    for n in 0..kills {
        let image = image(n);
        let reference = registry.hold(&format!("team/app:v{n}"), &image);
        reader.expect(&image);
        registry.forget_requests();
        let watcher = puller.watch().await;
        let id = puller.fetch(&reference).await.id;
        sleep(PULL.mul_f64(random.random_range(0.0..1.0))).await;
        puller.kill().await;
        let verified = watcher
            .states_of(&id)
            .pop()
            .and_then(|image| image.progress)
            .map_or(0, |progress| progress.layers_done as usize);

        registry.forget_requests();
        puller.start_again().await;
        // Fetch does not wait for the disk: a claim of the last seconds may be lost.
        let id = puller.fetch(&reference).await.id;
        let unpacked = puller.unpacked(&id).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
        let layers = image.layers();
        let downloaded = layers
            .iter()
            .filter(|layer| registry.count(Get::blob(layer.digest())) > 0)
            .count();
        assert!(
            downloaded + verified <= layers.len(),
            "kill {n}: {verified} of {} layers were verified, and {downloaded} were downloaded again",
            layers.len()
        );
        done.push((id, image));
    }
    reader.stop();

    registry.switch_off().await;
    puller.kill_and_start_again().await;
    for (id, image) in done {
        let state = puller.get(&id).await;
        assert_eq!(state.phase(), Phase::Unpacked, "without the registry: {state:#?}");
        Tree::of(puller.content(&state)).assert_same_as(&Tree::of_image(&image));
    }
}

#[tokio::test]
async fn asked_to_end_it_ends_well_in_the_middle_of_a_pull() {
    let registry = ScriptedRegistry::start().await;
    registry.on(Get::blobs()).then(Throttle::to(RATE));
    let mut puller = Puller::start().await;
    let image = image(0);
    let id = puller.fetch(&registry.hold("team/app:v1", &image)).await.id;
    puller
        .wait_for(&id, "the phase Pulling", |image| image.phase() == Phase::Pulling)
        .await;
    assert_eq!(puller.terminate().await, 0);
    assert!(!puller.socket().exists(), "it leaves its socket behind");
    puller.start_again().await;
    let unpacked = puller.unpacked(&id).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
}

#[tokio::test]
async fn a_release_that_was_answered_holds_whatever_comes() {
    let registry = ScriptedRegistry::start().await;
    let mut puller = Puller::start().await;
    let reference = registry.hold("team/app:v1", image(0));
    let id = puller.pull(&reference).await.id;
    for n in 0..RELEASES {
        let claimant = format!("claimant-{n}");
        puller.fetch(&reference).claimant(&claimant).await;
        // Once the claim is on disk, only the Release's own record can take it back.
        puller.kill_and_start_again().await;
        puller.fetch(&reference).claimant(&claimant).await;
        puller.release(&id, &claimant).await;
        puller.kill_and_start_again().await;
        let claims = puller.get(&id).await.claims;
        assert!(
            claims.iter().all(|claim| claim.claimant != claimant),
            "after {n} others, this one is back: {claims:?}"
        );
    }
}

/// Looks at what is published, all the time, and compares everything new at first sight.
struct Reader {
    expected: Arc<Mutex<BTreeMap<String, Tree>>>,
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Reader {
    fn start(content: PathBuf) -> Self {
        let expected: Arc<Mutex<BTreeMap<String, Tree>>> = Arc::default();
        let stopped = Arc::new(AtomicBool::new(false));
        let (trees, stop) = (expected.clone(), stopped.clone());
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !stop.load(Relaxed) {
                // Before its first start the puller has not made the directory yet.
                for entry in fs::read_dir(&content).into_iter().flatten().flatten() {
                    let name = entry.file_name().into_string().expect("our names are UTF-8");
                    if seen.insert(name.clone()) {
                        let trees = trees.lock().expect("no holder panics");
                        let tree = trees.iter().find(|(digest, _)| name.contains(digest.as_str()));
                        let (_, tree) =
                            tree.unwrap_or_else(|| panic!("{name} under content/ is of no image"));
                        Tree::of(entry.path()).assert_same_as(tree);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            seen.len()
        });
        Self {
            expected,
            stopped,
            thread,
        }
    }

    fn expect(&self, image: &Image) {
        let hex = image.digest().trim_start_matches("sha256:").to_owned();
        self.expected
            .lock()
            .expect("the reader found everything right")
            .insert(hex, Tree::of_image(image));
    }

    fn stop(self) {
        self.stopped.store(true, Relaxed);
        let seen = self.thread.join().expect("the reader found everything right");
        assert!(seen > 0, "the reader saw nothing");
    }
}
