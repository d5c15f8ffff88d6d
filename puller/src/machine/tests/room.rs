use super::*;

fn of_size(bytes: u64, name: &str) -> Content {
    Content {
        size: bytes,
        ..content(&digest(name))
    }
}

/// An Image of this content, claimed by `me`.
fn unpacked(world: &mut World, name: &str, bytes: u64) -> ImageId {
    let id = world.fetch(&wish(&format!("example.com/{name}:v1")), "me");
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest(name)), Verdict::Pull);
    world.machine.downloaded(&job, Sample::default(), world.now());
    let now = world.now();
    world
        .machine
        .published(&job, of_size(bytes, name), Sample::default(), now);
    world.look();
    id
}

/// A pull that has failed for want of room after it had unpacked so much of so many compressed bytes.
fn short(world: &mut World, name: &str, compressed: u64, unpacked: u64) -> ImageId {
    let id = world.fetch(&wish(&format!("example.com/{name}:v1")), "me");
    let job = world.job();
    fails_short(world, &job, name, compressed, unpacked);
    id
}

fn fails_short(world: &mut World, job: &Job, name: &str, compressed: u64, unpacked: u64) {
    assert_eq!(world.resolve(job, &digest(name)), Verdict::Pull);
    let plan = Plan {
        layers: 1,
        bytes: compressed,
        blobs: vec![digest(&format!("layer of {name}"))],
        content: name.to_owned(),
    };
    let now = world.now();
    world.machine.planned(job, plan, now);
    let sample = Sample {
        bytes_done: compressed,
        bytes_fetched: compressed,
        unpacked_bytes: unpacked,
        unpacked_entries: 7,
        ..Sample::default()
    };
    let fault = Fault::new(Reason::NoSpace, "asked", "happened", "");
    world.machine.failed(job, &fault, sample, now);
    world.look();
}

impl World {
    fn make_room(&mut self, bytes: u64) -> usize {
        let forgotten = self.machine.make_room(bytes, self.now());
        self.look();
        forgotten
    }

    fn room_made(&mut self, giver: Option<&ImageId>) {
        self.machine.room_made(giver, self.now());
        self.look();
    }
}

#[test]
fn what_was_claimed_last_goes_last_and_what_is_claimed_never() {
    let mut world = World::new();
    let [claimed, late, early, middle] =
        ["claimed", "late", "early", "middle"].map(|name| unpacked(&mut world, name, 10));
    for id in [&early, &middle, &late] {
        world.release(id, "me");
        world.pass(SECOND);
    }
    assert_eq!(world.make_room(1), 1);
    assert_eq!(world.deleted, std::slice::from_ref(&early));
    assert_eq!(world.make_room(11), 2);
    assert_eq!(world.deleted, [early, middle, late]);
    assert_eq!(world.make_room(u64::MAX), 0);
    assert!(world.machine.image(&claimed).is_some());
    assert!(world.collections > 0, "their content goes with them");
}

#[test]
fn what_has_no_content_makes_no_room_and_is_forgotten_on_the_way() {
    let mut world = World::new();
    let nothing = world.fetch(&tag(), "me");
    world.job();
    let something = unpacked(&mut world, "something", 10);
    world.release(&nothing, "me");
    world.pass(SECOND);
    world.release(&something, "me");
    assert_eq!(world.make_room(1), 2);
    assert_eq!(world.deleted, [nothing, something]);
}

#[test]
fn nothing_is_forgotten_for_room_before_claimants_had_the_time_to_come_back() {
    let mut world = World::new();
    let id = unpacked(&mut world, "a", 10);
    world.release(&id, "me");
    world.restart();
    assert_eq!(world.make_room(1), 0);
    assert!(world.machine.image(&id).is_some());
}

#[test]
fn room_wakes_what_waits_for_room_and_nothing_else() {
    let mut world = World::new();
    let other = world.fetch(&wish("example.com/other:v1"), "me");
    let job = world.job();
    world.fail(&job, Reason::Network);
    let big = short(&mut world, "big", 100, 1000);
    assert!(world.jobs.is_empty());
    world.room_made(None);
    assert_eq!(world.job().id, big);
    assert_eq!(world.image(&other).phase, Phase::Retrying);
}

#[test]
fn who_gave_the_room_is_not_woken_by_it() {
    let mut world = World::new();
    let (one, two) = (
        short(&mut world, "one", 100, 1000),
        short(&mut world, "two", 100, 1000),
    );
    world.room_made(Some(&one));
    assert_eq!(world.job().id, two);
}

#[test]
fn the_next_attempt_asks_for_the_room_that_the_last_one_came_to() {
    let mut world = World::new();
    assert_eq!(world.machine.missing_room(), None);
    let id = short(&mut world, "big", 100, 1000);
    assert_eq!(world.machine.missing_room(), Some((1100, 7)));
    world.pass(SECOND);
    let job = world.job();
    assert_eq!(world.machine.need(&job, "big").room(100), (1100, 7));
    // Of the layers that are here already nothing has to be reckoned.
    assert_eq!(world.machine.need(&job, "big").room(0), (1000, 7));
    assert_eq!(world.machine.need(&job, "another").room(100), (300, 0));
    // Refused before it wrote anything: it knows as much as before.
    fails_short(&mut world, &job, "big", 100, 0);
    assert_eq!(world.machine.missing_room(), Some((1100, 7)));
    world.pass(2 * SECOND);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("big")), Verdict::Pull);
    world.publish(&job, &digest("big"));
    assert_eq!(world.machine.missing_room(), None);
    assert_eq!(world.image(&id).phase, Phase::Unpacked);
}

#[test]
fn layers_are_kept_for_the_next_attempt_unless_somebody_else_needs_their_room() {
    let mut world = World::new();
    short(&mut world, "one", 100, 1000);
    assert_eq!(world.machine.needed_blobs(), [digest("layer of one")].into());
    short(&mut world, "two", 100, 1000);
    assert!(!world.machine.needed_blobs().contains(&digest("layer of two")));
}
