//! Watch: nothing is missed, and nobody waits for a slow watcher.

mod load;

use std::time::Duration;

use puller_api::v1::{WatchRequest, watch_event::Event};
use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, version_of},
    scripted::{Get, ScriptedRegistry, Throttle},
    wait::within_patience,
};
use tokio_stream::StreamExt as _;
use tonic::Code;

#[tokio::test]
async fn resuming_from_any_event_misses_nothing() {
    let registry = ScriptedRegistry::start().await;
    registry.on(Get::blobs()).then(Throttle::to(200_000));
    let puller = Puller::start().await;
    let watcher = puller.watch().await;
    watcher.synced().await;
    let mut ids = Vec::new();
    for n in 0..3 {
        let image = Image::new().layer(Layer::gzip().file("n", n.to_string()).noise(4, 50_000));
        ids.push(
            puller
                .fetch(&registry.hold(&format!("team/app:v{n}"), &image))
                .await
                .id,
        );
    }
    for id in &ids {
        watcher
            .wait_for_image(id, "the phase Unpacked", |image| image.phase() == Phase::Unpacked)
            .await;
        assert_eq!(
            watcher.phases_of(id),
            [
                Phase::Initiated,
                Phase::Pulling,
                Phase::Unpacking,
                Phase::Unpacked
            ]
        );
    }

    let latest: Vec<_> = futures_util::future::join_all(ids.iter().map(|id| puller.get(id))).await;
    let events = watcher.events();
    for (n, event) in events.iter().enumerate() {
        let version = version_of(event).expect("no reset was due");
        let resumed = puller.watch().from(&version).await;
        resumed.synced().await;
        let seen = resumed.events();
        assert!(
            !seen.iter().any(|event| matches!(event, Event::Reset(_))),
            "a reset from event {n}"
        );
        for image in &latest {
            // What changed after that version is told again; what did not, is not.
            let told = resumed.states_of(&image.id).pop();
            let changed = events[n + 1..]
                .iter()
                .any(|later| matches!(later, Event::Put(put) if put.id == image.id));
            assert_eq!(told.is_some(), changed, "{} from event {n}", image.id);
            if let Some(told) = told {
                assert_eq!((told.phase(), &told.version), (image.phase(), &image.version));
            }
        }
    }
}

#[tokio::test]
async fn a_version_from_before_a_restart_gets_a_reset_and_everything_anew() {
    let registry = ScriptedRegistry::start().await;
    let mut puller = Puller::start().await;
    let image = puller
        .pull(&registry.hold("team/app:v1", Image::new().layer(Layer::gzip().file("a", "b"))))
        .await;
    let watcher = puller.watch().await;
    watcher.synced().await;
    let old = watcher.last_version().expect("a bookmark has a version");

    puller.kill_and_start_again().await;
    let resumed = puller.watch().from(&old).await;
    resumed.synced().await;
    let events = resumed.events();
    assert!(matches!(events.first(), Some(Event::Reset(_))), "{events:#?}");
    assert_eq!(
        resumed
            .states_of(&image.id)
            .pop()
            .expect("it is told anew")
            .phase(),
        Phase::Unpacked
    );
}

#[tokio::test]
async fn a_version_that_was_never_given_out_is_refused() {
    let puller = Puller::start().await;
    for version in ["nonsense", "999999-1", "-1", "1"] {
        let watch = puller.watch().from(version).open().await;
        let status = match watch {
            Err(status) => status,
            // A stream may tell it with its first message.
            Ok(watcher) => {
                within_patience("the end of the Watch", async {
                    loop {
                        if let Some(ended) = watcher.ended() {
                            return ended.expect_err("the version is nonsense");
                        }
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                })
                .await
            }
        };
        assert_eq!(status.code(), Code::InvalidArgument, "{version}: {status}");
    }
}

#[tokio::test]
async fn filters_tell_what_leaves_them() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", Image::new().layer(Layer::gzip().file("a", "b")));
    let other = registry.hold("team/app:v2", Image::new().layer(Layer::gzip().file("c", "d")));
    let puller = Puller::start().await;
    let watcher = puller.watch().claimed_by("me").await;
    let mine = puller.fetch(&reference).claimant("me").await;
    let theirs = puller.fetch(&other).claimant("they").await;
    puller.unpacked(&theirs.id).await;
    watcher
        .wait_for_image(&mine.id, "the phase Unpacked", |image| {
            image.phase() == Phase::Unpacked
        })
        .await;
    assert_eq!(watcher.states_of(&theirs.id).len(), 0);
    puller.release(&mine.id, "me").await;
    watcher.deleted(&mine.id).await;
}

/// Images that change all the time while somebody does not read.
const IMAGES: usize = 50;

/// How often each of them changes.
const CHANGES: usize = 200;

/// What a watcher that does not read may cost: the latest states of all Images, twice, and what the
/// connection's windows hold, with room for the allocator.
const BOUND: u64 = 16 << 20;

#[tokio::test]
async fn a_watcher_that_does_not_read_costs_little_and_gets_the_latest() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let mut references = Vec::new();
    let mut ids = Vec::new();
    for n in 0..IMAGES {
        let image = Image::new().layer(Layer::gzip().file("n", n.to_string()));
        let reference = registry.hold(&format!("team/app:v{n}"), &image);
        ids.push(puller.pull(&reference).await.id);
        references.push(reference);
    }
    let mut stream = puller
        .client()
        .watch(WatchRequest::default())
        .await
        .expect("a Watch")
        .into_inner();
    let before = puller.memory();
    for n in 0..CHANGES {
        for reference in &references {
            puller.fetch(reference).claimant(&format!("c{}", n % 10)).await;
        }
    }
    let grown = puller.memory().saturating_sub(before);
    assert!(grown < BOUND, "{} changes cost {grown} bytes", CHANGES * IMAGES);

    let last = puller.get(&ids[0]).await.version;
    let told = within_patience("the latest state", async {
        let mut told = 0;
        loop {
            let event = stream
                .next()
                .await
                .expect("the Watch goes on")
                .expect("and well")
                .event;
            told += 1;
            if matches!(event, Some(Event::Put(image)) if image.id == ids[0] && image.version == last) {
                return told;
            }
        }
    })
    .await;
    assert!(
        told < CHANGES * IMAGES,
        "every single change was kept: {told} events"
    );
}
