use super::*;

fn team() -> Wish {
    Wish {
        scope: Scope("team".into()),
        ..tag()
    }
}

#[test]
fn a_failure_is_shown_and_tried_again_with_a_growing_pause() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    for (attempt, pause) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        let job = world.job();
        world.fail(&job, Reason::Network);
        let image = world.image(&id);
        assert_eq!((image.phase, image.attempt), (Phase::Retrying, attempt));
        assert_eq!(image.reason(), Some(Reason::Network));
        assert_eq!(image.next_retry, Some(clock::after(world.wall, pause * SECOND)));
        world.pass(pause * SECOND - Duration::from_millis(1));
        assert!(world.jobs.is_empty());
        world.pass(Duration::from_millis(1));
    }
    assert_eq!(world.image(&id).attempts.len(), 4);
}

#[test]
fn ten_attempts_are_remembered() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    for _ in 0..15 {
        let job = world.job();
        world.fail(&job, Reason::Network);
        world.pass(10 * MINUTE);
    }
    let attempts: Vec<_> = world
        .image(&id)
        .attempts
        .iter()
        .map(|record| record.attempt)
        .collect();
    assert_eq!(attempts, (6..=15).collect::<Vec<_>>());
}

#[test]
fn the_phase_stays_retrying_until_layer_bytes_flow() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.fail(&job, Reason::Network);
    world.pass(SECOND);
    world.phases.clear();
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    let image = world.image(&id);
    assert_eq!(
        (image.phase, image.attempt, image.next_retry),
        (Phase::Retrying, 2, None)
    );
    assert!(image.last_error.is_some());
    world.bytes(&job, 1);
    assert_eq!(world.image(&id).phase, Phase::Pulling);
    assert!(
        world.image(&id).last_error.is_some(),
        "kept until the next success"
    );
    world.publish(&job, &digest("a"));
    assert_eq!(world.phases, [Phase::Pulling, Phase::Unpacking, Phase::Unpacked]);
    assert_eq!(world.image(&id).last_error, None);
}

#[test]
fn an_attempt_that_finds_all_its_bytes_kept_still_enters_every_phase() {
    let mut world = World::new();
    world.fetch(&tag(), "me");
    let job = world.job();
    world.fail(&job, Reason::NoSpace);
    world.pass(SECOND);
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.phases.clear();
    world.publish(&job, &digest("a"));
    assert_eq!(world.phases, [Phase::Pulling, Phase::Unpacking, Phase::Unpacked]);
}

#[test]
fn a_bad_line_that_keeps_bringing_bytes_is_not_waited_for_ever_longer() {
    let mut world = World::new();
    world.fetch(&tag(), "me");
    for _ in 0..8 {
        let job = world.job();
        let _ = world.resolve(&job, &digest("a"));
        world.bytes(&job, 1000);
        world.fail(&job, Reason::Network);
        world.pass(SECOND);
    }
    world.job();
}

#[test]
fn the_registrys_wish_for_a_pause_is_kept() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    let fault = Fault {
        retry_after: Some(MINUTE),
        ..Fault::new(Reason::RateLimited, "asked", "429", "")
    };
    world.fail_with(&job, &fault);
    assert_eq!(
        world.image(&id).next_retry,
        Some(clock::after(world.wall, MINUTE))
    );
}

#[test]
fn a_plain_fetch_does_not_end_a_back_off() {
    let mut world = World::new();
    world.fetch(&tag(), "me");
    for _ in 0..5 {
        let job = world.job();
        world.fail(&job, Reason::Network);
        world.pass(5 * MINUTE);
    }
    let job = world.job();
    world.fail(&job, Reason::Network);
    world.fetch(&tag(), "me");
    world.fetch_fresh(&tag(), Duration::ZERO);
    assert!(world.jobs.is_empty());
}

#[test]
fn new_credentials_end_a_back_off_and_keep_the_id() {
    let mut world = World::new();
    world.machine.credentials(&Scope("team".into()), world.now());
    let id = world.fetch(&team(), "me");
    for _ in 0..5 {
        let job = world.job();
        world.fail(&job, Reason::Unauthorized);
        world.pass(MINUTE);
    }
    let job = world.job();
    world.fail(&job, Reason::Unauthorized);
    world.machine.credentials(&Scope("team".into()), world.now());
    assert_eq!(world.fetch(&team(), "me"), id);
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.publish(&job, &digest("a"));
    assert_eq!(world.image(&id).phase, Phase::Unpacked);
}

#[test]
fn credentials_that_come_while_the_old_ones_fail_are_tried_at_once() {
    let mut world = World::new();
    world.machine.credentials(&Scope("team".into()), world.now());
    world.fetch(&team(), "me");
    let job = world.job();
    world.machine.credentials(&Scope("team".into()), world.now());
    world.look();
    assert!(world.jobs.is_empty());
    world.fail(&job, Reason::Unauthorized);
    world.job();
}

#[test]
fn changed_files_wake_only_what_was_refused_under_the_daemons_own_credentials() {
    for (wish, reason, wakes) in [
        (tag(), Reason::Unauthorized, true),
        (tag(), Reason::Forbidden, true),
        (tag(), Reason::NotFound, true),
        (tag(), Reason::Network, false),
        (tag(), Reason::RateLimited, false),
        (team(), Reason::Unauthorized, false),
    ] {
        let mut world = World::new();
        world.machine.credentials(&Scope("team".into()), world.now());
        world.fetch(&wish, "me");
        let job = world.job();
        world.fail(&job, reason);
        world.machine.own_credentials_changed(world.now());
        world.look();
        assert_eq!(
            world.jobs.len(),
            usize::from(wakes),
            "{reason:?} {:?}",
            wish.scope
        );
    }
}

#[test]
fn files_that_change_while_the_old_ones_fail_are_tried_at_once() {
    for (reason, at_once) in [(Reason::Unauthorized, true), (Reason::Network, false)] {
        let mut world = World::new();
        world.fetch(&tag(), "me");
        let job = world.job();
        world.machine.own_credentials_changed(world.now());
        world.fail(&job, reason);
        world.pass(Duration::ZERO);
        assert_eq!(world.jobs.len(), usize::from(at_once), "{reason:?}");
    }
}

#[test]
fn an_image_whose_scope_has_no_credentials_waits_and_says_so() {
    let mut world = World::new();
    let id = world.fetch(&team(), "me");
    world.pass(MINUTE);
    assert!(world.jobs.is_empty());
    let message = world.image(&id).message();
    assert!(message.contains("credentials of scope \"team\""), "{message}");
    world.machine.credentials(&Scope("team".into()), world.now());
    world.look();
    world.job();
    assert!(!world.image(&id).message().contains("credentials"));
}

#[test]
fn a_digest_that_cannot_be_unpacked_rests() {
    let mut world = World::new();
    let pinned = wish(&format!("example.com/catalog@{}", digest("a")));
    let id = world.fetch(&pinned, "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.fail(&job, Reason::UnsafeLayer);
    assert_eq!(world.image(&id).phase, Phase::Failed);
    world.pass(24 * 60 * MINUTE);
    world.fetch_fresh(&pinned, Duration::ZERO);
    assert!(world.jobs.is_empty());
    assert_eq!(world.image(&id).next_retry, None);
}

#[test]
fn a_tag_that_cannot_be_unpacked_is_looked_at_every_five_minutes() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("bad"));
    world.fail(&job, Reason::MalformedLayer);
    world.phases.clear();
    for _ in 0..3 {
        world.pass(5 * MINUTE - SECOND);
        assert!(world.jobs.is_empty());
        world.pass(SECOND);
        let job = world.job();
        assert_eq!(world.resolve(&job, &digest("bad")), Verdict::Stop);
        assert_eq!(world.image(&id).phase, Phase::Failed);
    }
    world.pass(5 * MINUTE);
    let job = world.job();
    world.fail(&job, Reason::Network);
    assert_eq!(
        world.image(&id).reason(),
        Some(Reason::MalformedLayer),
        "the better thing to show"
    );
    world.pass(5 * MINUTE);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("good")), Verdict::Pull);
    world.bytes(&job, 1);
    world.publish(&job, &digest("good"));
    assert_eq!(world.phases, [Phase::Pulling, Phase::Unpacking, Phase::Unpacked]);
}

/// S09.
#[test]
fn no_state_has_an_empty_reason() {
    for reason in Reason::ALL {
        let mut world = World::new();
        let id = world.fetch(&tag(), "me");
        let job = world.job();
        world.fail(&job, reason);
        let image = world.image(&id);
        assert_eq!(image.reason(), Some(reason));
        let phase = if reason.is_retried() {
            Phase::Retrying
        } else {
            Phase::Failed
        };
        assert_eq!(image.phase, phase);
        assert!(image.message().contains(reason.words()));
    }
}
