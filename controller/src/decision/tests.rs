use puller_client::api;

use super::*;
use crate::api::{CatalogSource, ClusterCatalogSpec, ImageSource, SourceType};

/// A catalog that wants this image, as the API server would hand it out first.
pub(super) fn catalog(reference: &str) -> ClusterCatalog {
    let mut catalog = ClusterCatalog::new(
        "cat",
        ClusterCatalogSpec {
            source: CatalogSource {
                type_: SourceType::Image,
                image: Some(ImageSource {
                    reference: reference.to_owned(),
                    poll_interval_minutes: None,
                }),
            },
            priority: 0,
            availability_mode: AvailabilityMode::Available,
        },
    );
    catalog.metadata.generation = Some(1);
    catalog.metadata.uid = Some("00000000-0000-0000-0000-000000000001".to_owned());
    catalog
}

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const TAG: &str = "q.io/a/b:v1";

fn image(id: &str, phase: Phase) -> Image {
    let digest = DIGEST.to_owned();
    Image {
        id: id.to_owned(),
        normalized_reference: TAG.to_owned(),
        phase: phase.into(),
        attempt: 1,
        content: (phase == Phase::Unpacked).then(|| api::Content {
            path: "trees/1".to_owned(),
            ..Default::default()
        }),
        resolution: Some(api::Resolution {
            digest,
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn by_digest() -> String {
    format!("q.io/a/b@{DIGEST}")
}

fn stored(reference: &str, tree: &str) -> Stored {
    Stored {
        reference: reference.to_owned(),
        tree: tree.to_owned(),
        unpacked: Timestamp::UNIX_EPOCH,
    }
}

fn claimed(claim: Claim, id: &str, reference: &str) -> Claimed {
    Claimed {
        claim,
        id: id.to_owned(),
        reference: reference.to_owned(),
    }
}

/// Of a leader that has not asked yet and stores nothing.
fn observed(catalog: &ClusterCatalog) -> Observed<'_> {
    Observed {
        catalog,
        role: Role::Leader,
        wanted: None,
        resolved: None,
        claimed: &[],
        stored: None,
        failure: None,
        base_url: "https://served.example/catalogs/cat",
        now: Timestamp::UNIX_EPOCH,
    }
}

fn says(image: Image) -> Option<Answer> {
    Some(Answer::Image(Box::new(image)))
}

/// Status and reason of both conditions.
fn told(decision: &Decision) -> [(String, String); 2] {
    let status = decision.status.as_ref().expect("a status is written");
    [crate::api::PROGRESSING, crate::api::SERVING].map(|type_| {
        let condition = status.condition(type_).expect("both conditions are there");
        (condition.status.clone(), condition.reason.clone())
    })
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_leader_asks_for_what_the_spec_names_before_it_says_anything() {
    let catalog = catalog(TAG);
    let decision = decide(&observed(&catalog));
    let ask = decision.ask.expect("it asks");
    assert_eq!((ask.claim, ask.reference.as_str()), (Claim::Wanted, TAG));
    assert_eq!((decision.status, decision.content), (None, Content::Keep));
}

#[test]
fn what_the_puller_says_is_what_the_object_says() {
    let tag = catalog(TAG);
    let pinned = catalog(&by_digest());
    for (catalog, phase, progressing) in [
        (&tag, Phase::Initiated, pair("True", "Pulling")),
        (&tag, Phase::Pulling, pair("True", "Pulling")),
        (&tag, Phase::Unpacking, pair("True", "Unpacking")),
        (&tag, Phase::Retrying, pair("True", "Retrying")),
        (&tag, Phase::Failed, pair("True", "Retrying")),
        (&pinned, Phase::Failed, pair("False", "Blocked")),
    ] {
        let mut observed = observed(catalog);
        observed.wanted = says(image("1", phase));
        let decision = decide(&observed);
        assert_eq!(
            told(&decision),
            [progressing, pair("False", "Unavailable")],
            "{phase:?}"
        );
        assert_eq!(decision.finalizer, Some(true));
        assert!(decision.again.is_some());
    }
}

#[test]
fn a_reference_that_is_refused_is_blocked_and_a_puller_that_is_away_is_asked_again() {
    let catalog = catalog(TAG);
    let mut observed = observed(&catalog);
    observed.wanted = Some(Answer::Refused("write it so".into()));
    let decision = decide(&observed);
    assert_eq!(told(&decision)[0], pair("False", "Blocked"));
    assert!(
        decision
            .status
            .unwrap()
            .conditions
            .iter()
            .any(|condition| condition.message.contains("write it so"))
    );

    observed.wanted = Some(Answer::None("no answer".into()));
    let decision = decide(&observed);
    assert_eq!(told(&decision)[0], pair("True", "Retrying"));
    assert_eq!(decision.again, Some(ASK_AGAIN));
}

#[test]
fn what_is_unpacked_is_stored_once_and_then_served_by_digest() {
    let catalog = catalog(TAG);
    let mut observed = observed(&catalog);
    observed.wanted = says(image("1", Phase::Unpacked));
    let Content::Store { reference, .. } = decide(&observed).content else {
        panic!("it is to be stored");
    };
    assert_eq!(reference, by_digest());

    let stored = stored(&reference, "trees/1");
    observed.stored = Some(&stored);
    let decision = decide(&observed);
    assert_eq!(decision.content, Content::Keep);
    assert_eq!(
        told(&decision),
        [pair("True", "Succeeded"), pair("True", "Available")]
    );
    assert_eq!(
        decision.status.as_ref().unwrap().resolved(),
        Some(by_digest().as_str())
    );

    // The same again changes nothing, so nothing is written.
    let mut told = catalog.clone();
    told.status = decision.status;
    observed.catalog = &told;
    assert_eq!(decide(&observed).status, None);
}

#[test]
fn content_stays_served_while_a_newer_image_is_pulled_or_fails() {
    let catalog = catalog(TAG);
    let old = stored("q.io/a/b@sha256:0", "trees/0");
    for phase in [Phase::Pulling, Phase::Unpacking, Phase::Retrying, Phase::Failed] {
        let mut observed = observed(&catalog);
        observed.stored = Some(&old);
        observed.wanted = says(image("1", phase));
        let decision = decide(&observed);
        assert_eq!(decision.content, Content::Keep, "{phase:?}");
        assert_eq!(told(&decision)[1], pair("True", "Available"), "{phase:?}");
        assert_eq!(decision.status.unwrap().resolved(), Some("q.io/a/b@sha256:0"));
    }
}

#[test]
fn content_that_could_not_be_stored_waits_for_its_time() {
    let catalog = catalog(TAG);
    let failure = StoreFailure {
        tree: "trees/1".into(),
        message: "no room".into(),
        again: Timestamp::from_second(60).unwrap(),
    };
    let mut observed = observed(&catalog);
    observed.wanted = says(image("1", Phase::Unpacked));
    observed.failure = Some(&failure);
    let decision = decide(&observed);
    assert_eq!(
        told(&decision),
        [pair("True", "Retrying"), pair("False", "Unavailable")]
    );
    assert_eq!(decision.again, Some(Duration::from_secs(60)));
    observed.now = Timestamp::from_second(61).unwrap();
    assert!(matches!(decide(&observed).content, Content::Store { .. }));
}

#[test]
fn what_the_status_names_and_is_not_here_is_fetched_by_digest_by_followers_too() {
    let mut catalog = catalog(TAG);
    catalog.status = Some(ClusterCatalogStatus {
        resolved_source: Some(crate::api::ResolvedSource {
            type_: SourceType::Image,
            image: Some(crate::api::ResolvedImage {
                reference: by_digest(),
            }),
        }),
        ..Default::default()
    });
    let mut observed = observed(&catalog);
    observed.role = Role::Follower;
    let ask = decide(&observed).ask.expect("it asks");
    assert_eq!((ask.claim, ask.reference), (Claim::Resolved, by_digest()));

    observed.resolved = says(image("2", Phase::Unpacked));
    let Content::Store { reference, .. } = decide(&observed).content else {
        panic!("it is to be stored");
    };
    assert_eq!(reference, by_digest());

    let stored = stored(&reference, "trees/1");
    observed.stored = Some(&stored);
    observed.resolved = None;
    let decision = decide(&observed);
    // A follower writes nothing, and asks for no tag.
    assert_eq!(
        (decision.ask, decision.status, decision.finalizer),
        (None, None, None)
    );
}

#[test]
fn an_old_wish_is_released_and_the_present_one_is_not() {
    let catalog = catalog(TAG);
    let claims = [
        claimed(Claim::Wanted, "1", TAG),
        claimed(Claim::Wanted, "0", "q.io/a/b:v0"),
    ];
    let mut observed = observed(&catalog);
    observed.claimed = &claims;
    observed.wanted = says(image("1", Phase::Pulling));
    assert_eq!(decide(&observed).release, [(Claim::Wanted, "0".to_owned())]);
    // Nothing is known of a puller that does not answer.
    observed.wanted = Some(Answer::None("no answer".into()));
    assert_eq!(decide(&observed).release, []);
}

#[test]
fn a_catalog_that_is_deleted_or_switched_off_lets_go_of_everything() {
    let claims = [
        claimed(Claim::Wanted, "1", TAG),
        claimed(Claim::Resolved, "2", &by_digest()),
    ];
    let content = stored(&by_digest(), "trees/1");
    let mut off = catalog(TAG);
    off.spec.availability_mode = AvailabilityMode::Unavailable;
    let mut deleted = catalog(TAG);
    deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::UNIX_EPOCH,
    ));
    for (catalog, reason) in [(&off, "UserSpecifiedUnavailable"), (&deleted, "Unavailable")] {
        let mut observed = observed(catalog);
        observed.claimed = &claims;
        observed.stored = Some(&content);
        assert_eq!(decide(&observed).content, Content::Drop);
        observed.stored = None;
        let decision = decide(&observed);
        assert_eq!((decision.ask.clone(), decision.finalizer), (None, Some(false)));
        assert_eq!(decision.release.len(), 2);
        assert_eq!(
            told(&decision),
            [pair("True", "Succeeded"), pair("False", reason)]
        );
    }
}
