//! A puller, what it has published, and what must be true of its volume at any time.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use puller_tests::{
    image::{self, Layer, sha256},
    puller::{Phase, Puller, Watcher},
    scripted::{Get, ScriptedRegistry},
    tree::Tree,
    wait::PATIENCE,
};
use tokio::time::{Instant, sleep};

/// What nobody claims goes after that: soon, since each story waits for it.
const GRACE: Duration = Duration::from_secs(5);

/// A pull that nobody claims is cancelled after that.
const CANCEL_DELAY: &str = "100ms";

/// What is in `private/`, besides records, while nothing is under way.
const PRIVATE: [&str; 11] = [
    "blobs",
    "epoch",
    "epoch.copy",
    "format",
    "lock",
    "records",
    "records/contents",
    "records/images",
    "set-aside",
    "trash",
    "trees",
];

/// How often a volume is looked at that is not tidy yet.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct World {
    pub(super) registry: ScriptedRegistry,
    pub(super) puller: Puller,
    /// All that may ever be under `content/`.
    images: Vec<image::Image>,
    /// What was said to be unpacked, by the Image's id, and must stay.
    pub(super) unpacked: Vec<(String, image::Image)>,
    /// How many records were set aside.
    pub(super) set_aside: usize,
    watcher: Option<Watcher>,
    /// The highest version that anybody has seen: epoch and sequence.
    version: (u64, u64),
}

impl World {
    /// With a volume that no puller has ever used.
    pub(super) async fn new() -> Self {
        let puller = Puller::start()
            .grace_period(GRACE)
            .flag("--cancel-delay", CANCEL_DELAY);
        Self {
            registry: ScriptedRegistry::start().await,
            puller: puller.prepare().expect("the binary is built"),
            images: Vec::new(),
            unpacked: Vec::new(),
            set_aside: 0,
            watcher: None,
            version: (0, 0),
        }
    }

    /// With something published, and the puller not running.
    pub(super) async fn with_content() -> Self {
        let mut world = Self::new().await;
        world.start_again().await;
        let reference = world.hold("team/other:v1", "other");
        world.pull(&reference).await;
        world.is_tidy().await;
        world.kill().await;
        world
    }

    /// Puts an image of three layers, with a directory in a directory, into the registry.
    pub(super) fn hold(&mut self, name: &str, text: &str) -> String {
        let image = image::Image::new()
            .layer(Layer::gzip().file("text", text).noise(10, 9_000))
            .layer(Layer::gzip().file("deep/er/part", text).noise(10, 8_000))
            .layer(Layer::zstd().file("last", text).noise(30, 900));
        let reference = self.registry.hold(name, &image);
        self.images.push(image);
        reference
    }

    /// The image that the registry got last.
    pub(super) fn image(&self) -> &image::Image {
        self.images.last().expect("the registry has got one")
    }

    /// Pulls the image that the registry got last to its end.
    pub(super) async fn pull(&mut self, reference: &str) -> String {
        let unpacked = self.puller.pull(reference).await;
        let image = self.image().clone();
        Tree::of(self.puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
        self.unpacked.push((unpacked.id.clone(), image));
        unpacked.id
    }

    /// Asks for it where the puller may die before it answers.
    pub(super) async fn ask(&self, reference: &str) {
        let _ = self.puller.fetch(reference).send().await;
    }

    pub(super) async fn kill(&mut self) {
        self.puller.kill().await;
        self.died();
    }

    /// Starts it with the order to die, and looks on.
    pub(super) async fn start_to_crash_at(&mut self, point: &str) {
        self.puller.start_to_crash_at(point).await;
        self.watcher = Some(self.puller.watch().await);
    }

    pub(super) async fn crashed(&mut self) {
        self.puller.crashed().await;
        self.died();
    }

    pub(super) async fn start_and_crash_at(&mut self, point: &str) {
        self.puller.start_and_crash_at(point).await;
        self.died();
    }

    /// Starts it for good: all that was unpacked still is, and versions have not fallen.
    pub(super) async fn start_again(&mut self) {
        self.puller.start_again().await;
        let watcher = self.puller.watch().await;
        watcher.synced().await;
        let version = version(&watcher);
        assert!(
            version > self.version,
            "the version fell: {version:?} after {:?}",
            self.version
        );
        self.watcher = Some(watcher);
        for (id, image) in &self.unpacked {
            let state = self.puller.get(id).await;
            assert_eq!(state.phase(), Phase::Unpacked, "{state:#?}");
            Tree::of(self.puller.content(&state)).assert_same_as(&Tree::of_image(image));
        }
    }

    /// Takes note of the last version, and looks at the volume that a dead puller has left.
    fn died(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            self.version = self.version.max(version(&watcher));
        }
        let volume = self.puller.volume();
        let shown = names(&volume.join("content"));
        for name in &shown {
            let image = self.images.iter().find(|image| is_of(name, image));
            let image = image.unwrap_or_else(|| panic!("{name} under content/ is of no image"));
            Tree::of(volume.join("content").join(name)).assert_same_as(&Tree::of_image(image));
        }
        for (id, image) in &self.unpacked {
            let name = shown.iter().find(|name| is_of(name, image));
            let name = name.unwrap_or_else(|| panic!("the content of {id} is lost"));
            for record in [format!("contents/{name}"), format!("images/{id}")] {
                let file = volume.join(format!("private/records/{record}.json"));
                assert!(file.is_file(), "no record {}", file.display());
            }
        }
    }

    /// The layers of the last image that are whole on the volume.
    pub(super) fn kept(&self) -> Vec<String> {
        let blobs = self.puller.volume().join("private/blobs");
        let is_whole = |digest: &String| {
            fs::read(blobs.join(digest.replace(':', "-"))).is_ok_and(|bytes| sha256(&bytes) == *digest)
        };
        let digests = self
            .image()
            .layers()
            .iter()
            .map(|layer| layer.digest().to_owned());
        digests.filter(is_whole).collect()
    }

    /// Starts it, and pulls the last image to its end, without what is `kept` of it being downloaded.
    pub(super) async fn ends_well(&mut self, reference: &str) {
        let kept = self.kept();
        self.registry.forget_requests();
        self.start_again().await;
        self.pull(reference).await;
        for digest in kept {
            let count = self.registry.count(Get::blob(&digest));
            assert_eq!(count, 0, "{digest} was verified, and downloaded again");
        }
        self.is_tidy().await;
    }

    /// Waits until the volume holds what is unpacked, and nothing else.
    pub(super) async fn is_tidy(&self) {
        let volume = self.puller.volume();
        let mode = fs::metadata(volume.join("private")).expect("it is there");
        assert_eq!(mode.permissions().mode() & 0o777, 0o700);
        let deadline = Instant::now() + PATIENCE;
        while let Some(difference) = self.untidy() {
            assert!(Instant::now() < deadline, "it stays so: {difference}");
            sleep(LOOK_EVERY).await;
        }
    }

    fn untidy(&self) -> Option<String> {
        let volume = self.puller.volume();
        let contents = names(&volume.join("content"));
        let is_wanted = |name: &&String| self.unpacked.iter().any(|(_, image)| is_of(name, image));
        if contents.len() != self.unpacked.len() || !contents.iter().all(|name| is_wanted(&name)) {
            return Some(format!("content/ holds {contents:?}"));
        }
        let records = contents
            .iter()
            .map(|name| format!("records/contents/{name}.json"));
        let images = self
            .unpacked
            .iter()
            .map(|(id, _)| format!("records/images/{id}.json"));
        let expected: BTreeSet<String> = PRIVATE
            .map(str::to_owned)
            .into_iter()
            .chain(records)
            .chain(images)
            .collect();
        // What is being deleted may vanish while it is looked at.
        let Ok(private) = Tree::try_of(&volume.join("private")) else {
            return Some("something vanishes from private/".into());
        };
        let (aside, found): (BTreeSet<_>, BTreeSet<_>) = private
            .paths()
            .map(str::to_owned)
            .partition(|path| path.starts_with("set-aside/"));
        if aside.len() != self.set_aside {
            return Some(format!("private/ holds {aside:?}"));
        }
        let odd: Vec<_> = found.symmetric_difference(&expected).collect();
        (!odd.is_empty()).then(|| format!("private/ should not hold, or should and does not: {odd:?}"))
    }
}

/// Whether a name under `content/` is of this image.
fn is_of(name: &str, image: &image::Image) -> bool {
    let digest = image.digest();
    name.contains(digest.trim_start_matches("sha256:"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().into_string().expect("our names are UTF-8"))
        .collect()
}

/// Epoch and sequence of the last event.
fn version(watcher: &Watcher) -> (u64, u64) {
    let version = watcher.last_version().unwrap_or_else(|| "0.0".into());
    let (epoch, sequence) = version.split_once('.').expect("epoch.sequence");
    let number = |text: &str| text.parse().expect("a number");
    (number(epoch), number(sequence))
}
