//! `WWW-Authenticate` as registries send it (R10 to R12).

use puller_tests::{
    puller::{Puller, Reason},
    scripted::{Answer, Any, Challenge, Lie, ScriptedRegistry},
};

use super::{first_error, guard, pull_at_once, small};

const TOKEN: &str = r#"{"token":"good","expires_in":300}"#;

/// Each set of fields leads to one token, asked for at this path and query.
#[tokio::test]
async fn r10_r11_challenges_of_every_make_are_met() {
    let own = "scope=repository%3Ateam%2Fapp%3Apull";
    for (fields, query) in [
        (
            &[r#"Bearer realm="$R",service="reg",scope="""#][..],
            format!("service=reg&{own}"),
        ),
        (
            &[r#"Bearer realm="$R",service="",scope="repository:user/image:pull""#],
            own.to_owned(),
        ),
        (&[r#"Bearer realm="$R""#], own.to_owned()),
        (
            &[r#"Bearer realm="$R?own=1&b=%20",service="reg""#],
            format!("own=1&b=%20&service=reg&{own}"),
        ),
        (
            &[r#"Bearer realm="$R?service=own",service="reg""#],
            format!("service=own&{own}"),
        ),
        (
            &[r#"Bearer service="a,b \"c\" \\ d",realm="$R""#],
            format!("service=a%2Cb+%22c%22+%5C+d&{own}"),
        ),
        (
            &[r#"Bearer realm="$R",service="reg",scope="repository:team/app:pull,push""#],
            format!("service=reg&{own}"),
        ),
        (
            &[r#"Basic realm="x, Bearer realm=\"no\"", Bearer realm="$R",service="reg""#],
            format!("service=reg&{own}"),
        ),
        (
            &[r#"Basic realm="x""#, r#"Bearer realm="$R",service="reg""#],
            format!("service=reg&{own}"),
        ),
        (
            &[r#"Bearer realm="$R",service="reg""#, r#"Basic realm="x""#],
            format!("service=reg&{own}"),
        ),
        (
            &[r#"Negotiate, NTLM TlRMTVNTUAAB==, Bearer realm="$R",service="reg""#],
            format!("service=reg&{own}"),
        ),
        (
            &[
                "Negotiate",
                "",
                "Digest qop=\"auth, auth-int\", nonce=x",
                r#"bEARER  REALM = "$R" , Service=reg"#,
            ],
            format!("service=reg&{own}"),
        ),
        (
            &[", ,Bearer realm=$R,service=reg,,"],
            format!("service=reg&{own}"),
        ),
        (
            &[r#"Basic realm="never closed"#, r#"Bearer realm="$R""#],
            own.to_owned(),
        ),
        (
            &[r#"Bearer realm="file:///etc/passwd""#, r#"Bearer realm="$R""#],
            own.to_owned(),
        ),
        (
            &[r#"Bearer realm="$R",service="reg",error="invalid_token",error_description="it, \"is\" over""#],
            format!("service=reg&{own}"),
        ),
        (
            &[r#"Bearer realm="/token",service="reg""#],
            format!("service=reg&{own}"),
        ),
    ] {
        let registry = ScriptedRegistry::start().await;
        let realm = format!("http://{}/token", registry.host());
        let fields: Vec<_> = fields.iter().map(|field| field.replace("$R", &realm)).collect();
        guard(&registry, &fields, TOKEN);
        let puller = Puller::start().await;
        pull_at_once(&puller, &registry, "team/app:v1", &small("challenge")).await;
        let tokens = registry.requests_for(Any::token());
        assert_eq!(tokens.len(), 1, "{fields:?}");
        assert_eq!(tokens[0].query, query, "{fields:?}");
        assert_eq!(tokens[0].header("authorization"), "", "{fields:?}");
    }
}

/// A token for a scope of its own is fetched once, and that is all.
#[tokio::test]
async fn r12_a_scope_that_does_not_suffice_is_widened_once() {
    for error in ["insufficient_scope", "invalid_scope"] {
        let registry = ScriptedRegistry::start().await;
        let puller = Puller::start().await;
        let challenge = format!(
            r#"Bearer realm="http://{}/token",service="reg",scope="repository:mapped/app:pull",error="{error}""#,
            registry.host()
        );
        registry
            .on(Any::token())
            .times(1)
            .then(Answer::status(200))
            .and(Lie::body(r#"{"token":"narrow"}"#));
        guard(&registry, std::slice::from_ref(&challenge), TOKEN);
        pull_at_once(&puller, &registry, "team/app:v1", &small("wide")).await;
        let tokens = registry.requests_for(Any::token());
        assert_eq!(tokens.len(), 2);
        assert!(
            tokens[1]
                .query
                .ends_with("scope=repository%3Amapped%2Fapp%3Apull")
        );

        // One that no token satisfies.
        let registry = ScriptedRegistry::start().await;
        let challenge = challenge.replace("mapped", "never");
        registry
            .on(Any::token())
            .then(Answer::status(200))
            .and(Lie::body(TOKEN));
        let own = challenge.replace(
            challenge.split('"').nth(1).expect("a realm"),
            &format!("http://{}/token", registry.host()),
        );
        registry.on(Any::anything()).then(Challenge::fields(&[own]));
        let fetched = puller.fetch(&registry.hold("team/app:v2", small("never"))).await;
        let failed = puller
            .wait_for(&fetched.id, "an error", |image| image.last_error.is_some())
            .await;
        assert_eq!(
            failed.last_error.expect("an error").reason(),
            Reason::Unauthorized
        );
        assert_eq!(failed.attempt, 1);
        assert!(registry.count(Any::token()) <= 2, "it went round");
    }
}

#[tokio::test]
async fn r11_a_challenge_that_cannot_be_met_is_told_and_no_password_is_sent() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    for (name, field, words) in [
        ("negotiate", "Negotiate", "negotiate"),
        ("file", r#"Bearer realm="file:///etc/passwd""#, "file"),
        (
            "gopher",
            r#"Bearer realm="gopher://x/", Basic realm="y""#,
            "gopher",
        ),
        ("none", "Bearer", "token server"),
        ("unclosed", r#"Bearer realm="http://x"#, "token server"),
    ] {
        let repository = format!("unmet/{name}");
        registry
            .on(Any::anything().of(&repository))
            .then(Challenge::fields(&[field.to_owned()]));
        let (reason, message) =
            first_error(&puller, &registry, &format!("{repository}:v1"), &small(name)).await;
        assert_eq!(reason, Reason::Unauthorized, "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
    }
    let sent = registry.requests().into_iter();
    assert!(
        sent.map(|request| request.header("authorization").len())
            .all(|length| length == 0)
    );
}
