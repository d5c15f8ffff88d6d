//! A peer that is gone without a word, as when its machine died.

use puller_client::{Client, Filter, Informer};
use puller_tests::{puller::Puller, scripted::ScriptedRegistry, wait::within_patience};
use tokio::time::sleep;

use super::{LOOK_EVERY, Relay, at_rest, client, image, is_unpacked, told};

/// Calls of Watch that are open, as the puller tells Prometheus.
async fn watchers(puller: &Puller) -> u64 {
    let metrics = puller.metrics().await;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("puller_watchers "));
    line.expect("a gauge").parse().expect("a number")
}

/// It takes as long as the keep-alive of either side.
#[tokio::test]
async fn who_vanishes_without_a_word_is_found_by_both_sides() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().metrics().await;
    let relay = Relay::to(&puller.socket()).await;
    let relayed = Client::connect(&relay.endpoint()).expect("an endpoint");
    let informer = Informer::start(relayed, Filter::default());
    within_patience("the first sync", informer.synced()).await;
    assert_eq!(watchers(&puller).await, 1);

    relay.vanish();
    let id = puller.pull(&registry.hold("team/app:v1", image(1))).await.id;
    assert!(informer.get(&id).is_none(), "nothing is passed on");

    // The client dials again, and is told what it has missed.
    let mut triggers = informer.triggers();
    told(&mut triggers, &informer, &id, is_unpacked).await;
    at_rest(&informer, &client(&puller), &Filter::default()).await;
    // The puller gives the old one up by itself: nobody has closed it.
    within_patience("the end of the watcher that vanished", async {
        while watchers(&puller).await != 1 {
            sleep(LOOK_EVERY).await;
        }
    })
    .await;
}
