//! Bodies that break off, and the rest of them (R17 to R19).

use std::time::Duration;

use puller_tests::{
    image::{BuiltLayer, Image, Layer},
    puller::{Puller, Reason},
    scripted::{Answer, Behaviour, Cut, Get, Lie, Ranges, ScriptedRegistry, Stall, Throttle, Without},
    tree::Tree,
};

use super::{image, pull_at_once, small};

/// Where every first connection breaks.
const CUT: u64 = 100_000;

fn ranges(registry: &ScriptedRegistry, layer: &str) -> Vec<String> {
    let requests = registry.requests_for(Get::blob(layer));
    requests
        .iter()
        .map(|request| request.header("range").to_owned())
        .collect()
}

/// R18 as well: the first request has no `Range`.
#[tokio::test]
async fn r17_r18_a_cut_body_goes_on_at_its_offset_also_after_a_restart() {
    let registry = ScriptedRegistry::start().await;
    let image = image("restart");
    let layer = image.layers()[0].digest();
    registry.on(Get::blob(layer)).times(2).then(Cut::after(CUT));
    registry.on(Get::blob(layer)).times(1).then(Stall::after(CUT));
    let mut puller = Puller::start().await;
    let fetched = puller.fetch(&registry.hold("team/app:v1", &image)).await;
    registry.wait_for_number(3, Get::blob(layer)).await;
    puller
        .wait_for(&fetched.id, "300000 bytes", |image| {
            image
                .progress
                .as_ref()
                .is_some_and(|progress| progress.bytes_done >= 3 * CUT)
        })
        .await;
    puller.kill_and_start_again().await;
    let unpacked = puller.unpacked(&fetched.id).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
    let ranges = ranges(&registry, layer);
    assert_eq!(ranges[..3], ["", "bytes=100000-", "bytes=200000-"]);
    let last: u64 = ranges[3]
        .strip_prefix("bytes=")
        .and_then(|range| range.strip_suffix('-'))
        .and_then(|offset| offset.parse().ok())
        .unwrap_or_else(|| panic!("{ranges:?}"));
    assert!(last >= 2 * CUT, "bytes were fetched again: {ranges:?}");
}

/// Tries count only without progress: many cuts in a row are one attempt.
#[tokio::test]
async fn r17_connections_that_bring_something_are_no_failures() {
    let registry = ScriptedRegistry::start().await;
    let image = image("cuts");
    let layer = image.layers()[0].digest();
    registry.on(Get::blob(layer)).times(20).then(Cut::after(20_000));
    let puller = Puller::start().await;
    pull_at_once(&puller, &registry, "team/app:v1", &image).await;
    assert_eq!(ranges(&registry, layer)[20], "bytes=400000-");
}

/// What comes in answer to a `Range` that is not what was asked for: the blob is right all the same, and
/// within the same attempt.
#[tokio::test]
async fn r18_r19_answers_to_a_range_are_believed_only_if_they_fit() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let content_range = |value: &str| vec![Answer::header("content-range", value)];
    let refused = |status| vec![Answer::status(status)];
    let cases: Vec<(&str, Vec<Behaviour>)> = vec![
        ("ignored", vec![Ranges::ignored()]),
        (
            "ignored-chunked",
            vec![Ranges::ignored(), Without::content_length()],
        ),
        ("shifted", vec![Ranges::shifted_by(10)]),
        ("mislabelled", vec![Ranges::mislabelled_by(10)]),
        ("missing", vec![Without::header("content-range")]),
        ("total", content_range("bytes 100000-499999/500000")),
        ("from-zero", content_range("bytes 0-99999/100001")),
        ("garbage", content_range("bytes=100000-")),
        ("unit", content_range("items 100000-500000/500001")),
        ("unsatisfied", content_range("bytes */7")),
        (
            "multipart",
            vec![
                Without::header("content-range"),
                Lie::content_type("multipart/byteranges; boundary=x"),
                Lie::body("--x\r\nContent-Range: bytes 100000-100001/2\r\n\r\nab\r\n--x--"),
            ],
        ),
        (
            "multipart-range",
            vec![
                Lie::content_type("multipart/byteranges; boundary=x"),
                Lie::body("--x\r\n\r\nab\r\n--x--"),
            ],
        ),
        ("r400", refused(400)),
        ("r405", refused(405)),
        ("r412", refused(412)),
        ("r416", refused(416)),
        ("r501", refused(501)),
    ];
    for (name, behaviour) in cases {
        let image = image(name);
        let layer = image.layers()[0].digest();
        registry.on(Get::blob(layer).ranged()).then(behaviour);
        registry.on(Get::blob(layer)).times(1).then(Cut::after(CUT));
        pull_at_once(&puller, &registry, &format!("range/{name}:v1"), &image).await;
        let ranges = ranges(&registry, layer);
        assert_eq!(ranges[..2], ["", "bytes=100000-"], "{name}");
        assert!(ranges.len() <= 3, "{name}: {ranges:?}");
    }
    // A part that is shorter than what was asked for is taken, and so is the next.
    let image = image("parts");
    let layer = &image.layers()[0];
    let (bytes, total) = (layer.bytes(), layer.bytes().len());
    registry
        .on(Get::blob(layer.digest()))
        .times(1)
        .then(Cut::after(CUT));
    registry
        .on(Get::blob(layer.digest()).ranged())
        .times(1)
        .then(vec![
            Lie::body(&bytes[100_000..150_000]),
            Answer::header("content-range", &format!("bytes 100000-149999/{total}")),
        ]);
    pull_at_once(&puller, &registry, "range/parts:v1", &image).await;
    assert_eq!(
        ranges(&registry, layer.digest()),
        ["", "bytes=100000-", "bytes=150000-"]
    );
}

/// The whole in another length than the descriptor's, in each way.
#[tokio::test]
async fn r19_bodies_of_the_wrong_length_are_never_content() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let longer = |layer: &BuiltLayer| [layer.bytes(), &[0; 1000]].concat();
    let shorter = |layer: &BuiltLayer| layer.bytes()[..300_000].to_vec();
    type Body<'a> = &'a dyn Fn(&BuiltLayer) -> Vec<u8>;
    let cases: [(&str, Body<'_>, bool, bool); 5] = [
        ("longer", &longer, false, false),
        ("longer-chunked", &longer, true, false),
        ("shorter", &shorter, false, false),
        // It ends cleanly, and nothing says that it is not all: the rest is asked for.
        ("shorter-chunked", &shorter, true, true),
        ("empty", &|_| Vec::new(), false, false),
    ];
    for (name, body, chunked, goes_on) in cases {
        let image = image(name);
        let layer = &image.layers()[0];
        let mut behaviour = vec![Lie::body(body(layer))];
        behaviour.extend(chunked.then(Without::content_length));
        registry.on(Get::blob(layer.digest())).times(1).then(behaviour);
        let fetched = puller
            .fetch(&registry.hold(&format!("length/{name}:v1"), &image))
            .await;
        let unpacked = puller.unpacked(&fetched.id).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
        if goes_on {
            assert_eq!(unpacked.attempt, 1, "{name}");
            assert_eq!(ranges(&registry, layer.digest()), ["", "bytes=300000-"]);
        } else {
            assert_eq!(
                unpacked.attempts[0].reason(),
                Reason::DigestMismatch,
                "{name}: {unpacked:#?}"
            );
            assert_eq!(
                ranges(&registry, layer.digest()),
                ["", ""],
                "{name}: nothing was kept of it"
            );
        }
    }
}

/// No second goes by without a byte, but more of them go by than a standstill may last.
#[tokio::test]
async fn r17_a_trickle_that_keeps_moving_never_fails() {
    let registry = ScriptedRegistry::start().await;
    let image = Image::new().layer(Layer::plain().file("slow", "x"));
    let layer = image.layers()[0].digest();
    let rate = image.layer_bytes() / 4;
    registry.on(Get::blob(layer)).then(Throttle::to(rate));
    let puller = Puller::start().idle_timeout(Duration::from_secs(1)).await;
    pull_at_once(&puller, &registry, "slow/app:v1", &image).await;
    assert_eq!(ranges(&registry, layer), [""]);
    pull_at_once(&puller, &registry, "slow/other:v1", &small("other")).await;
}
