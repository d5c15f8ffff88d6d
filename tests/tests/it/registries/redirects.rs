//! Where redirects lead, and what goes along (R06, R07).

use puller_tests::{
    puller::{Puller, Reason},
    scripted::{Answer, Any, Auth, Cut, Get, Head, Redirect, ScriptedRegistry},
    tree::Tree,
};

use super::{first_error, image, pull_at_once, small};

#[tokio::test]
async fn r06_a_presigned_link_gets_the_range_and_no_credentials() {
    for auth in [Auth::bearer("user", "secret"), Auth::basic("user", "secret")] {
        let (registry, storage) = (
            ScriptedRegistry::start().auth(auth).await,
            ScriptedRegistry::start().await,
        );
        let image = image("presigned");
        let layer = image.layers()[0].digest();
        storage.hold("store/app:v1", &image);
        storage.on(Get::blob(layer)).times(2).then(Cut::after(100_000));
        // What S3 and Azure say to a link that has expired meanwhile.
        storage.on(Get::blob(layer)).times(1).then(Answer::status(403));
        storage.on(Head::anything()).then(Answer::status(403));
        let link = format!(
            "{}?X-Amz-Signature=hunter2&se=1",
            storage.blob_url("store/app", layer)
        );
        let authorized =
            |request: &puller_tests::scripted::Request| request.header("authorization").to_owned();
        registry.on(Get::blob(layer)).then(Redirect::to(&link));
        let puller = Puller::start().await;
        let fetched = puller
            .fetch(&registry.hold("team/app:v1", &image))
            .login(&registry.host(), "user", "secret")
            .await;
        let unpacked = puller.unpacked(&fetched.id).await;
        Tree::of(puller.content(&unpacked)).assert_same_as(&Tree::of_image(&image));
        assert_eq!(unpacked.attempt, 1, "{unpacked:#?}");
        let at_storage = storage.requests();
        assert!(
            at_storage.iter().all(|request| authorized(request).is_empty()),
            "{at_storage:?}"
        );
        let ranges: Vec<_> = at_storage
            .iter()
            .map(|request| request.header("range").to_owned())
            .collect();
        assert_eq!(ranges, ["", "bytes=100000-", "bytes=200000-", "bytes=200000-"]);
        assert!(
            at_storage
                .iter()
                .all(|request| request.query.contains("hunter2") && request.method == "GET")
        );
        let at_home = registry.requests_for(Get::blob(layer));
        assert_eq!(at_home.len(), 4, "each link is a new one");
        assert!(at_home.iter().all(|request| !authorized(request).is_empty()));
        assert!(!puller.log().contains("hunter2"), "links are secrets");
    }
}

#[tokio::test]
async fn r07_locations_of_every_form_are_resolved_against_the_request() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let storage = ScriptedRegistry::start().await;
    for at in 0..8 {
        let image = image(&format!("location{at}"));
        let layer = image.layers()[0].digest();
        registry.hold("store/app:x", &image);
        storage.hold("store/app:x", &image);
        let (here, there) = (registry.host(), storage.host());
        let location = [
            format!("/v2/store/app/blobs/{layer}"),
            format!("../../../store/app/blobs/{layer}"),
            format!("//{there}/v2/store/app/blobs/{layer}"),
            format!("\\\\{there}\\v2\\store\\app\\blobs\\{layer}"),
            format!("http://user:pass@{there}/v2/store/app/blobs/{layer}#fragment"),
            format!("HTTP://{here}/v2/store/app/blobs/{layer}?a=b"),
            format!("http://{there}/v2/./x/../store/app/blobs/{layer}"),
            format!("?again=1#{layer}"),
        ][at]
            .clone();
        let repository = format!("location/n{at}");
        registry
            .on(Get::blob(layer).of(&repository))
            .times(1)
            .then(Redirect::to(&location));
        storage.forget_requests();
        pull_at_once(&puller, &registry, &format!("{repository}:v1"), &image).await;
        for request in storage.requests() {
            assert_eq!(
                request.header("authorization"),
                "",
                "a name in a link is no credential"
            );
            assert_eq!(request.header("referer"), "");
        }
    }
}

#[tokio::test]
async fn r07_redirects_lead_nowhere_else() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (name, location, words) in [
        ("file", "file:///etc/passwd", "scheme file"),
        ("ftp", "ftp://127.0.0.1/x", "scheme ftp"),
        ("data", "data:text/plain,x", "scheme data"),
        ("script", "javascript:x", "scheme javascript"),
        ("unix", "unix:///var/run/docker.sock", "scheme unix"),
        (
            "metadata",
            "http://169.254.169.254/latest/meta-data/",
            "169.254.169.254",
        ),
        (
            "mapped",
            "http://[::ffff:169.254.169.254]/latest/",
            "never dialled",
        ),
        ("decimal", "http://2852039166/latest/", "never dialled"),
        ("port", "http://127.0.0.1:99999/", "no URL"),
        ("none", "", "redirects"),
    ] {
        for what in ["manifest", "blob"] {
            let repository = format!("nowhere/{name}-{what}");
            let image = small(&repository);
            match what {
                "manifest" => registry.on(Any::manifests().of(&repository)),
                _ => registry.on(Any::blob(image.layers()[0].digest()).of(&repository)),
            }
            .then(Redirect::to(location));
            let (reason, message) =
                first_error(&puller, &registry, &format!("{repository}:v1"), &image).await;
            assert!(
                matches!(reason, Reason::RegistryError | Reason::BlockedByPolicy),
                "{name}: {reason:?}: {message}"
            );
            assert!(message.contains(words), "{name}: {message}");
        }
    }
}

#[tokio::test]
async fn r07_ten_hops_are_followed_and_no_more() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (hops, enough) in [(10, true), (11, false)] {
        let image = small(&format!("hops{hops}"));
        let layer = image.layers()[0].digest();
        let repository = format!("hops/n{hops}");
        registry.hold(&format!("{repository}:v1"), &image);
        for hop in 1..hops {
            registry
                .on(Get::path(format!("/hop/{hops}/{hop}")))
                .then(Redirect::to(&format!("/hop/{hops}/{}", hop + 1)));
        }
        registry
            .on(Get::path(format!("/hop/{hops}/{hops}")))
            .then(Answer::status(200))
            .and(puller_tests::scripted::Lie::body(image.layers()[0].bytes()));
        registry
            .on(Get::blob(layer).of(&repository))
            .then(Redirect::to(&format!("/hop/{hops}/1")));
        if enough {
            pull_at_once(&puller, &registry, &format!("{repository}:v1"), &image).await;
        } else {
            let (reason, message) =
                first_error(&puller, &registry, &format!("{repository}:v1"), &image).await;
            assert_eq!(reason, Reason::RegistryError, "{message}");
            assert!(message.contains("more than 10 redirects"), "{message}");
        }
    }
}
