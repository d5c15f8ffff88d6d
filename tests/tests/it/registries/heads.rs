//! HEAD that does not answer: GET decides.

use puller_tests::{
    puller::{Puller, Reason},
    scripted::{Answer, Any, Behaviour, Cut, Get, Head, Lie, ScriptedRegistry, Without},
};

use super::{first_error, pull_at_once, small};

#[tokio::test]
async fn r05_head_refused_get_answers() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let failures: [(&str, Behaviour); 16] = [
        ("400", Answer::status(400)),
        ("401", Answer::status(401)),
        ("403", Answer::status(403)),
        ("404", Answer::status(404)),
        ("405", Answer::status(405)),
        ("406", Answer::status(406)),
        ("410", Answer::status(410)),
        ("500", Answer::status(500)),
        ("501", Answer::status(501)),
        ("503", Answer::status(503)),
        ("redirect", Answer::status(302)),
        ("reset", Cut::reset()),
        ("empty", Without::digest_header()),
        ("nonsense", Lie::digest_header("sha256:nonsense")),
        ("blank", Lie::digest_header("")),
        ("upper", Lie::digest_header(&format!("sha256:{}", "A".repeat(64)))),
    ];
    for (name, failure) in failures {
        let repository = format!("head/{name}");
        registry.on(Head::manifests().of(&repository)).then(failure);
        let image = small(name);
        let unpacked = pull_at_once(&puller, &registry, &format!("{repository}:v1"), &image).await;
        assert_eq!(
            unpacked.resolution.expect("a resolution").digest,
            image.digest(),
            "{name}"
        );
        assert_eq!(registry.count(Get::manifest("v1").of(&repository)), 1, "{name}");
    }
}

/// The digest that HEAD tells is well-formed but nobody's: what GET gives is hashed instead.
#[tokio::test]
async fn r05_r01_head_tells_a_digest_that_nobody_has() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    registry
        .on(Head::manifests())
        .then(Lie::digest_header(&format!("sha256:{}", "a".repeat(64))));
    let image = small("lie");
    let unpacked = pull_at_once(&puller, &registry, "head/lie:v1", &image).await;
    assert_eq!(unpacked.resolution.expect("a resolution").digest, image.digest());
}

#[tokio::test]
async fn r05_where_get_fails_too_its_words_are_told() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (status, reason) in [
        (403, Reason::Forbidden),
        (404, Reason::NotFound),
        (500, Reason::RegistryError),
    ] {
        let repository = format!("both/fail{status}");
        registry
            .on(Any::manifests().of(&repository))
            .then(Answer::status(status))
            .and(Lie::body(
                r#"{"errors":[{"code":"DENIED","message":"the project is asleep"}]}"#,
            ));
        let name = format!("{repository}:v1");
        let (found, message) = first_error(&puller, &registry, &name, &small("both")).await;
        assert_eq!(found, reason, "{message}");
        assert!(message.contains("DENIED: the project is asleep"), "{message}");
        assert!(
            message.contains(&status.to_string()) && message.contains("GET"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn r26_all_four_types_are_accepted_alike_by_head_and_get() {
    let registry = ScriptedRegistry::start().await;
    registry.on(Head::manifests()).then(Without::digest_header());
    let puller = Puller::start().await;
    pull_at_once(&puller, &registry, "accept/app:v1", &small("accept")).await;
    let accepted = |request: &puller_tests::scripted::Request| -> Vec<String> {
        let fields = request.headers.get_all("accept").iter();
        fields
            .map(|field| field.to_str().expect("text").to_owned())
            .collect()
    };
    let requests = registry.requests_for(Any::manifests());
    assert_eq!(requests.len(), 3, "HEAD and GET by tag, GET by digest");
    for request in &requests {
        let fields = accepted(request);
        let alone = &fields[1..];
        for wanted in [
            "application/vnd.oci.image.index.v1+json",
            "application/vnd.oci.image.manifest.v1+json",
            "application/vnd.docker.distribution.manifest.list.v2+json",
            "application/vnd.docker.distribution.manifest.v2+json",
        ] {
            assert!(
                fields[0].split(", ").any(|found| found == wanted),
                "for who looks at the first field only: {fields:?}"
            );
            assert!(
                alone.iter().any(|found| found == wanted),
                "for who does not part fields: {fields:?}"
            );
        }
        assert_eq!(fields, accepted(&requests[0]));
    }
}
