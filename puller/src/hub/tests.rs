mod random;

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::domain::{Claim, Phase, Selection, UnpackOptions, Wish};

fn image(name: &str, phase: Phase) -> Image {
    let wish = Wish {
        asked: format!("example.com/{name}:1"),
        reference: format!("example.com/{name}:1").parse().unwrap(),
        platform: "linux/amd64".parse().unwrap(),
        selection: Selection::All,
        unpack: UnpackOptions::default(),
        scope: crate::domain::Scope::default(),
    };
    Image {
        phase,
        ..Image::new(wish.id(), wish, jiff::Timestamp::UNIX_EPOCH)
    }
}

fn claimed(name: &str, claimant: &str) -> Image {
    let claim = Claim {
        renewed: jiff::Timestamp::UNIX_EPOCH,
        expires: None,
        in_use: vec![],
    };
    Image {
        claims: BTreeMap::from([(claimant.to_owned(), claim)]),
        ..image(name, Phase::Initiated)
    }
}

/// Events as short words, so that a test reads as what a watcher sees.
fn drain(watcher: &mut Watcher) -> Vec<String> {
    std::iter::from_fn(|| watcher.try_next())
        .map(|event| match event {
            Event::Put(image, _) => format!("{} {:?}", image.wish.reference.repository, image.phase),
            Event::Deleted(..) => "deleted".to_owned(),
            Event::Bookmark { synced: true, .. } => "synced".to_owned(),
            Event::Bookmark { .. } => "bookmark".to_owned(),
            Event::Reset => "reset".to_owned(),
        })
        .collect()
}

fn hub() -> Arc<Hub> {
    Hub::new(7)
}

fn all(hub: &Arc<Hub>, after: Option<Version>) -> Watcher {
    hub.watch(after, Filter::default()).unwrap()
}

#[test]
fn a_new_watcher_gets_what_is_and_then_every_phase() {
    let hub = hub();
    hub.put(image("a", Phase::Initiated), true);
    hub.put(image("a", Phase::Pulling), true);
    let mut watcher = all(&hub, None);
    assert_eq!(drain(&mut watcher), ["a Pulling", "synced"]);
    hub.put(image("a", Phase::Unpacking), true);
    hub.put(image("a", Phase::Unpacking), false);
    hub.put(image("a", Phase::Unpacked), true);
    assert_eq!(drain(&mut watcher), ["a Unpacking", "a Unpacked"]);
}

#[test]
fn progress_is_coalesced_to_the_latest_state() {
    let hub = hub();
    let mut watcher = all(&hub, None);
    assert_eq!(drain(&mut watcher), ["synced"]);
    for _ in 0..1000 {
        hub.put(image("a", Phase::Pulling), false);
    }
    assert_eq!(drain(&mut watcher), ["a Pulling"]);
    assert_eq!(hub.log().entries.len(), 1);
}

#[test]
fn the_log_stays_bounded_however_slow_a_watcher_is() {
    let hub = hub();
    let mut slow = all(&hub, None);
    for _ in 0..MAX_PAST {
        hub.put(image("a", Phase::Pulling), true);
        hub.put(image("a", Phase::Retrying), true);
    }
    hub.put(image("a", Phase::Unpacked), true);
    assert_eq!(hub.log().entries.len(), MAX_PAST + 1);
    let seen = drain(&mut slow);
    assert_eq!(seen.last().unwrap(), "a Unpacked");
}

#[test]
fn every_version_is_safe_to_resume_from() {
    let hub = hub();
    let mut watcher = all(&hub, None);
    for name in ["a", "b"] {
        for phase in [
            Phase::Initiated,
            Phase::Pulling,
            Phase::Unpacking,
            Phase::Unpacked,
        ] {
            hub.put(image(name, phase), true);
        }
    }
    hub.delete(&image("a", Phase::Unpacked).id, Duration::ZERO);
    let mut versions = vec![];
    let mut last = None;
    while let Some(event) = watcher.try_next() {
        let (Event::Put(_, version) | Event::Deleted(_, version) | Event::Bookmark { version, .. }) = event
        else {
            panic!("no reset was asked for");
        };
        assert!(last.is_none_or(|last| last < version), "versions rise");
        last = Some(version);
        versions.push(version);
    }
    for (seen, version) in versions.iter().enumerate() {
        let rest = drain(&mut all(&hub, Some(*version)));
        assert_eq!(rest.len(), versions.len() - seen, "from {version}: {rest:?}");
        assert_eq!(rest.last().unwrap(), "synced");
    }
}

#[test]
fn a_version_of_another_epoch_or_from_beyond_the_horizon_is_reset() {
    let hub = hub();
    hub.put(image("a", Phase::Unpacked), true);
    hub.put(image("b", Phase::Unpacked), true);
    let before = hub.list().1;
    hub.delete(&image("a", Phase::Unpacked).id, Duration::ZERO);
    hub.put(image("c", Phase::Unpacked), true);

    let resumed = || drain(&mut all(&hub, Some(before)));
    assert_eq!(resumed(), ["deleted", "c Unpacked", "synced"]);
    hub.expire(HORIZON - Duration::from_secs(1));
    assert_eq!(resumed(), ["deleted", "c Unpacked", "synced"]);
    hub.expire(HORIZON);
    assert_eq!(resumed(), ["reset", "b Unpacked", "c Unpacked", "synced"]);

    let earlier = Version {
        epoch: 6,
        seq: 1_000_000,
    };
    assert_eq!(
        drain(&mut all(&hub, Some(earlier))),
        ["reset", "b Unpacked", "c Unpacked", "synced"]
    );
}

#[test]
fn a_watcher_that_slept_beyond_the_horizon_is_reset_where_it_is() {
    let hub = hub();
    hub.put(image("a", Phase::Unpacked), true);
    hub.put(image("b", Phase::Unpacked), true);
    let mut slept = all(&hub, None);
    assert_eq!(drain(&mut slept), ["a Unpacked", "b Unpacked", "synced"]);
    let mut half = all(&hub, None);
    assert!(matches!(half.try_next(), Some(Event::Put(..))));
    let mut unread = all(&hub, None);
    hub.delete(&image("a", Phase::Unpacked).id, Duration::ZERO);
    hub.expire(HORIZON);
    for watcher in [&mut slept, &mut half, &mut unread] {
        assert_eq!(drain(watcher), ["reset", "b Unpacked", "synced"]);
        assert!(drain(watcher).is_empty());
    }
    // Whoever begins now knows nothing that was deleted.
    assert_eq!(drain(&mut all(&hub, None)), ["b Unpacked", "synced"]);
}

#[test]
fn a_version_that_was_never_given_out_is_refused() {
    let hub = hub();
    for version in [Version { epoch: 7, seq: 1 }, Version { epoch: 8, seq: 0 }] {
        assert!(hub.watch(Some(version), Filter::default()).is_err());
    }
    for text in ["", "7", "7.", ".7", "7.+1", "7.1.1", "seven.one"] {
        assert!(text.parse::<Version>().is_err(), "{text:?} was accepted");
    }
}

#[test]
fn leaving_the_filter_is_a_deletion() {
    let hub = hub();
    let filter = || Filter {
        claimant: "me".into(),
        ..Filter::default()
    };
    hub.put(claimed("a", "me"), true);
    hub.put(claimed("b", "you"), true);
    let mut watcher = hub.watch(None, filter()).unwrap();
    assert_eq!(drain(&mut watcher), ["a Initiated", "synced"]);
    let before = hub.list().1;
    hub.put(claimed("b", "you"), false);
    hub.put(claimed("a", "you"), false);
    assert_eq!(drain(&mut watcher), ["deleted"]);
    // Whoever resumes may know either, and is told of both.
    let mut resumed = hub.watch(Some(before), filter()).unwrap();
    assert_eq!(drain(&mut resumed), ["deleted", "deleted", "synced"]);

    let ids = HashSet::from([image("b", Phase::Initiated).id]);
    let mut by_id = hub
        .watch(
            None,
            Filter {
                ids,
                ..Filter::default()
            },
        )
        .unwrap();
    assert_eq!(drain(&mut by_id), ["b Initiated", "synced"]);
}

#[test]
fn whoever_hears_nothing_gets_a_version_all_the_same() {
    let hub = hub();
    let filter = Filter {
        claimant: "me".into(),
        ..Filter::default()
    };
    let mut watcher = hub.watch(None, filter).unwrap();
    assert_eq!(drain(&mut watcher), ["synced"]);
    assert!(watcher.bookmark().is_none(), "nothing has happened");
    hub.put(claimed("a", "you"), true);
    assert!(drain(&mut watcher).is_empty());
    let Some(Event::Bookmark {
        version,
        synced: false,
    }) = watcher.bookmark()
    else {
        panic!("something has happened");
    };
    assert_eq!(version, hub.list().1);
    assert!(watcher.bookmark().is_none(), "once is enough");
}

#[test]
fn an_image_that_comes_back_is_put_again() {
    let hub = hub();
    hub.put(image("a", Phase::Unpacked), true);
    let mut watcher = all(&hub, None);
    assert_eq!(drain(&mut watcher), ["a Unpacked", "synced"]);
    hub.delete(&image("a", Phase::Unpacked).id, Duration::ZERO);
    hub.put(image("a", Phase::Initiated), true);
    assert_eq!(drain(&mut watcher), ["a Initiated"]);
    hub.expire(HORIZON);
    assert_eq!(
        hub.list().0.len(),
        1,
        "the old deletion does not take the new Image with it"
    );
}

#[tokio::test]
async fn a_waiting_watcher_is_woken() {
    let hub = hub();
    let mut watcher = all(&hub, None);
    assert!(matches!(
        watcher.next().await,
        Event::Bookmark { synced: true, .. }
    ));
    let next = tokio::spawn(async move { watcher.next().await });
    hub.put(image("a", Phase::Initiated), true);
    assert!(matches!(next.await.unwrap(), Event::Put(..)));
}
