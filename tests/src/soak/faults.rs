//! What the registry does wrong, for a while.

use std::time::Duration;

use rand::{RngExt as _, rngs::StdRng};

use super::counts::Counts;
use crate::scripted::{Answer, Behaviour, Cut, Get, Lie, Rule, ScriptedRegistry, Stall, Throttle};

/// Bytes a second of each layer while things go wrong: pulls are killed in their middle.
const RATE: u64 = 150_000;

/// Most kinds of faults at a time.
const MOST: usize = 4;

/// Most requests that one fault is for.
const MOST_TIMES: usize = 3;

/// The faults that are in force.
#[derive(Debug, Default)]
pub struct Faults(Vec<(&'static str, Rule)>);

impl Faults {
    /// Ends the faults in force, and begins others.
    pub fn change(&mut self, registry: &ScriptedRegistry, counts: &Counts, random: &mut StdRng) {
        self.end(registry, counts);
        for _ in 0..random.random_range(0..=MOST) {
            let (kind, behaviours) = draw(random);
            let what = match random.random_range(0..4) {
                0 => Get::manifests(),
                _ => Get::blobs(),
            };
            let times = random.random_range(1..=MOST_TIMES);
            self.0
                .push((kind, registry.on(what).times(times).then(behaviours)));
        }
        registry.on(Get::blobs()).then(Throttle::to(RATE));
    }

    /// From now on the registry is honest, and as fast as it can.
    pub fn end(&mut self, registry: &ScriptedRegistry, counts: &Counts) {
        for (kind, rule) in self.0.drain(..) {
            counts.faults(kind, rule.taken() as u64);
        }
        registry.behave();
        registry.forget_requests();
    }
}

fn draw(random: &mut StdRng) -> (&'static str, Vec<Behaviour>) {
    let bytes = random.random_range(0..60_000);
    match random.random_range(0..10) {
        0 | 1 => ("cut", Cut::after(bytes).into()),
        2 => ("reset", Cut::reset().into()),
        3 => ("429", Answer::retry_after("1").into()),
        4 => ("5xx", Answer::status(500 + random.random_range(0..5)).into()),
        5 => ("hung", Stall::before_answer().into()),
        6 => ("hung in the body", Stall::after(bytes).into()),
        7 => ("wrong bytes", Lie::corrupt(1 + bytes % 100).into()),
        8 => ("401", Answer::status(401).into()),
        _ => (
            "late",
            Stall::for_a(Duration::from_millis(random.random_range(0..800))).into(),
        ),
    }
}
