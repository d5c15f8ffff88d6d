//! What those see who run it: metrics, the end, and secrets that are nowhere.

use std::{fs, path::Path, time::Duration};

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Answer, Any, Auth, Get, ScriptedRegistry, Throttle},
    tree::Tree,
    wait::{PATIENCE, eventually, within_patience},
};
use tokio::time::{Instant, sleep};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// How often metrics are looked at that are not as wanted yet.
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn image() -> Image {
    Image::new().layer(Layer::gzip().noise(10, 50_000))
}

/// The value of one series; none: there is no such series.
fn value(metrics: &str, series: &str) -> Option<f64> {
    let rest = metrics.lines().find_map(|line| line.strip_prefix(series))?;
    rest.trim().parse().ok()
}

#[tokio::test]
async fn metrics_tell_what_is_done_and_what_is_not() {
    let registry = ScriptedRegistry::start().await;
    let image = image();
    let good = registry.hold("team/app:v1", &image);
    let bad = registry.hold("team/bad:v1", &image);
    registry
        .on(Any::manifests().of("team/bad"))
        .then(Answer::status(404));
    let puller = Puller::start().metrics().await;
    let zero = puller.metrics().await;
    assert_eq!(value(&zero, "puller_watchers "), Some(0.0), "{zero}");
    assert_eq!(
        value(&zero, r#"puller_images{phase="UNPACKED",reason=""} "#),
        Some(0.0)
    );

    let watcher = puller.watch().await;
    watcher.synced().await;
    puller.pull(&good).await;
    let failing = puller.fetch(&bad).await;
    let retrying = puller.retrying(&failing.id).await;
    assert_eq!(retrying.last_error.expect("an error").reason(), Reason::NotFound);
    let size = image.layers()[0].bytes().len() as f64;
    let wanted = [
        ("puller_watchers ", 1.0),
        (r#"puller_images{phase="UNPACKED",reason=""} "#, 1.0),
        (r#"puller_images{phase="RETRYING",reason="NOT_FOUND"} "#, 1.0),
        (r#"puller_attempts_total{outcome="unpacked",reason=""} "#, 1.0),
        ("puller_fetched_bytes_total ", size),
        ("puller_unpacked_bytes_total ", 500_000.0),
        ("puller_contents ", 1.0),
        ("puller_sync_duration_seconds_count ", 1.0),
        ("puller_volume_used_bytes ", 500_000.0),
        (
            r#"puller_grpc_request_duration_seconds_count{method="Fetch",code="Ok"} "#,
            2.0,
        ),
    ];
    // What was told a moment ago is counted a moment later.
    let deadline = Instant::now() + PATIENCE;
    let metrics = loop {
        let metrics = puller.metrics().await;
        let other = wanted
            .iter()
            .find(|(series, wanted)| value(&metrics, series) != Some(*wanted));
        let Some((series, wanted)) = other else {
            break metrics;
        };
        assert!(Instant::now() < deadline, "no {wanted} of {series}in\n{metrics}");
        sleep(LOOK_EVERY).await;
    };
    assert!(
        value(
            &metrics,
            r#"puller_attempts_total{outcome="failed",reason="NOT_FOUND"} "#
        ) >= Some(1.0),
        "{metrics}"
    );
    assert!(value(&metrics, "puller_volume_free_bytes ") > Some(0.0));
    for name in [registry.host(), "team".to_owned(), failing.id] {
        assert!(!metrics.contains(&name), "{name} in\n{metrics}");
    }
}

#[tokio::test]
async fn sigterm_ends_in_order_and_loses_no_byte() {
    let registry = ScriptedRegistry::start().await;
    let image = image();
    let layer = image.layers()[0].digest();
    registry.on(Get::blob(layer)).times(1).then(Throttle::to(100_000));
    let mut puller = Puller::start().await;
    let fetched = puller.fetch(&registry.hold("team/app:v1", &image)).await;
    puller
        .wait_for(&fetched.id, "some bytes", |image| {
            image.progress.as_ref().is_some_and(|p| p.bytes_done > 50_000)
        })
        .await;
    let watcher = puller.watch().await;
    watcher.synced().await;
    let health = HealthClient::new(puller.connection())
        .watch(HealthCheckRequest::default())
        .await;
    let mut health = health.expect("health").into_inner();
    let first = health.message().await.expect("a state").expect("a state");
    assert_eq!(first.status(), ServingStatus::Serving);

    puller.ask_to_end();
    let last = within_patience("health", health.message()).await;
    let last = last.expect("a state").expect("a state");
    assert_eq!(last.status(), ServingStatus::NotServing);
    // Whoever goes on asking for health does not keep the rest from ending.
    drop(health);
    assert_eq!(puller.ended().await, 0);
    let end = eventually("the end of the Watch", || watcher.ended()).await;
    assert!(end.is_ok(), "{end:?}");

    registry.forget_requests();
    puller.start_again().await;
    let unpacked = puller.unpacked(&fetched.id).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
    let ranges: Vec<_> = registry
        .requests_for(Get::blob(layer))
        .iter()
        .map(|request| request.header("range").to_owned())
        .collect();
    assert!(
        matches!(&ranges[..], [range] if range.starts_with("bytes=")),
        "{ranges:?}"
    );
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let mut puller = Puller::start().await;
    // Somebody who never hangs up keeps it from ending, for as long as it has patience.
    let health = HealthClient::new(puller.connection())
        .watch(HealthCheckRequest::default())
        .await;
    let mut health = health.expect("health").into_inner();
    health.message().await.expect("a state");
    puller.ask_to_end();
    within_patience("health", health.message())
        .await
        .expect("a state");
    let began = Instant::now();
    puller.ask_to_end();
    assert_eq!(puller.ended().await, 0);
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "its patience is 20 s: {:?}",
        began.elapsed()
    );
    drop(health);
}

/// All that is in the files below a directory, whatever it is.
fn all_bytes(directory: &Path, found: &mut Vec<u8>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all_bytes(&path, found);
        } else {
            found.extend(fs::read(&path).unwrap_or_default());
        }
    }
}

/// Whoever asks for traces of a puller that was built without them is told so.
#[tokio::test]
async fn a_line_of_a_pull_tells_which_pull_it_is() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image());
    let puller = Puller::start()
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .await;
    let id = puller.pull(&reference).await.id;
    let log = puller.log();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("every line is JSON off a terminal"))
        .collect();
    let unpacked = lines.iter().find(|line| line["message"] == "unpacked");
    let pull = &unpacked.expect("it is logged")["spans"][0];
    assert_eq!(
        (&pull["name"], &pull["id"], &pull["reference"]),
        (&"pull".into(), &id.into(), &reference.into())
    );
    let untraced = |line: &serde_json::Value| {
        line["level"] == "WARN" && line["message"].to_string().contains("without its feature otlp")
    };
    assert!(lines.iter().any(untraced), "{log}");
}

/// At the finest level, in every form.
#[tokio::test]
async fn secrets_are_nowhere() {
    const PASSWORD: &str = "hunter2-is-no-password";
    for auth in [Auth::basic("user", PASSWORD), Auth::bearer("user", PASSWORD)] {
        let registry = ScriptedRegistry::start().auth(auth).await;
        let reference = registry.hold("team/app:v1", image());
        let puller = Puller::start().metrics().flag("--log", "trace").await;
        let fetch = |password| {
            puller
                .fetch(&reference)
                .scope("team")
                .login(&registry.host(), "user", password)
        };
        // A wrong one first, so that there are faults that could tell it.
        let id = fetch("wrong-hunter1").await.id;
        puller.retrying(&id).await;
        fetch(PASSWORD).await;
        let unpacked = puller.unpacked(&id).await;
        assert_eq!(unpacked.phase(), Phase::Unpacked);

        let mut secrets = vec![PASSWORD.to_owned(), "wrong-hunter1".to_owned()];
        for request in registry.requests() {
            let sent = request.header("authorization").to_owned();
            secrets.extend(sent.split_once(' ').map(|(_, secret)| secret.to_owned()));
        }
        secrets.sort();
        secrets.dedup();
        assert!(secrets.len() > 3, "{secrets:?}");
        let shown = puller.cli(["list", "--output", "json"]).await;
        let mut everything =
            format!("{}{}{}", puller.log(), shown.stdout, puller.metrics().await).into_bytes();
        assert!(puller.log().contains("TRACE"), "it logs all that it can");
        all_bytes(puller.volume(), &mut everything);
        for secret in secrets {
            let there = everything
                .windows(secret.len())
                .position(|window| window == secret.as_bytes());
            let around = there.map(|at| {
                let around = &everything[at.saturating_sub(200)..everything.len().min(at + 200)];
                String::from_utf8_lossy(around).into_owned()
            });
            assert_eq!(around, None, "{secret} was found");
        }
    }
}
