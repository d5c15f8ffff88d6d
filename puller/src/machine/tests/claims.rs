use super::*;

#[test]
fn a_pull_that_nobody_wants_is_cancelled_and_later_forgotten() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    world.release(&id, "me");
    world.release(&id, "me");
    assert!(world.image(&id).unclaimed_since.is_some());
    world.pass(10 * SECOND - Duration::from_millis(1));
    assert!(world.cancelled.is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!(world.cancelled, [job.no]);
    world.pass(10 * MINUTE);
    assert_eq!(world.deleted, std::slice::from_ref(&id));
    assert!(world.machine.image(&id).is_none());
    assert_eq!(world.machine.next_wake(), None);
}

#[test]
fn a_fetch_within_ten_seconds_keeps_the_pull() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    world.release(&id, "me");
    world.pass(9 * SECOND);
    world.fetch(&tag(), "you");
    world.pass(MINUTE);
    assert!(world.cancelled.is_empty());
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Pull);
}

#[test]
fn a_fetch_within_the_grace_period_revives_with_the_same_id() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    world.job();
    world.release(&id, "me");
    world.pass(9 * MINUTE);
    assert_eq!(world.fetch(&tag(), "me"), id);
    world.job();
    assert_eq!(world.image(&id).unclaimed_since, None);
    world.pass(20 * MINUTE);
    assert!(world.deleted.is_empty());
}

#[test]
fn nothing_is_tried_for_nobody() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    world.fail(&job, Reason::Network);
    world.release(&id, "me");
    world.pass(5 * MINUTE);
    assert!(world.jobs.is_empty());
    world.fetch(&tag(), "me");
    world.job();
}

#[test]
fn one_claimants_release_leaves_the_others() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    world.fetch(&tag(), "you");
    world.release(&id, "me");
    world.pass(60 * MINUTE);
    assert!(world.deleted.is_empty());
    assert_eq!(world.image(&id).claims.keys().collect::<Vec<_>>(), ["you"]);
}

#[test]
fn a_claim_with_a_time_to_live_ends_unless_it_is_renewed() {
    let mut world = World::new();
    let request = || ClaimRequest {
        claimant: "me".into(),
        ttl: Some(MINUTE),
        ..ClaimRequest::default()
    };
    let id = world.fetch_with(&tag(), request());
    world.pass(50 * SECOND);
    world.fetch_with(&tag(), request());
    world.pass(50 * SECOND);
    assert_eq!(world.image(&id).claims.len(), 1);
    world.pass(10 * SECOND);
    assert!(world.image(&id).claims.is_empty());
    world.pass(10 * MINUTE);
    assert_eq!(world.deleted, [id]);
}

#[test]
fn a_mere_renewal_is_not_told() {
    let mut world = World::new();
    world.unpacked(&tag(), &digest("a"));
    world.told.clear();
    for _ in 0..3 {
        world.pass(SECOND);
        world.fetch(&tag(), "me");
    }
    assert!(
        world.told.is_empty(),
        "a claimant that fetches at each change would never come to rest"
    );
}

#[test]
fn what_a_claimant_still_reads_is_kept_until_it_says_otherwise() {
    let mut world = World::new();
    let old = digest("a");
    world.unpacked(&tag(), &old);
    world.pass(MINUTE);
    world.fetch_fresh(&tag(), 30 * SECOND);
    let job = world.job();
    let _ = world.resolve(&job, &digest("b"));
    world.publish(&job, &digest("b"));
    let reads = |in_use| ClaimRequest {
        claimant: "me".into(),
        in_use,
        ..ClaimRequest::default()
    };
    world.fetch_with(&tag(), reads(vec![old.clone()]));
    world.pass(60 * MINUTE);
    assert!(world.machine.needed_contents().has(&old.file_name(), &old));
    let collections = world.collections;
    world.fetch_with(&tag(), reads(vec![]));
    assert!(!world.machine.needed_contents().has(&old.file_name(), &old));
    assert_eq!(world.collections, collections + 1);
    world.fetch_with(&tag(), reads(vec![]));
    assert_eq!(world.collections, collections + 1);
}

#[test]
fn the_layers_of_an_unfinished_pull_are_needed_until_it_is_published() {
    let mut world = World::new();
    world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    let plan = Plan {
        layers: 1,
        bytes: 5,
        blobs: vec![digest("layer")],
        content: "x".into(),
    };
    world.machine.planned(&job, plan, world.now());
    world.fail(&job, Reason::Network);
    assert!(world.machine.needed_blobs().contains(&digest("layer")));
    world.pass(SECOND);
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.publish(&job, &digest("a"));
    assert!(world.machine.needed_blobs().is_empty());
}

#[test]
fn the_layers_of_a_digest_that_the_tag_has_left_again_are_let_go() {
    let mut world = World::new();
    let id = world.unpacked(&tag(), &digest("a"));
    world.pass(MINUTE);
    world.fetch_fresh(&tag(), 30 * SECOND);
    let job = world.job();
    let _ = world.resolve(&job, &digest("b"));
    let plan = Plan {
        layers: 1,
        bytes: 5,
        blobs: vec![digest("layer")],
        content: "b".into(),
    };
    world.machine.planned(&job, plan, world.now());
    world.fail(&job, Reason::NotFound);
    world.pass(SECOND);
    let job = world.job();
    let collections = world.collections;
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Stop);
    assert_eq!(world.image(&id).phase, Phase::Unpacked);
    assert!(world.machine.needed_blobs().is_empty());
    assert_eq!(world.collections, collections + 1, "and somebody takes them away");
}

/// What another Image has published, or an earlier pull of the same one, may be there for this pull alone.
#[test]
fn the_content_that_an_ended_pull_was_to_publish_is_looked_at() {
    let started = || {
        let mut world = World::new();
        let id = world.fetch(&tag(), "me");
        let job = world.job();
        assert_eq!(world.resolve(&job, &digest("a")), Verdict::Pull);
        let plan = Plan {
            layers: 1,
            bytes: 1,
            blobs: vec![digest("layer")],
            content: content(&digest("a")).name(),
        };
        world.machine.planned(&job, plan, world.now());
        world.look();
        assert_eq!(world.collections, 0);
        (world, id, job)
    };
    let (mut world, id, _) = started();
    world.release(&id, "me");
    world.pass(10 * SECOND);
    assert_eq!(world.collections, 1, "cancelled");
    let (mut world, _, job) = started();
    world.fail(&job, Reason::Network);
    assert_eq!(world.collections, 1, "failed");
}
