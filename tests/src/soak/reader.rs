//! Reads what is held, byte for byte, all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use rand::{RngExt as _, rngs::StdRng};

use super::Ground;
use crate::tree::Tree;

/// Between two trees: readers are not to be the load themselves.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads until it is stopped. To be run on a thread of its own.
pub fn read(ground: &Ground, is_down: &Arc<AtomicBool>, stopped: &AtomicBool, mut random: StdRng) {
    while !stopped.load(Relaxed) {
        thread::sleep(PAUSE);
        let mut holdings = ground.holdings.all();
        if holdings.is_empty() {
            continue;
        }
        let holding = holdings.swap_remove(random.random_range(0..holdings.len()));
        let renewed = holding.renewed();
        let was_down = is_down.load(Relaxed);
        let problem = match Tree::try_of(&ground.volume.join(&holding.path)) {
            Err(error) => error.to_string(),
            Ok(tree) => {
                let differences = tree.differences(&holding.tree);
                if differences.is_empty() {
                    ground.counts.reads.up();
                    if was_down && is_down.load(Relaxed) {
                        ground.counts.reads_while_down.up();
                    }
                    continue;
                }
                differences.join("\n")
            }
        };
        if holding.is_assured(renewed, ground.life()) {
            ground.broken(format!(
                "{} is claimed, and its content at {:?} is not what it was: {problem}\n{holding:?}, {:?}",
                holding.name,
                holding.path,
                ground.life(),
            ));
            return;
        }
        ground.counts.lapsed.up();
    }
}
