use super::*;

#[test]
fn what_was_unpacked_is_so_again_without_a_job() {
    let mut world = World::new();
    let id = world.unpacked(&tag(), &digest("a"));
    world.restart();
    let image = world.image(&id);
    assert_eq!((image.phase, image.attempts.len()), (Phase::Unpacked, 1));
    assert!(world.jobs.is_empty());
}

#[test]
fn what_was_under_way_begins_again() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.restart();
    world.job();
    assert_eq!(world.image(&id).phase, Phase::Initiated);
}

#[test]
fn attempt_error_and_next_retry_survive() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    for _ in 0..7 {
        let job = world.job();
        world.fail(&job, Reason::Network);
        world.pass(64 * SECOND);
    }
    let job = world.job();
    world.fail(&job, Reason::Network);
    world.pass(28 * SECOND);
    world.restart();
    let image = world.image(&id);
    assert_eq!(
        (image.phase, image.attempt, image.reason()),
        (Phase::Retrying, 8, Some(Reason::Network))
    );
    world.pass(99 * SECOND);
    assert!(world.jobs.is_empty(), "128 s less the 28 s before the restart");
    world.pass(2 * SECOND);
    world.job();
    assert_eq!(world.image(&id).attempt, 9);
}

#[test]
fn an_image_with_the_secrets_of_a_scope_waits_for_them() {
    let mut world = World::new();
    let team = Wish {
        scope: Scope("team".into()),
        ..tag()
    };
    world.machine.credentials(&team.scope, world.now());
    let id = world.fetch(&team, "me");
    world.job();
    world.restart();
    world.pass(MINUTE);
    assert!(world.jobs.is_empty());
    assert!(world.image(&id).message().contains("credentials of scope"));
    world.machine.credentials(&team.scope, world.now());
    world.look();
    world.job();
}

#[test]
fn nothing_ends_before_a_grace_period_after_the_start() {
    let mut world = World::new();
    let ttl = ClaimRequest {
        claimant: "me".into(),
        ttl: Some(SECOND),
        ..ClaimRequest::default()
    };
    let claimed = world.fetch_with(&tag(), ttl);
    let released = world.fetch(&wish("example.com/other:1"), "me");
    world.release(&released, "me");
    let saved = [&claimed, &released]
        .map(|id| world.machine.saved(id).unwrap())
        .to_vec();
    world.advance(60 * MINUTE);
    world.restart_with(saved);
    world.pass(10 * MINUTE - SECOND);
    assert!(world.deleted.is_empty());
    assert_eq!(world.image(&claimed).claims.len(), 1);
    world.pass(SECOND);
    assert_eq!(world.deleted, [released]);
    world.pass(10 * MINUTE);
    assert_eq!(world.deleted.len(), 2);
}

#[test]
fn content_that_was_lost_is_pulled_again() {
    let mut world = World::new();
    let id = world.unpacked(&tag(), &digest("a"));
    let mut saved = world.machine.saved(&id).unwrap();
    saved.image.content = None;
    world.restart_with(vec![saved]);
    assert_eq!(world.image(&id).phase, Phase::Initiated);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Pull);
}

#[test]
fn a_crash_between_the_record_and_the_news_loses_nothing() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.machine.downloaded(&job, Sample::default(), world.now());
    let saved = world
        .machine
        .saved_as_published(&job, &content(&digest("a")))
        .unwrap();
    world.restart_with(vec![saved]);
    assert_eq!(world.image(&id).phase, Phase::Unpacked);
    assert!(world.jobs.is_empty());
}

#[test]
fn what_failed_is_tried_once_more_since_limits_may_have_changed() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.fail(&job, Reason::LimitExceeded);
    world.restart();
    assert_eq!(world.image(&id).phase, Phase::Failed);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Pull);
}
