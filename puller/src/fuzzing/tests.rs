//! All targets over their seeds and over mutations of these, so that a regression shows without a fuzzer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, panic,
    path::PathBuf,
};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{TARGETS, Target};

/// Mutated inputs of a target. An unpack costs about a millisecond, everything else far less.
const MUTATIONS: usize = 1000;

/// Bytes of the longest input that a mutation makes: longer than any bound on a message.
const LONGEST: usize = 32 << 10;

fn fuzz_dir() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz"))
}

/// The seeds of a target, in an order that is always the same.
fn seeds(name: &str) -> Vec<(String, Vec<u8>)> {
    let mut seeds: Vec<_> = fs::read_dir(fuzz_dir().join("corpus").join(name))
        .unwrap_or_else(|error| panic!("{name} has no seeds: {error}"))
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    seeds.sort();
    seeds
}

/// Runs a target, and shows the input when it fails.
fn run(name: &str, target: Target, input: &[u8], whence: &str) {
    if let Err(payload) = panic::catch_unwind(|| target(input)) {
        eprintln!("the target {name}, {whence}: b\"{}\"", input.escape_ascii());
        panic::resume_unwind(payload);
    }
}

/// One to four changes of what an input is made of.
fn mutate(seeds: &[(String, Vec<u8>)], rng: &mut StdRng) -> Vec<u8> {
    let pick = |rng: &mut StdRng| seeds.choose(rng).expect("a seed").1.clone();
    let mut input = pick(rng);
    for _ in 0..rng.random_range(1..=4) {
        let from = rng.random_range(0..=input.len());
        let to = rng.random_range(from..=input.len());
        match rng.random_range(0..7) {
            0 => input.truncate(to),
            1 => drop(input.drain(from..to)),
            2 => input.insert(from, rng.random()),
            3 => {
                if let Some(byte) = input.get_mut(from) {
                    *byte ^= 1 << rng.random_range(0..8);
                }
            }
            4 => {
                if let Some(byte) = input.get_mut(from) {
                    *byte = *b"\0\t\n \"%,-./09:;=@AZ[\\]az{}\x7f\xff"
                        .choose(rng)
                        .expect("a byte");
                }
            }
            // The same again and again: nothing else makes long inputs.
            5 => {
                let piece = input[from..to].repeat(rng.random_range(2..100));
                input.splice(from..to, piece);
            }
            _ => {
                let other = pick(rng);
                let cut = rng.random_range(0..=other.len());
                input.splice(from..to, other[cut..].iter().copied());
            }
        }
        input.truncate(LONGEST);
    }
    input
}

#[test]
fn every_target_keeps_its_promises_over_its_seeds() {
    for (name, target) in TARGETS {
        for (seed, input) in seeds(name) {
            run(name, *target, &input, &seed);
        }
    }
}

#[test]
fn every_target_keeps_its_promises_over_mutated_seeds() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        let mut rng = StdRng::seed_from_u64(1);
        for round in 0..MUTATIONS {
            let input = mutate(&seeds, &mut rng);
            run(name, *target, &input, &format!("round {round}"));
        }
    }
}

/// A target that is forgotten somewhere is never run, and nobody would notice.
#[test]
fn every_target_is_complete() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len());
    let found = |dir: &str| -> BTreeMap<String, PathBuf> {
        let entries = fs::read_dir(fuzz_dir().join(dir)).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
            .collect()
    };
    let targets = found("fuzz_targets");
    assert!(
        found("corpus").keys().eq(targets.keys()),
        "a corpus for each target, and no other"
    );
    // What other crates parse is tested over its corpus there.
    let is_ours = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("puller::fuzzing::");
    let ours: BTreeSet<String> = targets
        .iter()
        .filter(|(_, path)| is_ours(path))
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(ours, names);
    let manifest = fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
    for name in targets.keys() {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name}"
        );
    }
}
