//! Stacks of layers, made at random, as skopeo and umoci unpack them: the trees must be the same.

use std::collections::BTreeMap;

use puller_tests::{
    environment::number,
    image::{Image, Layer},
    puller::Puller,
    registry::DockerRegistry,
    tree::Tree,
    umoci,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

/// Stacks of a run; `PULLER_TEST_STACKS` makes it another number. Each costs a push and two pulls.
const STACKS: u64 = 12;

/// `PULLER_TEST_SEED` is the first stack's; the others follow.
const SEED: u64 = 1;

/// What a path is, as far as the next entries must know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Dir,
    File,
    Link,
}

/// Few names, so that layers meet.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Makes one layer over what is there, and keeps the account of it.
fn layer(rng: &mut StdRng, there: &mut BTreeMap<String, Is>) -> Layer {
    // Debian's umoci knows no zstd.
    let mut layer = if rng.random() {
        Layer::gzip()
    } else {
        Layer::plain()
    };
    // What this layer has made: an entry over an entry of the same layer is another test's.
    let mut made: BTreeMap<String, Is> = BTreeMap::new();
    for _ in 0..rng.random_range(1..12) {
        let parents: Vec<_> = there
            .iter()
            .filter(|(_, is)| **is == Is::Dir)
            .map(|(path, _)| path.clone())
            .chain([String::new()])
            .collect();
        let parent = parents.choose(rng).expect("the root");
        let name = NAMES.choose(rng).expect("a name");
        let path = if parent.is_empty() {
            (*name).to_owned()
        } else {
            format!("{parent}/{name}")
        };
        let below = format!("{path}/");
        if made.contains_key(&path) || made.keys().any(|other| other.starts_with(&below)) {
            continue;
        }
        let is = match rng.random_range(0..10) {
            0..3 => {
                layer = layer.file(&path, format!("{}", rng.random::<u32>()));
                Is::File
            }
            3..6 => {
                layer = layer.dir(&path);
                Is::Dir
            }
            6 => {
                layer = layer.symlink(
                    &path,
                    ["/etc/passwd", "../a", "b", "a/b/c"].choose(rng).expect("one"),
                );
                Is::Link
            }
            7 => {
                let files: Vec<_> = made
                    .iter()
                    .filter(|(_, is)| **is == Is::File)
                    .map(|(path, _)| path.clone())
                    .collect();
                let Some(target) = files.choose(rng) else { continue };
                layer = layer.hardlink(&path, target);
                Is::File
            }
            8 if there.contains_key(&path) => {
                layer = layer.whiteout(&path);
                there.retain(|other, _| *other != path && !other.starts_with(&below));
                continue;
            }
            9 if there.get(&path) == Some(&Is::Dir) => {
                layer = layer.opaque(&path);
                there.retain(|other, _| !other.starts_with(&below));
                made.insert(path, Is::Dir);
                continue;
            }
            _ => continue,
        };
        if is != Is::Dir {
            there.retain(|other, _| !other.starts_with(&below));
        }
        there.insert(path.clone(), is);
        made.insert(path, is);
    }
    layer
}

#[tokio::test]
async fn stacks_of_layers_are_what_umoci_makes_of_them() {
    let registry = DockerRegistry::start().await;
    let puller = Puller::start().await;
    let first = number("PULLER_TEST_SEED").unwrap_or(SEED);
    for seed in first..first + number("PULLER_TEST_STACKS").unwrap_or(STACKS) {
        let rng = &mut StdRng::seed_from_u64(seed);
        let mut there = BTreeMap::new();
        let image =
            (0..rng.random_range(1..5)).fold(Image::new(), |image, _| image.layer(layer(rng, &mut there)));
        let name = format!("stack:{seed}");
        registry.push(&name, &image).await;
        let unpacked = puller.pull(&registry.reference(&name)).await;
        let theirs = umoci::unpack(&registry, &name).await.with_published_modes();
        let differences = Tree::of(puller.content(&unpacked)).differences(&theirs);
        assert!(
            differences.is_empty(),
            "PULLER_TEST_SEED={seed} PULLER_TEST_STACKS=1: {differences:#?}"
        );
    }
}
