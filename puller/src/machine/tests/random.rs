//! Whatever happens, in whatever order, some things always hold.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Fetch {
        image: usize,
        claimant: usize,
        max_age: Option<u64>,
        ttl: Option<u64>,
    },
    Release {
        image: usize,
        claimant: usize,
    },
    Credentials,
    RulesChanged,
    Resolve {
        job: usize,
        digest: u8,
    },
    Bytes {
        job: usize,
        bytes: u64,
    },
    Publish {
        job: usize,
    },
    Fail {
        job: usize,
        reason: usize,
    },
    Pass {
        seconds: u64,
    },
    ClockSet {
        seconds: i64,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3usize, 0..2usize, proptest::option::of(0..600u64), proptest::option::of(1..900u64))
            .prop_map(|(image, claimant, max_age, ttl)| Step::Fetch { image, claimant, max_age, ttl }),
        2 => (0..3usize, 0..2usize).prop_map(|(image, claimant)| Step::Release { image, claimant }),
        1 => Just(Step::Credentials),
        1 => Just(Step::RulesChanged),
        4 => (0..4usize, 0..3u8).prop_map(|(job, digest)| Step::Resolve { job, digest }),
        2 => (0..4usize, 0..100u64).prop_map(|(job, bytes)| Step::Bytes { job, bytes }),
        3 => (0..4usize).prop_map(|job| Step::Publish { job }),
        3 => (0..4usize, 0..Reason::ALL.len()).prop_map(|(job, reason)| Step::Fail { job, reason }),
        4 => (0..400u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => (-5000..5000i64).prop_map(|seconds| Step::ClockSet { seconds }),
        1 => Just(Step::Restart),
    ]
}

fn wishes() -> [Wish; 3] {
    let scoped = Wish {
        scope: Scope("team".into()),
        ..wish("example.com/scoped:1")
    };
    [
        tag(),
        wish(&format!("example.com/pinned@{}", digest("0"))),
        scoped,
    ]
}

fn apply(world: &mut World, step: &Step) {
    let wishes = wishes();
    let job = |world: &World, at: usize| world.jobs.get(at % world.jobs.len().max(1)).cloned();
    match *step {
        Step::Fetch {
            image,
            claimant,
            max_age,
            ttl,
        } => {
            world.fetch_with(
                &wishes[image],
                ClaimRequest {
                    claimant: claimant.to_string(),
                    max_age: max_age.map(Duration::from_secs),
                    ttl: ttl.map(Duration::from_secs),
                    in_use: vec![],
                },
            );
        }
        Step::Release { image, claimant } => world.release(&wishes[image].id(), &claimant.to_string()),
        Step::Credentials => {
            world.machine.credentials(&Scope("team".into()), world.now());
            world.look();
        }
        Step::RulesChanged => world.rules_changed(),
        Step::Resolve {
            job: at,
            digest: found,
        } => {
            if let Some(job) = job(world, at) {
                let found = job
                    .wish
                    .reference
                    .digest
                    .clone()
                    .unwrap_or_else(|| digest(&found.to_string()));
                let _ = world.resolve(&job, &found);
            }
        }
        Step::Bytes { job: at, bytes } => {
            if let Some(job) = job(world, at) {
                world.bytes(&job, bytes);
            }
        }
        Step::Publish { job: at } => {
            if let Some(job) = job(world, at) {
                let resolved = world
                    .machine
                    .image(&job.id)
                    .and_then(|image| image.resolution.clone());
                if let Some(resolved) = resolved {
                    world.publish(&job, &resolved.digest);
                }
            }
        }
        Step::Fail { job: at, reason } => {
            if let Some(job) = job(world, at) {
                world.fail(&job, Reason::ALL[reason]);
            }
        }
        Step::Pass { seconds } => world.pass(Duration::from_secs(seconds)),
        Step::ClockSet { seconds } => {
            world.wall = world
                .wall
                .checked_add(jiff::SignedDuration::from_secs(seconds))
                .unwrap();
        }
        Step::Restart => world.restart(),
    }
    world.look();
}

fn check(world: &World) {
    for image in world.machine.images() {
        let entry = &world.machine.entries[&image.id];
        assert!(!image.message().is_empty(), "every state says something");
        match image.phase {
            Phase::Unpacked => assert!(image.content.is_some()),
            Phase::Retrying | Phase::Failed => {
                assert!(image.last_error.is_some(), "no failure without a reason");
            }
            Phase::Pulling | Phase::Unpacking => assert!(entry.job.is_some(), "nothing moves without a job"),
            Phase::Initiated => {}
        }
        // Whatever is claimed and not at its end has something that will bring it on.
        let waits = image.awaits_credentials || image.claims.is_empty();
        let ends = matches!(image.phase, Phase::Unpacked | Phase::Failed);
        assert!(
            ends || waits || entry.job.is_some() || entry.due.is_some(),
            "stuck: {image:?}"
        );
        assert_eq!(image.claims.is_empty(), image.unclaimed_since.is_some());
        if let Some(wake) = entry.wake {
            assert!(world.machine.wakes.contains(&(wake, image.id.clone())));
        }
    }
    let wakes = world
        .machine
        .entries
        .values()
        .filter(|entry| entry.wake.is_some())
        .count();
    assert_eq!(world.machine.wakes.len(), wakes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            apply(&mut world, &step);
            check(&world);
        }
        // At rest, without claims, nothing is left.
        for wish in wishes() {
            for claimant in ["0", "1"] {
                world.release(&wish.id(), claimant);
            }
        }
        world.pass(60 * MINUTE);
        prop_assert_eq!(world.machine.images().count(), 0);
        prop_assert!(world.machine.next_wake().is_none());
        prop_assert!(world.machine.needed_blobs().is_empty());
    }
}
