//! Token servers' answers, and what is made of one token (R09, R15).

use std::time::Duration;

use puller_tests::{
    puller::{Puller, Reason},
    scripted::{Answer, Any, Auth, Cut, Get, Lie, ScriptedRegistry, Throttle},
};

use super::{first_error, guard, image, plain_challenge, pull_at_once, small};

#[tokio::test]
async fn r09_tokens_of_every_shape_are_understood() {
    let puller = Puller::start().await;
    for (at, body) in [
        r#"{"token":"good"}"#,
        r#"{"access_token":"good"}"#,
        r#"{"token":"good","access_token":"bad"}"#,
        r#"{"token":"","access_token":"good","expires_in":300}"#,
        r#"{"token":null,"access_token":"good","expires_in":null}"#,
        r#"{"token":"good","expires_in":"300","issued_at":"2026-01-01T00:00:00.123456789Z"}"#,
        r#"{"token":"good","expires_in":-1,"issued_at":"yesterday"}"#,
        r#"{"token":"good","expires_in":1e99,"issued_at":7}"#,
        r#"  {"expires_in":3600,"refresh_token":"x","scope":"y","token_type":"Bearer","token":"good"}  "#,
    ]
    .into_iter()
    .enumerate()
    {
        let registry = ScriptedRegistry::start().await;
        guard(&registry, &plain_challenge(&registry), body);
        pull_at_once(&puller, &registry, "team/app:v1", &small(&format!("token{at}"))).await;
        assert_eq!(registry.count(Any::token()), 1, "{body}: it was kept");
    }
}

#[tokio::test]
async fn r09_answers_without_a_token_are_the_registrys_error() {
    let puller = Puller::start().await;
    for body in [
        "",
        "{}",
        "[]",
        "null",
        "<html>sign in</html>",
        r#"{"token":7}"#,
        r#"{"token":""}"#,
        r#"{"token":"a\nb"}"#,
        r#"{"token":"a"#,
    ] {
        let registry = ScriptedRegistry::start().await;
        guard(&registry, &plain_challenge(&registry), body);
        let (reason, message) = first_error(&puller, &registry, "team/app:v1", &small("none")).await;
        assert_eq!(reason, Reason::RegistryError, "{body}: {message}");
        assert!(message.contains("token"), "{body}: {message}");
    }
}

/// Without `expires_in` a token holds for 60 s, so a second pull needs no other; with it, for as long as it
/// says.
#[tokio::test]
async fn r09_a_token_is_kept_for_as_long_as_it_says() {
    let puller = Puller::start().await;
    for (told, tokens) in [("", 1), (r#","expires_in":300"#, 1), (r#","expires_in":1"#, 2)] {
        let registry = ScriptedRegistry::start().await;
        let body = format!(r#"{{"token":"good"{told}}}"#);
        guard(&registry, &plain_challenge(&registry), &body);
        pull_at_once(&puller, &registry, "team/app:v1", &small(&format!("first{told}"))).await;
        let first = registry.count(Any::token());
        tokio::time::sleep(Duration::from_millis(1200)).await;
        pull_at_once(
            &puller,
            &registry,
            "team/app:v2",
            &small(&format!("second{told}")),
        )
        .await;
        let all = registry.count(Any::token());
        assert_eq!(all - first + 1, tokens, "{told:?}");
        let refused = registry
            .requests()
            .iter()
            .filter(|request| request.status == Some(401))
            .count();
        assert_eq!(refused, 1, "a token is replaced before it is refused");
    }
}

#[tokio::test]
async fn one_token_serves_all_pulls_of_a_repository_at_once() {
    let registry = ScriptedRegistry::start().auth(Auth::anonymous_bearer()).await;
    registry.on(Get::blobs()).then(Throttle::to(1_000_000));
    let puller = Puller::start().await;
    let mut fetched = Vec::new();
    for n in 0..4 {
        let image =
            image(&format!("at-once{n}")).layer(puller_tests::image::Layer::gzip().file("n", n.to_string()));
        fetched.push(
            puller
                .fetch(&registry.hold(&format!("team/app:v{n}"), &image))
                .await,
        );
    }
    for image in fetched {
        assert_eq!(puller.unpacked(&image.id).await.attempt, 1);
    }
    assert_eq!(registry.count(Any::token()), 1);
    pull_at_once(&puller, &registry, "team/other:v1", &small("other")).await;
    assert_eq!(
        registry.count(Any::token()),
        2,
        "another repository, another token"
    );
}

/// The token ends while a layer is on its way: the next request for the rest of it gets another one, and
/// nothing fails or begins anew.
#[tokio::test]
async fn r15_a_token_that_ends_in_the_middle_of_a_layer_is_replaced_and_the_layer_goes_on() {
    let registry = ScriptedRegistry::start()
        .auth(Auth::bearer("user", "right"))
        .await;
    let image = image("middle");
    let layer = image.layers()[0].digest();
    registry
        .on(Get::blob(layer))
        .after(1)
        .times(1)
        .then(Cut::after(200_000))
        .and(Throttle::to(400_000));
    registry.on(Get::blob(layer)).times(1).then(Cut::after(100_000));
    let puller = Puller::start().await;
    let fetched = puller
        .fetch(&registry.hold("team/app:v1", &image))
        .login(&registry.host(), "user", "right")
        .await;
    registry.wait_for_number(2, Get::blob(layer)).await;
    registry.revoke_tokens();
    let unpacked = puller.unpacked(&fetched.id).await;
    assert_eq!(unpacked.attempt, 1, "{unpacked:#?}");
    let asked: Vec<_> = registry
        .requests_for(Get::blob(layer))
        .iter()
        .map(|request| (request.header("range").to_owned(), request.status))
        .collect();
    assert_eq!(
        asked,
        [
            (String::new(), Some(200)),
            ("bytes=100000-".to_owned(), Some(206)),
            ("bytes=300000-".to_owned(), Some(401)),
            ("bytes=300000-".to_owned(), Some(206)),
        ]
    );
    assert_eq!(registry.count(Any::token()), 2);
}

#[tokio::test]
async fn an_identity_token_is_posted_and_told_as_what_it_is_if_refused() {
    let registry = ScriptedRegistry::start().await;
    guard(
        &registry,
        &plain_challenge(&registry),
        r#"{"access_token":"good","expires_in":300}"#,
    );
    let puller = Puller::start().await;
    let config = |host: String| {
        let auths = serde_json::json!({ host: { "identitytoken": "re&fresh=1" } });
        serde_json::json!({ "auths": auths }).to_string()
    };
    let fetched = puller
        .fetch(&registry.hold("team/app:v1", small("identity")))
        .dockerconfigjson(&config(registry.host()))
        .await;
    puller.unpacked(&fetched.id).await;
    let tokens = registry.requests_for(Any::token());
    assert_eq!(tokens.len(), 1);
    assert_eq!(
        (tokens[0].method.as_str(), tokens[0].query.as_str()),
        ("POST", "")
    );
    assert_eq!(
        tokens[0].header("content-type"),
        "application/x-www-form-urlencoded"
    );
    assert_eq!(tokens[0].header("authorization"), "", "it is in the form only");

    for status in [400, 401, 403] {
        let registry = ScriptedRegistry::start().await;
        registry
            .on(Any::token())
            .then(Answer::status(status))
            .and(Lie::body(
                r#"{"error":"invalid_grant","error_description":"it is over"}"#,
            ));
        guard(&registry, &plain_challenge(&registry), "{}");
        let fetched = puller
            .fetch(&registry.hold("team/app:v1", small("refused")))
            .dockerconfigjson(&config(registry.host()))
            .await;
        let failed = puller.retrying(&fetched.id).await;
        let error = failed.last_error.expect("an error");
        assert_eq!(error.reason(), Reason::Unauthorized, "{}", error.message);
        assert!(!error.message.contains("fresh=1"), "{}", error.message);
        assert_eq!(registry.requests_for(Any::token())[0].method.as_str(), "POST");
    }
}
