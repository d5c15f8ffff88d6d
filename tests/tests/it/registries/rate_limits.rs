//! Registries that ask for a pause (R16).

use std::time::{Duration, SystemTime};

use axum::http::{HeaderValue, header::RETRY_AFTER};
use puller_tests::{
    puller::{Image, Puller, Reason},
    scripted::{Answer, Any, Behaviour, Get, ScriptedRegistry},
};

use super::{pull_at_once, small};

/// The longest pause that is kept.
const LONGEST: f64 = 3600.0;

/// How much longer than asked a first pause may be: one step of the back-off, and rounding.
const SLACK: f64 = 2.0;

/// From the failure to the next try.
fn pause(image: &Image) -> f64 {
    let error = image.last_error.as_ref().expect("an error");
    let failed = SystemTime::try_from(error.time.expect("a time")).expect("a time");
    let next = SystemTime::try_from(image.next_retry.expect("a next retry")).expect("a time");
    next.duration_since(failed).unwrap_or_default().as_secs_f64()
}

#[tokio::test]
async fn r16_pauses_are_kept_whatever_their_form() {
    let puller = Puller::start().await;
    let at = |seconds: i64| {
        let time = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let form = |form: &str| time.to_zoned(jiff::tz::TimeZone::UTC).strftime(form).to_string();
        [
            form("%a, %d %b %Y %H:%M:%S GMT"),
            form("%A, %d-%b-%y %H:%M:%S GMT"),
            form("%a %b %e %H:%M:%S %Y"),
        ]
    };
    let mut cases: Vec<(Option<String>, f64)> = [
        ("100", 100.0),
        ("0", 0.0),
        ("985.86us", 0.0),
        ("985.86\u{b5}s", 0.0),
        ("1m40s", 100.0),
        ("100.5", 100.5),
        ("-5", 0.0),
        ("99999999999999999999999999", LONGEST),
        ("604800", LONGEST),
        ("soon", 0.0),
        ("", 0.0),
        ("1e9", 0.0),
        ("100, 200", 0.0),
    ]
    .map(|(text, pause)| (Some(text.to_owned()), pause))
    .into();
    cases.push((None, 0.0));
    cases.extend(at(100).map(|date| (Some(date), 100.0)));
    cases.extend(at(-100).map(|date| (Some(date), 0.0)));
    cases.extend(at(10 * 86_400).map(|date| (Some(date), LONGEST)));
    for (text, wanted) in cases {
        for status in [429, 502, 503] {
            let registry = ScriptedRegistry::start().await;
            let mut behaviours = vec![Answer::status(status)];
            behaviours.extend(text.as_deref().map(retry_after));
            registry.on(Any::manifests()).then(behaviours);
            let fetched = puller.fetch(&registry.hold("team/app:v1", small("pause"))).await;
            let image = puller
                .wait_for(&fetched.id, "a next retry", |image| image.next_retry.is_some())
                .await;
            let reason = match status {
                429 => Reason::RateLimited,
                _ => Reason::RegistryError,
            };
            assert_eq!(
                image.last_error.as_ref().expect("an error").reason(),
                reason,
                "{text:?}"
            );
            let found = pause(&image);
            assert!(
                (wanted - SLACK..=wanted + SLACK).contains(&found),
                "{status} {text:?}: {found} s, not {wanted}"
            );
        }
    }
}

/// Like [`Answer::header`], but for bytes beyond ASCII too.
fn retry_after(text: &str) -> Behaviour {
    let value = HeaderValue::from_bytes(text.as_bytes()).expect("a header's value");
    Behaviour::Header(RETRY_AFTER, value)
}

/// All that the registry is asked for waits for the end of the pause, whoever asks; other registries are
/// asked meanwhile.
#[tokio::test]
async fn r16_a_pause_holds_for_its_registry_and_no_other() {
    let (busy, free) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let puller = Puller::start().await;
    let image = small("busy");
    let layer = image.layers()[0].digest();
    busy.on(Get::blob(layer)).times(1).then(Answer::retry_after("10"));
    let fetched = puller.fetch(&busy.hold("team/app:v1", &image)).await;
    let limited = busy.wait_for(Get::blob(layer)).await;
    let failed = puller
        .wait_for(&fetched.id, "an error", |image| image.last_error.is_some())
        .await;
    assert_eq!(failed.last_error.expect("an error").reason(), Reason::RateLimited);
    let others = ["a", "b", "c"].map(|name| busy.hold(&format!("other/{name}:v1"), small(name)));
    let mut waiting = Vec::new();
    for other in &others {
        waiting.push(puller.fetch(other).await);
    }
    pull_at_once(&puller, &free, "team/app:v1", &small("free")).await;
    assert!(
        limited.time.elapsed() < Duration::from_secs(9),
        "the other registry waited"
    );
    for image in waiting {
        assert_eq!(
            puller.unpacked(&image.id).await.attempt,
            1,
            "waiting is no failure"
        );
    }
    puller.unpacked(&fetched.id).await;
    let next = busy
        .requests()
        .into_iter()
        .map(|request| request.time)
        .filter(|time| *time > limited.time)
        .min()
        .expect("a request");
    let pause = next - limited.time;
    assert!(pause >= Duration::from_millis(2900), "asked after {pause:?}");
}
