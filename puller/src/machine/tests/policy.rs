use super::*;

fn pinned() -> Wish {
    wish(&format!("example.com/catalog@{}", digest("a")))
}

#[test]
fn what_failed_by_the_policy_goes_on_when_it_changes() {
    for reason in [Reason::VerificationFailed, Reason::BlockedByPolicy] {
        for wish in [tag(), pinned()] {
            let mut world = World::new();
            let id = world.fetch(&wish, "me");
            let job = world.job();
            assert_eq!(world.resolve(&job, &digest("a")), Verdict::Pull);
            world.fail(&job, reason);
            assert_eq!(world.image(&id).phase, Phase::Failed);
            world.pass(MINUTE);
            assert!(world.jobs.is_empty(), "it rests");
            world.policy_changed();
            let job = world.job();
            assert!(!job.check);
            assert_eq!(
                world.resolve(&job, &digest("a")),
                Verdict::Pull,
                "the same digest"
            );
            world.publish(&job, &digest("a"));
            assert_eq!(world.image(&id).phase, Phase::Unpacked);
        }
    }
}

#[test]
fn another_refusal_is_shown_and_rests_again() {
    let mut world = World::new();
    let id = world.fetch(&pinned(), "me");
    let job = world.job();
    world.fail(&job, Reason::BlockedByPolicy);
    world.policy_changed();
    let job = world.job();
    world.fail(&job, Reason::VerificationFailed);
    let image = world.image(&id);
    assert_eq!(
        (image.phase, image.reason()),
        (Phase::Failed, Some(Reason::VerificationFailed))
    );
    world.pass(60 * MINUTE);
    assert!(world.jobs.is_empty(), "it rests");
    world.policy_changed();
    world.job();
}

#[test]
fn nobody_else_is_disturbed() {
    let mut world = World::new();
    let unpacked = world.unpacked(&tag(), &digest("a"));
    let malformed = world.fetch(&pinned(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.fail(&job, Reason::MalformedLayer);
    let retried = world.fetch(&wish("example.com/other:v1"), "me");
    let job = world.job();
    world.fail(&job, Reason::Network);
    world.policy_changed();
    assert!(world.jobs.is_empty());
    assert_eq!(world.image(&unpacked).phase, Phase::Unpacked);
    assert_eq!(world.image(&malformed).phase, Phase::Failed);
    assert_eq!(world.image(&retried).phase, Phase::Retrying);
}

#[test]
fn a_job_that_failed_by_the_policy_of_before_is_tried_by_the_one_of_now() {
    let mut world = World::new();
    let id = world.fetch(&pinned(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.policy_changed();
    assert!(world.jobs.is_empty(), "one job at a time");
    world.fail(&job, Reason::VerificationFailed);
    let job = world.job();
    assert_eq!(world.resolve(&job, &digest("a")), Verdict::Pull);
    world.fail(&job, Reason::VerificationFailed);
    assert!(world.jobs.is_empty(), "this one knew the newest");
    assert_eq!(world.image(&id).phase, Phase::Failed);
}

#[test]
fn a_check_of_what_is_unpacked_says_so() {
    let mut world = World::new();
    world.unpacked(&tag(), &digest("a"));
    world.pass(MINUTE);
    world.fetch_fresh(&tag(), MINUTE - SECOND);
    assert!(world.job().check);
}
