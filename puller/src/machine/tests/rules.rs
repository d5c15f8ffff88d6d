use super::*;

fn pinned() -> Wish {
    wish(&format!("example.com/catalog@{}", digest("a")))
}

#[test]
fn what_the_rules_forbade_goes_on_when_they_change() {
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
            world.rules_changed();
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
    world.rules_changed();
    let job = world.job();
    world.fail(&job, Reason::VerificationFailed);
    let image = world.image(&id);
    assert_eq!(
        (image.phase, image.reason()),
        (Phase::Failed, Some(Reason::VerificationFailed))
    );
    world.pass(MINUTE);
    assert!(world.jobs.is_empty(), "it rests");
    world.rules_changed();
    world.job();
}

#[test]
fn an_image_whose_signature_may_come_later_is_looked_at_every_five_minutes() {
    for (reason, again) in [
        (Reason::VerificationFailed, true),
        (Reason::BlockedByPolicy, false),
    ] {
        for wish in [tag(), pinned()] {
            let mut world = World::new();
            let id = world.fetch(&wish, "me");
            let job = world.job();
            let _ = world.resolve(&job, &digest("a"));
            world.fail(&job, reason);
            world.pass(4 * MINUTE);
            assert!(world.jobs.is_empty(), "it rests");
            world.pass(2 * MINUTE);
            assert_eq!(
                world.jobs.len(),
                usize::from(again || wish == tag()),
                "{reason:?}"
            );
            if let Some(job) = world.jobs.pop() {
                let verdict = world.resolve(&job, &digest("a"));
                assert_eq!(verdict == Verdict::Pull, again, "{reason:?}");
                assert_eq!(world.image(&id).phase, Phase::Failed, "it does not flap");
            }
        }
    }
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
    world.rules_changed();
    assert!(world.jobs.is_empty());
    assert_eq!(world.image(&unpacked).phase, Phase::Unpacked);
    assert_eq!(world.image(&malformed).phase, Phase::Failed);
    assert_eq!(world.image(&retried).phase, Phase::Retrying);
}

#[test]
fn a_job_that_failed_by_the_rules_of_before_is_tried_by_those_of_now() {
    let mut world = World::new();
    let id = world.fetch(&pinned(), "me");
    let job = world.job();
    let _ = world.resolve(&job, &digest("a"));
    world.rules_changed();
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
