//! Mirrors of registries.conf: who is asked, in which order, with what, and what is said of it (R21, R22,
//! R23).

use std::{path::PathBuf, time::Duration};

use puller_tests::{
    certificates::Authority,
    image::{Image, Layer},
    puller::{Phase, Puller, Reason, Starting},
    scripted::{Answer, Any, Auth, Behaviour, Blackhole, Cut, Get, Lie, ScriptedRegistry, Stall},
    tree::Tree,
};
use tempfile::TempDir;
use tokio::time::Instant;

fn image() -> Image {
    Image::new().layer(Layer::gzip().noise(10, 50_000))
}

/// A registries.conf of one's own.
struct Conf {
    directory: TempDir,
}

impl Conf {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("registries.conf"), text).expect("a file");
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("registries.conf")
    }

    fn puller(&self) -> Starting {
        Puller::start().flag("--registries-conf", self.path().display().to_string())
    }
}

/// An entry with one mirror.
fn mirrored(prefix: &str, mirror: &str) -> String {
    format!(
        "[[registry]]\nprefix = \"{prefix}\"\nlocation = \"{prefix}\"\n[[registry.mirror]]\nlocation = \"{mirror}\"\n"
    )
}

#[tokio::test]
async fn a_mirror_that_has_it_is_asked_alone_and_under_its_own_path() {
    let (registry, mirror) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let image = image();
    mirror.hold("cache/hub/app:v1", &image);
    let prefix = format!("{}/team", registry.host());
    let conf = Conf::new(&mirrored(&prefix, &format!("{}/cache/hub", mirror.host())));
    let puller = conf.puller().await;
    let unpacked = puller.pull(&registry.reference("team/app:v1")).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
    assert_eq!(registry.count(Any::anything()), 0);
    // A name that only begins alike is another one's.
    registry.hold("teams/app:v1", &image);
    puller.pull(&registry.reference("teams/app:v1")).await;
    assert!(registry.count(Get::manifests()) > 0);
}

#[tokio::test]
async fn r21_r22_whatever_a_mirror_does_the_registry_is_asked_within_the_same_attempt() {
    let failures: Vec<(&str, Vec<Behaviour>)> = vec![
        ("server error", vec![Answer::status(500)]),
        ("unauthorized", vec![Answer::status(401)]),
        ("forbidden", vec![Answer::status(403)]),
        ("not found", vec![Answer::status(404)]),
        ("rate limited", Answer::retry_after("3600").into()),
        ("reset", vec![Cut::reset()]),
        ("page", Lie::html().into()),
        ("garbage", vec![Lie::body("{}")]),
        ("teapot", vec![Answer::status(418)]),
    ];
    let registry = ScriptedRegistry::start().await;
    let mut text = String::new();
    let mut mirrors = Vec::new();
    for (at, (_, failure)) in failures.iter().enumerate() {
        let mirror = ScriptedRegistry::start().await;
        mirror.on(Any::anything()).then(failure.clone());
        text.push_str(&mirrored(
            &format!("{}/case{at}", registry.host()),
            &mirror.host(),
        ));
        mirrors.push(mirror);
    }
    let conf = Conf::new(&text);
    let puller = conf.puller().await;
    for (at, ((name, _), mirror)) in failures.iter().zip(&mirrors).enumerate() {
        let image = Image::new().layer(Layer::gzip().file("case", name).noise(2, 50_000));
        let unpacked = puller
            .pull(&registry.hold(&format!("case{at}/app:v1"), &image))
            .await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
        assert_eq!(unpacked.attempt, 1, "{name}");
        assert!(
            mirror.count(Any::anything()) > 0,
            "{name}: the mirror was not asked"
        );
    }
}

#[tokio::test]
async fn r22_blobs_that_are_not_what_was_asked_for_come_from_elsewhere() {
    let small = |n: usize| Image::new().layer(Layer::gzip().file("n", n.to_string()));
    // Small ones may be here and verified before their unpack has told what it thinks of the wrong bytes.
    for image in (0..8).map(small).chain([image()]) {
        let (registry, mirror) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
        mirror.hold("app:v1", &image);
        let reference = registry.hold("team/app:v1", &image);
        let layer = image.layers()[0].digest();
        mirror.on(Get::blob(layer)).then(Lie::corrupt(1000));
        let conf = Conf::new(&mirrored(&format!("{}/team", registry.host()), &mirror.host()));
        let puller = conf.puller().await;
        let unpacked = puller.pull(&reference).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
        assert_eq!(unpacked.attempt, 1);
        assert_eq!(mirror.count(Get::blob(layer)), 1, "the liar is left alone");
        assert_eq!(registry.count(Get::blob(layer)), 1);
    }
}

#[tokio::test]
async fn r21_a_mirror_that_stops_in_the_middle_is_left_and_its_bytes_are_kept() {
    for failure in [Cut::after(200_000), Stall::after(200_000)] {
        let (registry, mirror) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
        let image = image();
        mirror.hold("app:v1", &image);
        let reference = registry.hold("team/app:v1", &image);
        let layer = image.layers()[0].digest();
        mirror.on(Get::blob(layer)).times(1).then(failure);
        // Whoever comes back to it gets nothing.
        mirror.on(Get::blob(layer)).then(Cut::reset());
        let conf = Conf::new(&mirrored(&format!("{}/team", registry.host()), &mirror.host()));
        let puller = conf.puller().await;
        let unpacked = puller.pull(&reference).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
        assert_eq!(unpacked.attempt, 1);
        let asked = registry.requests_for(Get::blob(layer));
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].header("range"), "bytes=200000-");
    }
}

#[tokio::test]
async fn r21_a_mirror_that_hangs_costs_its_patience_once() {
    let registry = ScriptedRegistry::start().await;
    let hole = Blackhole::start().await;
    let conf = Conf::new(&mirrored(&registry.host(), &hole.host()));
    let puller = conf.puller().await;
    let first = puller.pull(&registry.hold("team/app:v1", image())).await;
    assert_eq!(first.attempt, 1);
    let asked = Instant::now();
    let other = Image::new().layer(Layer::gzip().file("other", "x"));
    puller.pull(&registry.hold("team/other:v1", &other)).await;
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "the mirror was asked again at once"
    );
}

#[tokio::test]
async fn r21_a_mirror_gets_its_own_credentials_and_never_the_registrys() {
    let registry = ScriptedRegistry::start()
        .auth(Auth::basic("user", "secret"))
        .await;
    let open = ScriptedRegistry::start().await;
    let closed = ScriptedRegistry::start()
        .auth(Auth::basic("other", "hidden"))
        .await;
    let image = image();
    closed.hold("team/app:v1", &image);
    let reference = registry.hold("team/app:v1", &image);
    let conf = Conf::new(&format!(
        "[[registry]]\nlocation = \"{}\"\n[[registry.mirror]]\nlocation = \"{}\"\n[[registry.mirror]]\nlocation = \"{}\"\n",
        registry.host(),
        open.host(),
        closed.host(),
    ));
    let puller = conf.puller().await;
    let fetched = puller
        .fetch(&reference)
        .dockerconfigjson(&format!(
            r#"{{"auths":{{"{}":{{"username":"user","password":"secret"}},"{}":{{"username":"other","password":"hidden"}}}}}}"#,
            registry.host(),
            closed.host(),
        ))
        .await;
    puller.unpacked(&fetched.id).await;
    assert!(
        open.requests()
            .iter()
            .all(|request| request.header("authorization").is_empty())
    );
    assert!(open.count(Any::anything()) > 0);
    assert_eq!(registry.count(Any::anything()), 0, "the second mirror has it all");
    // Told to nobody but the one they are for.
    let told: Vec<_> = closed
        .requests()
        .iter()
        .map(|request| request.header("authorization").to_owned())
        .filter(|value| !value.is_empty())
        .collect();
    assert!(
        told.iter().all(|value| value == "Basic b3RoZXI6aGlkZGVu"),
        "{told:?}"
    );
}

#[tokio::test]
async fn what_a_mirror_says_is_the_reason_only_if_the_registry_says_it_too() {
    for (mirror_says, registry_says, reason) in [
        (404, 503, Reason::RegistryError),
        (401, 404, Reason::NotFound),
        (500, 404, Reason::NotFound),
        (404, 404, Reason::NotFound),
    ] {
        let (registry, mirror) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
        mirror.on(Any::anything()).then(Answer::status(mirror_says));
        registry.on(Any::anything()).then(Answer::status(registry_says));
        let conf = Conf::new(&mirrored(&registry.host(), &mirror.host()));
        let puller = conf.puller().await;
        let fetched = puller.fetch(&registry.reference("team/app:v1")).await;
        let error = puller.retrying(&fetched.id).await.last_error.expect("an error");
        assert_eq!(error.reason(), reason, "{}", error.message);
        for part in [registry.host(), mirror.host(), mirror_says.to_string()] {
            assert!(error.message.contains(&part), "no {part} in {}", error.message);
        }
    }
}

#[tokio::test]
async fn r23_mirrors_for_digests_only_are_asked_for_digests_only() {
    let (registry, mirror) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let image = image();
    mirror.hold("team/app:v1", &image);
    let reference = registry.hold("team/app:v1", &image);
    let conf = Conf::new(&format!(
        "{}pull-from-mirror = \"digest-only\"\n",
        mirrored(&registry.host(), &mirror.host())
    ));
    let puller = conf.puller().await;
    let by_tag = puller.pull(&reference).await;
    assert_eq!(mirror.count(Any::anything()), 0);
    registry.forget_requests();
    let digest = &by_tag.content.as_ref().expect("content").manifest_digest;
    // A tag beside a digest is there for people: the digest counts.
    puller.pull(&format!("{reference}@{digest}")).await;
    assert!(mirror.count(Any::anything()) > 0);
    assert_eq!(registry.count(Any::anything()), 0);
}

#[tokio::test]
async fn what_is_blocked_is_refused_without_asking_anybody_until_it_is_allowed() {
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", image());
    let conf = Conf::new(&format!(
        "[[registry]]\nprefix = \"{}/team\"\nblocked = true\n",
        registry.host()
    ));
    let puller = conf.puller().await;
    let fetched = puller.fetch(&reference).await;
    let error = puller.failed(&fetched.id).await.last_error.expect("an error");
    assert_eq!(error.reason(), Reason::BlockedByPolicy);
    assert!(error.message.contains("registries.conf"), "{}", error.message);
    assert_eq!(registry.count(Any::anything()), 0);

    // Allowed after all, it goes on by itself.
    std::fs::write(conf.path(), "").expect("a file");
    puller
        .wait_for(&fetched.id, "its content", |image| {
            image.phase() == Phase::Unpacked
        })
        .await;
}

#[tokio::test]
async fn short_names_are_taken_only_where_the_file_says_what_they_stand_for() {
    let registry = ScriptedRegistry::start().await;
    registry.hold("team/app:v1", image());
    registry.hold("nginx:1.27", image());
    let conf = Conf::new(&format!(
        "unqualified-search-registries = [\"{host}\"]\n[aliases]\napp = \"{host}/team/app\"\n",
        host = registry.host()
    ));
    let puller = conf.puller().await;
    for (asked, stands_for) in [("app:v1", "team/app:v1"), ("nginx:1.27", "nginx:1.27")] {
        let unpacked = puller.pull(asked).await;
        assert_eq!(unpacked.normalized_reference, registry.reference(stands_for));
        // Both ways to write it are one wish.
        assert_eq!(puller.pull(&registry.reference(stands_for)).await.id, unpacked.id);
    }
    let several = Conf::new("unqualified-search-registries = [\"a.example.com\", \"b.example.com\"]");
    let status = several.puller().await.fetch("nginx:1.27").refused().await;
    for part in ["wish.reference", "a.example.com/nginx", "b.example.com/nginx"] {
        assert!(status.message().contains(part), "{}", status.message());
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_keeps_the_puller_from_starting() {
    let conf = Conf::new("[[registry]]\nlocation = \"https://registry.example.com\"\n");
    let refused = conf.puller().try_start().await.expect_err("a start");
    let refused = format!("{refused:#}");
    assert!(
        refused.contains("registries.conf") && refused.contains("is a URL"),
        "{refused}"
    );
}

#[tokio::test]
async fn insecure_is_for_the_endpoint_that_says_so() {
    let authority = Authority::new();
    let registry = ScriptedRegistry::start().tls(&authority).await;
    let mirror = ScriptedRegistry::start().tls(&authority).await;
    let image = image();
    mirror.hold("app:v1", &image);
    registry.hold("team/app:v1", &image);
    let entry = mirrored(&format!("{}/team", registry.host()), &mirror.host());

    // Nobody has said that these certificates are to be trusted, of the registry's least of all.
    let conf = Conf::new(&entry);
    let strict = conf.puller().await;
    let fetched = strict.fetch(&registry.reference("team/app:v1")).await;
    let error = strict.retrying(&fetched.id).await.last_error.expect("an error");
    assert_eq!(error.reason(), Reason::Tls, "{}", error.message);

    let conf = Conf::new(&format!("{entry}insecure = true\n"));
    let puller = conf.puller().await;
    puller.pull(&registry.reference("team/app:v1")).await;
    assert_eq!(registry.count(Any::anything()), 0);
}
