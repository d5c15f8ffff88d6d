use super::*;

#[test]
fn the_smallest_image_enters_every_phase_in_order() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    assert_eq!(world.image(&id).phase, Phase::Initiated);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Pull);
    world.publish(&job, &digest("a"));
    let all = [
        Phase::Initiated,
        Phase::Pulling,
        Phase::Unpacking,
        Phase::Unpacked,
    ];
    assert_eq!(world.phases, all);
    let image = world.image(&id);
    assert_eq!(image.attempt, 1);
    assert_eq!(image.attempts.len(), 1);
    let progress = image.progress.as_ref().unwrap();
    assert!(
        progress.pulling_since <= progress.unpacking_since
            && progress.unpacking_since <= progress.unpacked_at
    );
}

#[test]
fn the_same_wish_is_one_image_and_one_pull() {
    let mut world = World::new();
    let ids: Vec<_> = (0..100)
        .map(|n| world.fetch(&tag(), &format!("claimant {n}")))
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    world.job();
    assert_eq!(world.image(&ids[0]).claims.len(), 100);
}

#[test]
fn counts_never_fall_within_an_attempt() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.bytes(&job, 100);
    world.bytes(&job, 50);
    assert_eq!(world.image(&id).progress.as_ref().unwrap().bytes_done, 100);
}

#[test]
fn progress_that_changes_nothing_is_not_told() {
    let mut world = World::new();
    world.fetch(&tag(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.bytes(&job, 100);
    let told = world.told.len();
    world.bytes(&job, 100);
    assert_eq!(world.told.len(), told);
}

#[test]
fn what_a_cancelled_job_still_reports_is_ignored() {
    let mut world = World::new();
    let id = world.fetch(&tag(), "me");
    let old = world.job();
    let _ = world.resolve(&old, &digest("a"));
    world.release(&id, "me");
    world.pass(10 * SECOND);
    assert_eq!(world.cancelled, [old.no]);
    assert_eq!(world.image(&id).phase, Phase::Initiated);
    world.publish(&old, &digest("a"));
    world.fail(&old, Reason::Network);
    let image = world.image(&id);
    assert!(image.content.is_none() && image.last_error.is_none());
}

#[test]
fn there_is_an_end_to_images_and_to_wishes() {
    let mut world = World::with(Settings {
        max_images: 2,
        ..Settings::default()
    });
    world.fetch(&wish("example.com/a:1"), "me");
    world.fetch(&wish("example.com/b:1"), "me");
    let refused = world
        .machine
        .fetch(wish("example.com/c:1"), ClaimRequest::default(), world.now());
    assert_eq!(refused, Err(Refused::TooManyImages(2)));
    world.fetch(&wish("example.com/a:1"), "you");
    let large = Wish {
        scope: Scope("x".repeat(MAX_WISH)),
        ..tag()
    };
    let refused = world.machine.fetch(large, ClaimRequest::default(), world.now());
    assert!(matches!(refused, Err(Refused::WishTooLarge(_))));
}
