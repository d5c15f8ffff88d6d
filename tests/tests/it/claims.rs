//! Images that share content come and go by their claims: what is claimed stays, and nothing else does.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::join_all;
use puller_tests::{
    environment::number,
    image::{Image, Layer},
    puller::{Fetch, Puller},
    scripted::{Get, ScriptedRegistry, Throttle},
    wait::{eventually, within_patience},
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::time::{Instant, sleep};

/// How long they come and go.
const LASTS: Duration = Duration::from_secs(8);

/// So short that Images go while it lasts.
const GRACE: Duration = Duration::from_millis(1500);

const CLAIMANTS: u64 = 5;

/// How often who reads looks whether what it reads is there still.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How often a claim that would end is renewed, and after what time it would.
const RENEW_EVERY: Duration = Duration::from_millis(500);
const RENEWED: Duration = Duration::from_secs(20);

/// Bytes a second of each layer, so that some are released in the middle of their pull.
const RATE: u64 = 400_000;

/// An image as somebody may want it.
struct Want {
    reference: String,
    /// Only the part that all of them have.
    part: bool,
    /// What [`Want::file`] holds.
    text: String,
}

const PART: &str = "configs";

impl Want {
    fn fetch(&self, puller: &Puller, claimant: &str) -> Fetch {
        let fetch = puller.fetch(&self.reference).claimant(claimant);
        if self.part { fetch.path(PART) } else { fetch }
    }

    fn file(&self) -> PathBuf {
        Path::new(PART).join("n")
    }

    /// Reads a published tree for some time.
    async fn read(&self, root: &Path, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let read = fs::read_to_string(root.join(self.file()));
            let text =
                read.unwrap_or_else(|error| panic!("{} of {root:?} is claimed: {error}", self.reference));
            assert_eq!(text, self.text);
            if Instant::now() >= end {
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Three images of a shared layer, under seven wishes: some stand for the same content, some for a part.
fn wants(registry: &ScriptedRegistry) -> Vec<Want> {
    let shared = Layer::gzip().noise(4, 20_000).build();
    let mut wants = Vec::new();
    for n in 0..3 {
        let text = n.to_string();
        let own = Layer::gzip().dir(PART).file("configs/n", &text).noise(2, 20_000);
        let image = Image::new().layer(&shared).layer(own);
        let reference = registry.hold(&format!("team/app:v{n}"), &image);
        let want = |reference: String, part: bool| Want {
            reference,
            part,
            text: text.clone(),
        };
        wants.push(want(reference.clone(), false));
        match n {
            0 => wants.push(want(registry.hold("team/other:v1", &image), false)),
            1 => wants.push(want(
                registry.reference(&format!("team/app@{}", image.digest())),
                false,
            )),
            _ => wants.push(want(registry.hold("team/third:v1", &image), true)),
        }
        wants.push(want(reference, true));
    }
    wants
}

/// What a claimant holds when it stops.
struct Held {
    id: String,
    claimant: String,
    /// The trees that its claim is for: those of the Image, and what it said it reads.
    trees: BTreeSet<String>,
    /// The manifest that it said it reads.
    reads: Option<String>,
}

impl Held {
    /// Whether its claim keeps a tree: what is read is kept by its manifest, whatever part was selected.
    fn keeps(&self, tree: &str) -> bool {
        let reads = self.reads.as_ref().map(|digest| digest.replace(':', "-"));
        self.trees.contains(tree) || reads.is_some_and(|manifest| tree.contains(&manifest))
    }
}

struct Claimant<'a> {
    name: String,
    random: StdRng,
    puller: &'a Puller,
    wants: &'a [Want],
}

impl<'a> Claimant<'a> {
    fn pick(&mut self) -> &'a Want {
        &self.wants[self.random.random_range(0..self.wants.len())]
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.random_range(0.0..1.0))
    }

    async fn release(&mut self, id: &str) {
        for _ in 0..self.random.random_range(1..3) {
            self.puller.release(id, &self.name).await;
        }
    }

    /// Claims, waits and reads; gives the id and the tree.
    async fn unpacked(&mut self, want: &Want) -> (String, PathBuf) {
        let id = want.fetch(self.puller, &self.name).await.id;
        let image = self.puller.unpacked(&id).await;
        let root = self.puller.content(&image);
        want.read(&root, Duration::ZERO).await;
        (id, root)
    }

    async fn act(&mut self) {
        let want = self.pick();
        match self.random.random_range(0..5) {
            // Asks, and does not wait.
            0 => {
                let id = want.fetch(self.puller, &self.name).await.id;
                sleep(self.up_to(GRACE)).await;
                self.release(&id).await;
            }
            // Asks, and is never heard of again.
            1 => {
                let ttl = Duration::from_millis(100) + self.up_to(GRACE);
                want.fetch(self.puller, &self.name).claim_ttl(ttl).await;
                sleep(self.up_to(GRACE)).await;
            }
            2 => {
                let (id, root) = self.unpacked(want).await;
                want.read(&root, self.up_to(2 * GRACE)).await;
                self.release(&id).await;
            }
            // Says again and again that it is there.
            3 => {
                let (id, root) = self.unpacked(want).await;
                for _ in 0..self.random.random_range(1..8) {
                    want.fetch(self.puller, &self.name).claim_ttl(RENEWED).await;
                    want.read(&root, RENEW_EVERY).await;
                }
                self.release(&id).await;
            }
            // Reads what it claims no more, and says so with another claim.
            _ => {
                let (held, root) = self.read_by_another_claim(want).await;
                let time = self.up_to(4 * GRACE);
                want.read(&root, time).await;
                self.release(&held.id).await;
            }
        }
    }

    async fn read_by_another_claim(&mut self, want: &Want) -> (Held, PathBuf) {
        let (id, root) = self.unpacked(want).await;
        let content = self.puller.get(&id).await.content.expect("it is unpacked");
        let other = loop {
            let other = self.pick();
            if other.reference != want.reference {
                break other;
            }
        };
        let fetch = other
            .fetch(self.puller, &self.name)
            .in_use(&content.manifest_digest);
        let other = fetch.await.id;
        self.release(&id).await;
        let held = Held {
            id: other,
            claimant: self.name.clone(),
            trees: BTreeSet::from([content.path]),
            reads: Some(content.manifest_digest),
        };
        (held, root)
    }

    async fn run(mut self, end: Instant) -> Held {
        while Instant::now() < end {
            self.act().await;
        }
        // Every other one holds content by the Image, and the rest by what it says it reads, too.
        let want = self.pick();
        let mut held = if self.random.random_bool(0.5) {
            self.read_by_another_claim(want).await.0
        } else {
            let id = self.unpacked(want).await.0;
            Held {
                id,
                claimant: self.name.clone(),
                trees: BTreeSet::new(),
                reads: None,
            }
        };
        let image = self.puller.unpacked(&held.id).await;
        held.trees.insert(image.content.expect("it is unpacked").path);
        held
    }
}

/// The published trees, as Images name them.
fn trees(puller: &Puller) -> BTreeSet<String> {
    let names = fs::read_dir(puller.volume().join("content")).expect("a volume");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("our names are UTF-8");
    names
        .map(|entry| format!("content/{}", name(entry.expect("a directory"))))
        .collect()
}

/// Entries of a directory that only the puller may enter.
fn private(puller: &Puller, directory: &str) -> usize {
    fs::read_dir(puller.volume().join("private").join(directory))
        .expect("tests run as the puller's user")
        .count()
}

/// Waits until there is nothing but what is held.
async fn only_held(puller: &Puller, held: &[Held]) {
    let wanted: BTreeSet<_> = held.iter().flat_map(|held| held.trees.clone()).collect();
    let left = eventually(&format!("nothing on the volume but {wanted:?}"), || {
        let left = trees(puller);
        assert!(wanted.is_subset(&left), "{left:?} lack some of {wanted:?}");
        let is_held = |tree: &String| held.iter().any(|held| held.keeps(tree));
        left.iter().all(is_held).then_some(left)
    })
    .await;
    let ids: BTreeSet<_> = held.iter().map(|held| held.id.clone()).collect();
    within_patience("a List of what is claimed and nothing else", async {
        loop {
            let listed: BTreeSet<_> = puller.list().await.into_iter().map(|image| image.id).collect();
            assert!(ids.is_subset(&listed), "{listed:?} lack some of {ids:?}");
            if listed == ids {
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    })
    .await;
    for (directory, number) in [
        ("records/images", ids.len()),
        ("records/contents", left.len()),
        ("blobs", 0),
        ("trees", 0),
        ("trash", 0),
    ] {
        eventually(&format!("{number} entries in private/{directory}"), || {
            (private(puller, directory) == number).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_claimed_stays_and_what_nobody_claims_goes() {
    let seed = number("PULLER_TEST_SEED").unwrap_or_else(rand::random);
    println!("PULLER_TEST_SEED={seed}");
    let mut registry = ScriptedRegistry::start().await;
    registry.on(Get::blobs()).then(Throttle::to(RATE));
    let wants = wants(&registry);
    let mut puller = Puller::start().grace_period(GRACE).await;

    let end = Instant::now() + LASTS;
    let claimant = |n: u64| Claimant {
        name: format!("claimant-{n}"),
        random: StdRng::seed_from_u64(seed.wrapping_add(n)),
        puller: &puller,
        wants: &wants,
    };
    let mut held = join_all((0..CLAIMANTS).map(|n| claimant(n).run(end))).await;
    only_held(&puller, &held).await;

    // All of that is on the volume.
    registry.switch_off().await;
    puller.kill_and_start_again().await;
    only_held(&puller, &held).await;
    let one = held.pop().expect("each holds something");
    puller.release(&one.id, &one.claimant).await;
    only_held(&puller, &held).await;
    for held in held {
        puller.release(&held.id, &held.claimant).await;
    }
    only_held(&puller, &[]).await;
}
