//! The client's informer against the real daemon: whatever happens, its store ends as `List` has it, and
//! its triggers tell every difference.

mod listener;
mod model;
mod relay;
mod vanished;

use std::{collections::BTreeMap, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _};
use puller_client::{Client, Error, Filter, Informer, Triggers, api};
use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller},
    scripted::{Get, ScriptedRegistry, Stall, Throttle},
    wait::{eventually, within_patience},
};
use tokio::time::sleep;

use self::relay::Relay;

/// How often a store that should come to rest is compared with `List`.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An informer of all Images.
fn inform(puller: &Puller) -> Informer {
    Informer::start(client(puller), Filter::default())
}

fn client(puller: &Puller) -> Client {
    Client::connect(&puller.endpoint()).expect("an endpoint")
}

fn claimed_by(claimant: &str) -> Filter {
    Filter {
        claimant: claimant.to_owned(),
        ids: Vec::new(),
    }
}

fn image(n: usize) -> Image {
    Image::new().layer(Layer::gzip().file("n", n.to_string()).noise(2, 20_000))
}

/// What the store should be: the Images that `List` tells of those that the filter is for.
async fn listed(client: &Client, filter: &Filter) -> BTreeMap<String, api::Image> {
    let listing = client.list(&filter.claimant).await.expect("the puller serves");
    let wanted = |image: &api::Image| filter.ids.is_empty() || filter.ids.contains(&image.id);
    let images = listing.images.into_iter().filter(wanted);
    images.map(|image| (image.id.clone(), image)).collect()
}

fn stored(informer: &Informer) -> BTreeMap<String, api::Image> {
    let images = informer.list().into_iter();
    images.map(|(id, image)| (id, (*image).clone())).collect()
}

/// Waits until the store is what the puller lists.
async fn at_rest(informer: &Informer, client: &Client, filter: &Filter) {
    within_patience("a store that is as List has it", async {
        while stored(informer) != listed(client, filter).await {
            sleep(LOOK_EVERY).await;
        }
    })
    .await;
}

/// The next trigger.
async fn next(triggers: &mut Triggers) -> String {
    let id = within_patience("a trigger", triggers.next()).await;
    id.expect("triggers never end")
}

/// Reads triggers until the store holds an Image as wanted.
async fn told(
    triggers: &mut Triggers,
    informer: &Informer,
    id: &str,
    is_so: impl Fn(Option<&api::Image>) -> bool,
) {
    while !(next(triggers).await == id && is_so(informer.get(id).as_deref())) {}
}

fn is_unpacked(image: Option<&api::Image>) -> bool {
    image.is_some_and(|image| image.phase() == Phase::Unpacked)
}

#[tokio::test]
async fn it_follows_a_pull_from_its_wish_to_its_content() {
    let registry = ScriptedRegistry::start().await;
    registry
        .on(Get::manifests())
        .then(Stall::for_a(Duration::from_millis(300)));
    registry.on(Get::blobs()).then(Throttle::to(100_000));
    let puller = Puller::start().await;
    let informer = inform(&puller);
    within_patience("the first sync", informer.synced()).await;
    assert!(informer.list().is_empty() && informer.has_synced());
    let mut triggers = informer.triggers();

    let id = puller.fetch(&registry.hold("team/app:v1", image(1))).await.id;
    let mut states = Vec::new();
    while states
        .last()
        .is_none_or(|state: &api::Image| state.phase() != Phase::Unpacked)
    {
        assert_eq!(next(&mut triggers).await, id);
        states.push((*informer.get(&id).expect("the store is first")).clone());
    }
    let mut phases: Vec<Phase> = states.iter().map(api::Image::phase).collect();
    phases.dedup();
    // The others may be over before anybody looks.
    assert!(
        phases.is_sorted() && phases.contains(&Phase::Pulling),
        "{phases:?}"
    );
    let bytes = |state: &api::Image| state.progress.as_ref().map_or(0, |progress| progress.bytes_done);
    assert!(states.iter().map(bytes).is_sorted());
    at_rest(&informer, &client(&puller), &Filter::default()).await;
}

#[tokio::test]
async fn a_puller_that_is_killed_and_comes_back_is_followed_on() {
    let registry = ScriptedRegistry::start().await;
    registry.on(Get::blobs()).then(Throttle::to(200_000));
    let mut puller = Puller::start().await;
    let informer = inform(&puller);
    let mut triggers = informer.triggers();
    let mut versions = BTreeMap::new();
    for n in 0..4 {
        let reference = registry.hold(&format!("team/app:v{n}"), image(n));
        registry.forget_requests();
        puller.fetch(&reference).await;
        registry.wait_for(Get::blobs()).await;
        puller.kill().await;
        // What is known stays readable, and its age is told.
        let error = eventually("an error", || informer.last_error()).await;
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert!(informer.has_synced() && informer.list().len() > n.saturating_sub(1));

        puller.start_again().await;
        // A crash may lose a claim of the last moments: whoever wants it fetches again.
        let id = puller.fetch(&reference).await.id;
        while !is_unpacked(informer.get(&id).as_deref()) {
            let told = next(&mut triggers).await;
            if let Some(image) = informer.get(&told) {
                let version = numbers(&image.version);
                let old = versions.insert(told, version.clone());
                assert!(old.is_none_or(|old| old <= version), "{version:?}");
            }
        }
        at_rest(&informer, &client(&puller), &Filter::default()).await;
        assert_eq!(informer.last_error(), None);
    }
}

/// Versions are opaque to clients; the scenario knows that they are numbers that rise.
fn numbers(version: &str) -> Vec<u64> {
    let numbers = version.split('.').map(|number| number.parse().expect("a number"));
    numbers.collect()
}

#[tokio::test]
async fn a_puller_that_is_not_there_yet_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("puller.sock");
    let client = Client::connect(&format!("unix://{}", socket.display())).expect("an endpoint");
    let informer = Informer::start(client.clone(), Filter::default());
    let mut triggers = informer.triggers();
    let error = eventually("an error", || informer.last_error()).await;
    assert!(error.is_transient() && !informer.has_synced(), "{error}");
    assert_eq!(triggers.next().now_or_never(), None);

    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().socket(&socket).await;
    let id = puller.fetch(&registry.hold("team/app:v1", image(1))).await.id;
    told(&mut triggers, &informer, &id, is_unpacked).await;
    assert!(informer.has_synced());
    assert_eq!(informer.last_error(), None);
}

#[tokio::test]
async fn a_puller_with_another_volume_is_listed_anew() {
    let registry = ScriptedRegistry::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let volumes = ["old", "new"].map(|name| directory.path().join(name));
    let socket = directory.path().join("puller.sock");
    let on = |n: usize| Puller::start().socket(&socket).volume(&volumes[n]);

    let mut puller = on(0).await;
    let informer = inform(&puller);
    let old = puller.pull(&registry.hold("team/app:v1", image(1))).await.id;
    at_rest(&informer, &client(&puller), &Filter::default()).await;
    let mut triggers = informer.triggers();
    puller.kill().await;
    let puller = on(1).await;
    told(&mut triggers, &informer, &old, |image| image.is_none()).await;
    at_rest(&informer, &client(&puller), &Filter::default()).await;
    assert_eq!(informer.last_error(), None);
}

/// Images that a relist would tell, all of them.
const MANY: usize = 30;

#[tokio::test]
async fn a_connection_that_broke_is_resumed_without_a_relist() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let mut ids = Vec::new();
    for n in 0..MANY {
        ids.push(
            puller
                .pull(&registry.hold(&format!("team/app:v{n}"), image(n)))
                .await
                .id,
        );
    }
    let relay = Relay::to(&puller.socket()).await;
    let informer = Informer::start(
        Client::connect(&relay.endpoint()).expect("an endpoint"),
        Filter::default(),
    );
    within_patience("the first sync", informer.synced()).await;
    let list = relay.bytes();
    let mut triggers = informer.triggers();
    while triggers.next().now_or_never().is_some() {}

    // Cut off, while one Image changes and one goes.
    relay.cut();
    puller
        .fetch(&registry.reference("team/app:v0"))
        .claimant("another")
        .await;
    relay.mend();
    told(&mut triggers, &informer, &ids[0], |image| {
        image.is_some_and(|image| image.claims.len() == 2)
    })
    .await;
    at_rest(&informer, &client(&puller), &Filter::default()).await;
    let resume = relay.bytes() - list;
    assert!(
        resume < list / 4,
        "the list was {list} bytes, and to resume took {resume}"
    );
    assert_eq!(triggers.next().now_or_never(), None, "nothing else has changed");
}

#[tokio::test]
async fn what_is_deleted_leaves_the_store_and_is_told() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().grace_period(Duration::from_millis(200)).await;
    let informer = inform(&puller);
    let mut triggers = informer.triggers();
    let id = puller.pull(&registry.hold("team/app:v1", image(1))).await.id;
    told(&mut triggers, &informer, &id, is_unpacked).await;
    puller.release(&id, "scenario").await;
    told(&mut triggers, &informer, &id, |image| image.is_none()).await;
    assert!(informer.list().is_empty());
}

#[tokio::test]
async fn filters_hold_what_they_are_for_and_let_it_go() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let client = client(&puller);
    let (mine, theirs) = (
        registry.hold("team/app:v1", image(1)),
        registry.hold("team/app:v2", image(2)),
    );
    let by_claimant = Informer::start(client.clone(), claimed_by("me"));
    let mine = puller.fetch(&mine).claimant("me").await.id;
    let theirs = puller.fetch(&theirs).claimant("they").await.id;
    let only_theirs = Filter {
        claimant: String::new(),
        ids: vec![theirs.clone()],
    };
    let by_id = Informer::start(client.clone(), only_theirs.clone());
    for id in [&mine, &theirs] {
        puller.unpacked(id).await;
    }
    at_rest(&by_claimant, &client, &claimed_by("me")).await;
    at_rest(&by_id, &client, &only_theirs).await;
    assert!(by_claimant.get(&mine).is_some() && by_claimant.list().len() == 1);
    assert!(by_id.get(&theirs).is_some() && by_id.list().len() == 1);

    // The Image stays; only the claim ends.
    let mut triggers = by_claimant.triggers();
    puller.release(&mine, "me").await;
    told(&mut triggers, &by_claimant, &mine, |image| image.is_none()).await;
    assert_eq!(puller.get(&mine).await.id, mine);
}

#[tokio::test]
async fn who_reads_slowly_is_told_each_image_once_with_its_latest_state() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let informer = inform(&puller);
    let mut triggers = informer.triggers();
    let mut references = Vec::new();
    for n in 0..10 {
        references.push(registry.hold(&format!("team/app:v{n}"), image(n)));
        puller.pull(&references[n]).await;
    }
    for n in 0..30 {
        for reference in &references {
            puller.fetch(reference).claimant(&format!("c{}", n % 5)).await;
        }
    }
    at_rest(&informer, &client(&puller), &Filter::default()).await;
    let mut pending = Vec::new();
    while let Some(id) = triggers.next().now_or_never() {
        pending.push(id.expect("triggers never end"));
    }
    pending.sort_unstable();
    assert!(pending.iter().eq(informer.list().keys()), "{pending:?}");
}

#[tokio::test]
async fn many_informers_of_one_puller_agree() {
    let registry = ScriptedRegistry::start().await;
    let mut puller = Puller::start().await;
    let one_client = client(&puller);
    let informers: Vec<Informer> = (0..40)
        .map(|n| match n % 2 {
            0 => Informer::start(one_client.clone(), Filter::default()),
            _ => inform(&puller),
        })
        .collect();
    for n in 0..5 {
        puller
            .fetch(&registry.hold(&format!("team/app:v{n}"), image(n)))
            .await;
    }
    puller.kill_and_start_again().await;
    for n in 0..5 {
        puller.pull(&registry.reference(&format!("team/app:v{n}"))).await;
    }
    for informer in &informers {
        at_rest(informer, &one_client, &Filter::default()).await;
    }
}
