//! Archives as Go's archive/tar sees them and as we do: most layers are written and read by it.

use rand::{SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use sha2::{Digest as _, Sha256};

use super::{differential, *};
use crate::layer::{archive::Kind, path};
use gotar::Listing;

mod damage;
mod differences;
mod gotar;

/// Archives of each test; `PULLER_TEST_ARCHIVES` makes it another number.
const ARCHIVES: u64 = 30;

/// `PULLER_TEST_SEED` is the first archive's; the others follow.
const SEED: u64 = 1;

/// Damaged copies of each archive of GNU tar.
const COPIES: usize = 20;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text:?}"))
    })
}

/// The seeds of a run, and what to print of one that fails.
fn seeds() -> std::ops::Range<u64> {
    let first = from_environment("PULLER_TEST_SEED", SEED);
    first..first + from_environment("PULLER_TEST_ARCHIVES", ARCHIVES)
}

fn again(seed: u64) -> String {
    format!("PULLER_TEST_SEED={seed} PULLER_TEST_ARCHIVES=1")
}

/// What a tree must be that is made of these entries: the archives of gotar have no conflicts.
fn tree(listing: &Listing) -> Nodes {
    let mut tree: BTreeMap<Vec<u8>, Node> = BTreeMap::new();
    for entry in &listing.entries {
        let path: Vec<_> = path::parts(&entry.name).collect();
        if entry.kind != Kind::Special {
            for depth in 1..path.len() {
                tree.insert(path[..depth].join(&b'/'), Node::Dir);
            }
        }
        let path = path.join(&b'/');
        let node = match &entry.kind {
            Kind::Directory => Node::Dir,
            // The walk has compared the content: its digest will do.
            Kind::File => Node::File(entry.content.clone().into_bytes()),
            Kind::Symlink(target) => Node::Link(name(target)),
            Kind::HardLink(target) => tree[target].clone(),
            Kind::Special | Kind::Label => {
                tree.remove(&path);
                continue;
            }
        };
        tree.insert(path, node);
    }
    tree.into_iter().map(|(path, node)| (name(&path), node)).collect()
}

/// Both readers find in Go's archives what was put into them, and the tree is made of that.
#[test]
fn archives_of_go_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let seeds: Vec<_> = seeds().collect();
    let files: Vec<_> = seeds
        .iter()
        .map(|seed| dir.path().join(seed.to_string()))
        .collect();
    let written = gotar::write(seeds[0], &files);
    let listed = gotar::list(&files);
    for (i, seed) in seeds.iter().enumerate() {
        let again = again(*seed);
        let archive = fs::read(&files[i]).unwrap();
        let ours = gotar::ours(&archive);
        assert_eq!(
            listed[i], written[i],
            "{again}: Go reads something else than it wrote"
        );
        assert_eq!(ours, written[i], "{again}");
        let unpacked = unpack_with(&[archive], &TreeOptions::default(), &Limits::default());
        let (mut nodes, _) = unpacked.unwrap_or_else(|fault| panic!("{again}: {fault}"));
        for node in nodes.values_mut() {
            if let Node::File(content) = node {
                *content = hex::encode(Sha256::digest(&*content)).into_bytes();
            }
        }
        assert_eq!(nodes, tree(&written[i]), "{again}");
    }
}

/// An archive of a random tree by GNU tar, and damaged copies of it, each with what was hit.
fn copies(dir: &Path, dialect: &[&str], rng: &mut StdRng) -> Vec<(&'static str, Vec<u8>)> {
    let (source, archive) = (dir.join("source"), dir.join("archive"));
    differential::random_tree(&source, dialect, rng);
    let again_the_same = ["-c", "--sort=name", "--mtime=@1700000000.5"];
    differential::tar(&[&again_the_same, dialect].concat(), &source, &archive);
    let whole = fs::read(&archive).unwrap();
    let mut copies = vec![("nothing", whole.clone())];
    for _ in 0..COPIES {
        let mut copy = whole.clone();
        copies.push((damage::damage(&mut copy, rng), copy));
    }
    copies
}

/// GNU tar's archives, in all its dialects, whole and damaged, are read as archive/tar reads them, or
/// differ in a way that is written down.
#[test]
fn archives_of_gnu_tar_are_read_as_go_reads_them() {
    let mut unknown = BTreeMap::new();
    for seed in seeds() {
        let rng = &mut StdRng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let dialect = differential::DIALECTS.choose(rng).unwrap();
        let copies = copies(dir.path(), dialect, rng);
        let file = |i: usize| dir.path().join(i.to_string());
        let files: Vec<_> = (0..copies.len()).map(file).collect();
        for (file, (_, bytes)) in files.iter().zip(&copies) {
            fs::write(file, bytes).unwrap();
        }
        let mut found = false;
        for ((theirs, (hit, bytes)), file) in gotar::list(&files).iter().zip(&copies).zip(&files) {
            if let Err(difference) = differences::check(hit, &gotar::ours(bytes), theirs) {
                found = true;
                let of = unknown.entry((*hit, difference.verdict)).or_insert_with(Vec::new);
                of.push(format!("{}: {}: {difference}", again(seed), file.display()));
            }
        }
        // A seed alone does not bring an archive back: GNU tar writes its process's id and times into some.
        if found {
            let _ = dir.keep();
        }
    }
    for (what, of) in &unknown {
        eprintln!("{what:?}: {} times, such as {}", of.len(), of[0]);
    }
    assert!(unknown.is_empty(), "differences that are not written down");
}
