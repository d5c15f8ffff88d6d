use super::*;

#[test]
fn nothing_is_polled_unless_somebody_asks() {
    let mut world = World::new();
    world.unpacked(&tag(), &digest("a"));
    world.pass(24 * 60 * MINUTE);
    world.fetch(&tag(), "me");
    assert!(world.jobs.is_empty());
}

#[test]
fn an_unchanged_tag_is_checked_once_without_a_change_of_phase() {
    let mut world = World::new();
    let id = world.unpacked(&tag(), &digest("a"));
    world.pass(MINUTE);
    for _ in 0..5 {
        world.fetch_fresh(&tag(), MINUTE - SECOND);
    }
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Stop);
    assert!(world.phases.is_empty());
    let image = world.image(&id);
    assert_eq!((image.phase, image.attempts.len()), (Phase::Unpacked, 1));
    let resolution = image.resolution.as_ref().unwrap();
    assert!(resolution.resolved < resolution.checked);
    world.fetch_fresh(&tag(), MINUTE);
    assert!(world.jobs.is_empty(), "it is fresh");
}

#[test]
fn under_ten_seconds_counts_as_ten() {
    let mut world = World::new();
    world.unpacked(&tag(), &digest("a"));
    world.pass(10 * SECOND);
    world.fetch_fresh(&tag(), Duration::ZERO);
    assert!(world.jobs.is_empty());
    world.pass(SECOND);
    world.fetch_fresh(&tag(), Duration::ZERO);
    world.job();
}

#[test]
fn a_reference_with_a_digest_is_never_checked() {
    let mut world = World::new();
    let pinned = wish(&format!("example.com/catalog:v1@{}", digest("a")));
    world.unpacked(&pinned, &digest("a"));
    world.pass(60 * MINUTE);
    world.fetch_fresh(&pinned, MINUTE);
    assert!(world.jobs.is_empty());
}

#[test]
fn a_tag_that_moved_leaves_no_hole() {
    let mut world = World::new();
    let id = world.unpacked(&tag(), &digest("a"));
    world.pass(MINUTE);
    world.fetch_fresh(&tag(), 30 * SECOND);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("b")), Verdict::Pull);
    let image = world.image(&id);
    assert_eq!(image.phase, Phase::Pulling);
    assert_eq!(image.content.as_ref().unwrap().manifest_digest, digest("a"));
    world.publish(&job, &digest("b"));
    assert_eq!(world.phases, [Phase::Pulling, Phase::Unpacking, Phase::Unpacked]);
    assert_eq!(
        world.image(&id).content.as_ref().unwrap().manifest_digest,
        digest("b")
    );
    let old = digest("a");
    assert!(
        world.machine.needed_contents().has(&old.file_name(), &old),
        "kept for the grace period"
    );
    world.pass(10 * MINUTE);
    assert!(!world.machine.needed_contents().has(&old.file_name(), &old));
}

#[test]
fn a_check_that_fails_backs_off_and_does_not_loop() {
    let mut world = World::new();
    let id = world.unpacked(&tag(), &digest("a"));
    world.pass(MINUTE);
    world.fetch_fresh(&tag(), 30 * SECOND);
    for pause in [1, 2, 4, 8, 16] {
        let job = world.job();
        world.fail(&job, Reason::Timeout);
        let image = world.image(&id);
        assert_eq!(
            (image.phase, image.reason()),
            (Phase::Unpacked, Some(Reason::Timeout))
        );
        assert!(image.content.is_some());
        // A client that fetches at every change does not make it go faster.
        world.fetch_fresh(&tag(), 30 * SECOND);
        assert!(world.jobs.is_empty());
        world.pass(pause * SECOND);
    }
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Stop);
    assert_eq!(world.image(&id).last_error, None);
    world.pass(MINUTE);
    assert!(world.jobs.is_empty());
}

#[test]
fn a_check_that_began_too_early_is_followed_by_another() {
    let mut world = World::new();
    world.unpacked(&tag(), &digest("a"));
    world.pass(MINUTE);
    world.fetch_fresh(&tag(), 30 * SECOND);
    let job = world.job();
    world.pass(20 * SECOND);
    world.fetch_fresh(&tag(), 10 * SECOND);
    assert!(world.jobs.is_empty(), "one at a time");
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Stop);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Stop);
    assert!(world.jobs.is_empty());
}

#[test]
fn a_check_time_in_the_future_counts_as_expired() {
    let mut world = World::new();
    world.unpacked(&tag(), &digest("a"));
    world.wall = clock::before(world.wall, 60 * MINUTE);
    world.fetch_fresh(&tag(), 24 * 60 * MINUTE);
    world.job();
}

#[test]
fn a_failed_pull_of_a_newer_digest_keeps_the_old_content() {
    let mut world = World::new();
    let id = world.unpacked(&tag(), &digest("a"));
    world.pass(MINUTE);
    world.fetch_fresh(&tag(), 30 * SECOND);
    let job = world.job();
    let _ = world.resolve(&job, &digest("b"));
    world.fail(&job, Reason::MalformedLayer);
    let image = world.image(&id);
    assert_eq!(image.phase, Phase::Failed);
    assert_eq!(image.content.as_ref().unwrap().manifest_digest, digest("a"));
    // The tag moves back: that is unpacked still.
    world.pass(5 * MINUTE);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Stop);
    assert_eq!(world.image(&id).phase, Phase::Unpacked);
    assert_eq!(world.image(&id).last_error, None);
}
