//! Room runs out (decision 12): pulls wait for it and go on by themselves, what nobody claims goes first, and
//! readers notice nothing.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Get, ScriptedRegistry},
    small_disk::SmallDisk,
    tree::Tree,
    wait::eventually,
};
use tokio::{task::JoinHandle, time::Instant};

const MIB: usize = 1 << 20;

/// Reads a tree again and again, and panics when it is not what it should be.
struct Reader {
    stop: Arc<AtomicBool>,
    read: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn of(tree: PathBuf, image: &Image) -> Self {
        let (stop, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let expected = Tree::of_image(image);
        let thread = tokio::task::spawn_blocking({
            let (stop, read) = (Arc::clone(&stop), Arc::clone(&read));
            move || {
                while !stop.load(Relaxed) {
                    Tree::of(&tree).assert_same_as(&expected);
                    read.fetch_add(1, Relaxed);
                }
            }
        });
        Self { stop, read, thread }
    }

    async fn noticed_nothing(self) {
        let before = self.read.load(Relaxed);
        eventually("a reading at the end", || {
            (self.thread.is_finished() || self.read.load(Relaxed) > before + 1).then_some(())
        })
        .await;
        self.stop.store(true, Relaxed);
        self.thread.await.expect("what it read was right");
    }
}

/// So many bytes that gzip makes about a twentieth of.
fn wordy(bytes: usize) -> Vec<u8> {
    let block = |n: usize| format!("{:064x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).repeat(64);
    (0..).flat_map(|n| block(n).into_bytes()).take(bytes).collect()
}

fn noise(files: usize, bytes: usize) -> Image {
    Image::new().layer(Layer::gzip().noise(files, bytes))
}

/// The second argument tells images of the same size apart.
fn one_mebibyte(name: &str) -> Image {
    Image::new().layer(Layer::gzip().file("name", name).noise(1, MIB))
}

/// 32 MiB: 3.2 are never touched, 2 hold what is read, 14 are somebody else's; 20 don't fit into what is left.
async fn bytes_run_out(disk: &SmallDisk) {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().volume(disk.root().join("volume")).await;
    let read = noise(2, MIB);
    let published = puller.pull(&registry.hold("team/read:v1", &read)).await;
    let reader = Reader::of(puller.content(&published), &read);

    let taken = disk.take(14 * MIB);
    let free = disk.bytes_free();
    let big = Image::new().layer(Layer::gzip().file("big", wordy(20 * MIB)));
    let fetched = puller.fetch(&registry.hold("team/big:v1", &big)).await;
    let waits = puller.retrying(&fetched.id).await;
    let error = waits.last_error.expect("why it waits");
    assert_eq!(error.reason(), Reason::NoSpace, "{}", error.message);
    // What it had unpacked is removed. Its layer is kept for the next attempt, since nobody else needs the room.
    let left = usize::try_from(big.layer_bytes()).expect("it is small") + MIB / 2;
    eventually("its room back", || {
        (disk.bytes_free() + left as u64 >= free).then_some(())
    })
    .await;

    // Who needs less goes by.
    let small = puller.pull(&registry.hold("team/small:v1", noise(1, 1000))).await;
    assert_eq!(small.phase(), Phase::Unpacked);
    assert_ne!(puller.get(&fetched.id).await.phase(), Phase::Unpacked);

    fs::remove_file(taken).expect("it can be removed");
    let unpacked = puller.unpacked(&fetched.id).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&big));
    assert_eq!(
        registry.count(Get::blob(big.layers()[0].digest())),
        1,
        "what was verified is not downloaded again"
    );
    reader.noticed_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_run_out_on_tmpfs_in_the_middle_and_come_back() {
    if let Some(disk) = SmallDisk::tmpfs(32, 0) {
        bytes_run_out(&disk).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_run_out_on_ext4_in_the_middle_and_come_back() {
    if let Some(disk) = SmallDisk::ext4(32, 1000) {
        bytes_run_out(&disk).await;
    }
}

/// Two images have a file for six of ten free inodes each: the second one waits until nobody wants the first.
async fn inodes_run_out(disk: &SmallDisk) {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start()
        .volume(disk.root().join("volume"))
        .grace_period(Duration::from_secs(2))
        .await;
    let files = usize::try_from(disk.inodes_free() * 6 / 10).expect("there are few");
    let first = puller
        .pull(&registry.hold("team/first:v1", noise(files, 10)))
        .await;
    let second = noise(files, 11);
    let fetched = puller.fetch(&registry.hold("team/second:v1", &second)).await;
    let error = puller
        .retrying(&fetched.id)
        .await
        .last_error
        .expect("why it waits");
    assert_eq!(error.reason(), Reason::NoSpace, "{}", error.message);

    puller.release(&first.id, "scenario").await;
    let unpacked = puller.unpacked(&fetched.id).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&second));
    assert!(puller.try_get(&first.id).await.is_err(), "nobody wanted it");
}

#[tokio::test]
async fn inodes_run_out_on_tmpfs_and_come_back() {
    if let Some(disk) = SmallDisk::tmpfs(64, 500) {
        inodes_run_out(&disk).await;
    }
}

#[tokio::test]
async fn inodes_run_out_on_ext4_and_come_back() {
    if let Some(disk) = SmallDisk::ext4(64, 500) {
        inodes_run_out(&disk).await;
    }
}

/// Nothing is removed early before a grace period after the start, and everything that nobody claims goes after
/// it by itself: in between something is to be seen.
const GRACE: Duration = Duration::from_secs(30);

/// A puller whose first grace period is over, and what it has unpacked: 1 MiB each, by these names, all claimed.
async fn after_its_first_grace<const N: usize>(
    registry: &ScriptedRegistry,
    names: [&str; N],
    flags: &[(&str, &str)],
) -> (Puller, [String; N]) {
    let started = Instant::now();
    let mut starting = Puller::start().grace_period(GRACE);
    for (flag, value) in flags {
        starting = starting.flag(flag, *value);
    }
    let puller = starting.await;
    let mut ids = Vec::new();
    for name in names {
        let reference = registry.hold(&format!("team/{name}:v1"), one_mebibyte(name));
        ids.push(puller.pull(&reference).await.id);
    }
    tokio::time::sleep_until(started + GRACE + Duration::from_secs(1)).await;
    (puller, ids.try_into().expect("one for each name"))
}

async fn there(puller: &Puller) -> Vec<String> {
    puller.list().await.into_iter().map(|image| image.id).collect()
}

#[tokio::test]
async fn for_a_pull_the_longest_unclaimed_goes_first_and_what_is_claimed_never() {
    let registry = ScriptedRegistry::start().await;
    // Three are there; a pull of a fourth asks for three times its compressed size.
    let flags = [("--quota", "5500KiB")];
    let names = ["early", "late", "claimed"];
    let (puller, [early, late, claimed]) = after_its_first_grace(&registry, names, &flags).await;
    puller.release(&early, "scenario").await;
    puller.release(&late, "scenario").await;

    let more = |name: &str| registry.hold(&format!("team/{name}:v1"), one_mebibyte(name));
    let fourth = puller.pull(&more("fourth")).await;
    let left = there(&puller).await;
    assert!(!left.contains(&early), "its room was needed");
    assert!(left.contains(&late), "its room was not needed");
    let fifth = puller.pull(&more("fifth")).await;
    assert!(!there(&puller).await.contains(&late), "its room was needed");

    // Now there is nothing left that may go.
    let waits = puller.fetch(&more("sixth")).await;
    let error = puller.retrying(&waits.id).await.last_error.expect("why it waits");
    assert_eq!(error.reason(), Reason::NoSpace, "{}", error.message);
    assert!(error.message.contains("quota"), "{}", error.message);
    for id in [&claimed, &fourth.id] {
        Tree::of(puller.content(&puller.get(id).await));
    }
    puller.release(&fifth.id, "scenario").await;
    puller.unpacked(&waits.id).await;
    let left = there(&puller).await;
    assert!(left.contains(&claimed) && left.contains(&fourth.id) && !left.contains(&fifth.id));
}

#[tokio::test]
async fn above_the_high_water_mark_what_nobody_claims_goes_until_the_low_one() {
    let registry = ScriptedRegistry::start().await;
    // Five of ten MiB will be in use, above 45 %: two have to go until no more than 35 % are.
    let flags = [
        ("--quota", "10MiB"),
        ("--high-water", "45"),
        ("--low-water", "35"),
    ];
    let names = ["claimed", "first", "second", "third"];
    let (puller, [claimed, first, second, third]) = after_its_first_grace(&registry, names, &flags).await;
    for id in [&first, &second, &third] {
        puller.release(id, "scenario").await;
    }
    let fifth = puller
        .pull(&registry.hold("team/fifth:v1", one_mebibyte("fifth")))
        .await;
    let removed = puller.volume().join("content");
    eventually("the content of two is gone", || {
        (fs::read_dir(&removed).expect("it is there").count() == 3).then_some(())
    })
    .await;
    let left = there(&puller).await;
    assert!(!left.contains(&first) && !left.contains(&second), "{left:?}");
    for id in [&claimed, &third, &fifth.id] {
        assert!(left.contains(id), "{left:?}");
    }
}
