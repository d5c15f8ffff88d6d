//! Registries that accept and never answer delay nobody but those who want something of them.

use std::time::Duration;

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Blackhole, Get, ScriptedRegistry, Stall},
};
use tokio::time::Instant;

/// Slots over all.
const SLOTS: usize = 2;

/// Long enough for the healthy pulls to be done before any hung one gives up, on a busy machine too.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// "At once", with room for a busy machine: a Fetch that waited for a registry would take a minute.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn twice_as_many_hung_registries_as_slots_delay_nobody_else() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start()
        .flag("--max-pulls", SLOTS.to_string())
        .idle_timeout(IDLE_TIMEOUT)
        .await;

    let mut hung = Vec::new();
    for _ in 0..2 * SLOTS {
        let hole = Blackhole::start().await;
        let asked = Instant::now();
        let image = puller.fetch(&hole.reference("team/app:v1")).await;
        assert!(asked.elapsed() < AT_ONCE, "Fetch took {:?}", asked.elapsed());
        assert_eq!(image.phase(), Phase::Initiated);
        hung.push((hole, image.id));
    }
    for (hole, id) in &hung {
        hole.wait_for_a_victim().await;
        let says_so = |waiting: &str| waiting.contains(&hole.host());
        puller
            .wait_for(id, "a wait for its registry", |image| {
                image
                    .progress
                    .as_ref()
                    .is_some_and(|progress| says_so(&progress.waiting_for))
            })
            .await;
    }

    for n in 0..4 {
        let image = Image::new().layer(Layer::gzip().file("n", n.to_string()).noise(10, 10_000));
        puller
            .pull(&registry.hold(&format!("team/app:v{n}"), &image))
            .await;
    }
    for (_, id) in &hung {
        let image = puller.get(id).await;
        assert_eq!(
            image.last_error, None,
            "a hung pull had given up before the others were done"
        );
    }

    for (hole, id) in &hung {
        let image = puller.retrying(id).await;
        let error = image.last_error.expect("a pull that failed has an error");
        assert_eq!((error.reason(), error.attempt), (Reason::Timeout, 1));
        assert!(error.message.contains(&hole.host()), "{}", error.message);
        assert!(image.attempt >= 1);
        assert!(
            image.next_retry.is_some() || image.attempt > 1,
            "nothing says when it is tried again"
        );
    }
}

#[tokio::test]
async fn a_body_that_stops_is_given_up_and_goes_on_where_it_was() {
    let registry = ScriptedRegistry::start().await;
    let image = Image::new().layer(Layer::gzip().noise(10, 50_000));
    let layer = image.layers()[0].digest();
    registry.on(Get::blob(layer)).times(1).then(Stall::after(200_000));
    let puller = Puller::start().idle_timeout(Duration::from_secs(2)).await;

    let fetched = puller.fetch(&registry.hold("team/app:v1", &image)).await;
    let retrying = puller.retrying(&fetched.id).await;
    assert_eq!(retrying.last_error.expect("an error").reason(), Reason::Timeout);
    let unpacked = puller.unpacked(&fetched.id).await;
    assert_eq!(unpacked.last_error, None, "a success clears the error");
    assert_eq!(unpacked.attempts.len(), 2);

    let again = registry.wait_for(Get::blob(layer).ranged()).await;
    assert_eq!(again.header("range"), "bytes=200000-");
    assert_eq!(registry.count(Get::blob(layer)), 2);
}
