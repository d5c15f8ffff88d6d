//! Challenges, tokens and whose credentials.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::*;
use crate::registry::coding::{Coding, tests::encoded};

pub(super) const BLOB: &[u8] = b"blob";

pub(super) fn digest() -> Digest {
    Digest::sha256(BLOB)
}

fn challenge(seen: &Seen) -> String {
    let host = seen.header(header::HOST);
    format!(
        r#"Basic realm="x", Bearer realm="http://{host}/token?own=1",service="reg",scope="repository:user/image:pull""#
    )
}

/// A registry with a token server beside it: `token` gives the answer to a request for the n-th token,
/// and `accept` says which `Authorization` the registry takes.
async fn registry(
    token: impl Fn(&Seen, u32) -> Response + Send + Sync + 'static,
    accept: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> Server {
    let tokens = AtomicU32::new(0);
    Server::answering(move |seen| {
        if seen.path == "/token" {
            return token(seen, tokens.fetch_add(1, Relaxed) + 1);
        }
        if accept(seen.authorization()) {
            return with_headers(200, &[], BLOB);
        }
        let words = r#"{"errors":[{"code":"UNAUTHORIZED","message":"not like that"}]}"#;
        with_headers(401, &[("WWW-Authenticate", &challenge(seen))], words)
    })
    .await
}

pub(super) fn numbered(_: &Seen, n: u32) -> Response {
    with_headers(200, &[], format!(r#"{{"token":"t{n}","expires_in":300}}"#))
}

/// A proxy may encode what a token server says.
#[tokio::test]
async fn an_encoded_token_is_decoded() {
    let server = registry(
        |_, _| {
            let token = encoded(Coding::Zstd, br#"{"token":"t1"}"#);
            with_headers(200, &[("Content-Encoding", "zstd")], token)
        },
        |authorization| authorization == "Bearer t1",
    )
    .await;
    let found = transport().small_blob(&server.repository(), &digest(), 4).await;
    assert_eq!(found.unwrap(), BLOB);
    assert_eq!(
        tokens_asked(&server)[0].header(header::ACCEPT_ENCODING),
        "identity"
    );
}

fn tokens_asked(server: &Server) -> Vec<Seen> {
    server
        .seen()
        .into_iter()
        .filter(|seen| seen.path == "/token")
        .collect()
}

/// R10.
#[tokio::test]
async fn many_requests_fetch_one_token_for_the_repositorys_own_scope() {
    let server = registry(numbered, |authorization| authorization == "Bearer t1").await;
    let (transport, repository, digest) = (transport(), server.repository(), digest());
    let all = (0..8).map(|_| transport.blob(&repository, &digest, 4, 0));
    for stream in futures_util::future::join_all(all).await {
        assert_eq!(read(stream.unwrap()).await.unwrap(), BLOB);
    }
    let tokens = tokens_asked(&server);
    assert_eq!(tokens.len(), 1);
    assert_eq!(
        tokens[0].query,
        "own=1&service=reg&scope=repository%3Ateam%2Fapp%3Apull"
    );
    assert_eq!(
        tokens[0].authorization(),
        "",
        "without credentials it is asked anonymously"
    );
    let before = server.seen().len();
    transport.blob(&repository, &digest, 4, 0).await.unwrap();
    assert_eq!(
        server.seen().len(),
        before + 1,
        "the token is sent without being asked"
    );
}

#[tokio::test]
async fn another_repository_gets_another_token() {
    let server = registry(numbered, |authorization| !authorization.is_empty()).await;
    let transport = transport();
    let other = Repository {
        path: "other".into(),
        ..server.repository()
    };
    transport
        .blob(&server.repository(), &digest(), 4, 0)
        .await
        .unwrap();
    transport.blob(&other, &digest(), 4, 0).await.unwrap();
    assert_eq!(tokens_asked(&server).len(), 2);
    assert!(
        tokens_asked(&server)[1]
            .query
            .ends_with("scope=repository%3Aother%3Apull")
    );
}

/// R15.
#[tokio::test]
async fn a_token_that_is_refused_later_is_renewed_once() {
    let revoked = Arc::new(Mutex::new(vec![""]));
    let bad = Arc::clone(&revoked);
    let server = registry(numbered, move |authorization| {
        !bad.lock().unwrap().contains(&authorization)
    })
    .await;
    let (transport, repository) = (transport(), server.repository());
    transport.blob(&repository, &digest(), 4, 0).await.unwrap();
    revoked.lock().unwrap().push("Bearer t1");
    transport.blob(&repository, &digest(), 4, 0).await.unwrap();
    assert_eq!(tokens_asked(&server).len(), 2);
    revoked
        .lock()
        .unwrap()
        .extend(["Bearer t2", "Bearer t3", "Bearer t4"]);
    let fault = transport.blob(&repository, &digest(), 4, 0).await.unwrap_err();
    assert_eq!(fault.reason, Reason::Unauthorized);
    assert!(fault.happened.contains("UNAUTHORIZED: not like that"), "{fault}");
    // One renewal, and one for the scope that the challenge names.
    assert_eq!(tokens_asked(&server).len(), 4);
}

#[tokio::test]
async fn a_token_that_has_expired_is_renewed_before_the_request() {
    let short =
        |_: &Seen, n| with_headers(200, &[], format!(r#"{{"access_token":"t{n}","expires_in":0.2}}"#));
    let server = registry(short, |authorization| !authorization.is_empty()).await;
    let (transport, repository) = (transport(), server.repository());
    transport.blob(&repository, &digest(), 4, 0).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    transport.blob(&repository, &digest(), 4, 0).await.unwrap();
    let blobs: Vec<_> = server
        .seen()
        .iter()
        .filter(|s| s.path != "/token")
        .map(|s| s.authorization().to_owned())
        .collect();
    assert_eq!(blobs, ["", "Bearer t1", "Bearer t2"]);
}

/// R12.
#[tokio::test]
async fn an_insufficient_scope_is_widened_once() {
    for (enough, status) in [(true, 401), (false, 401), (true, 403), (false, 403)] {
        let server = Server::answering(move |seen| {
            if seen.path == "/token" {
                let wide = seen.query.contains("scope=repository%3Amapped%2Fapp%3Apull");
                return with_headers(200, &[], format!(r#"{{"token":"{}"}}"#, if wide { "wide" } else { "narrow" }));
            }
            match seen.authorization() {
                "Bearer wide" if enough => with_headers(200, &[], BLOB),
                _ => {
                    let host = seen.header(header::HOST);
                    let challenge = format!(
                        r#"Bearer realm="http://{host}/token",scope="repository:mapped/app:pull",error="insufficient_scope""#
                    );
                    let status = if seen.authorization().is_empty() { 401 } else { status };
                    with_headers(status, &[("WWW-Authenticate", &challenge)], "")
                }
            }
        })
        .await;
        let result = transport().blob(&server.repository(), &digest(), 4, 0).await;
        assert_eq!(result.is_ok(), enough);
        assert_eq!(tokens_asked(&server).len(), 2);
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_at_once() {
    let server = registry(
        |seen, _| {
            assert_eq!(seen.authorization(), "Basic dXNlcjpodW50ZXIy");
            with_headers(401, &[], r#"{"details":"incorrect username or password"}"#)
        },
        |_| false,
    )
    .await;
    let transport = transport_with(&server.name(), "user", "hunter2");
    let fault = transport
        .resolve(&as_team(server.repository()), "v1")
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Unauthorized);
    assert!(
        fault.happened.contains("incorrect username or password"),
        "{fault}"
    );
    assert!(
        fault.remedy.contains("check the user name (user) and password"),
        "{fault}"
    );
    assert!(fault.remedy.contains("scope \"team\""), "{fault}");
    assert!(!fault.to_string().contains("hunter2"));
    assert_eq!(server.seen().len(), 2, "one request, one token, no anonymous try");
}

#[tokio::test]
async fn a_failing_token_server_is_told_as_what_it_is_and_to_all_who_wait() {
    let server = registry(|_, _| with_headers(503, &[("Retry-After", "7")], ""), |_| false).await;
    let fault = transport().resolve(&server.repository(), "v1").await.unwrap_err();
    assert_eq!(
        (fault.reason, fault.retry_after),
        (Reason::RegistryError, Some(Duration::from_secs(7)))
    );

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::on(listener, |seen| {
        Box::pin(async move {
            if seen.path == "/token" {
                tokio::time::sleep(Duration::from_millis(200)).await;
                return status(404);
            }
            with_headers(401, &[("WWW-Authenticate", &challenge(&seen))], "")
        })
    });
    let (transport, repository, digest) = (transport(), server.repository(), digest());
    let all = (0..8).map(|_| transport.blob(&repository, &digest, 4, 0));
    for result in futures_util::future::join_all(all).await {
        assert_eq!(result.unwrap_err().reason, Reason::RegistryError);
    }
    assert!(tokens_asked(&server).len() <= 2, "each did not ask by itself");
}

#[tokio::test]
async fn candidates_are_tried_in_order_and_the_good_one_is_remembered() {
    let server = registry(
        |seen, n| match seen.authorization() {
            "Basic Z29vZDpw" => numbered(seen, n),
            _ => status(401),
        },
        |authorization| authorization.starts_with("Bearer t"),
    )
    .await;
    let name = server.name();
    let keyring = Keyring::new([]);
    let config = serde_json::json!({"auths": {
        format!("{name}/team"): {"username": "bad", "password": "p"},
        &name: {"username": "good", "password": "p"},
    }});
    keyring.set(&team(), config.to_string().as_bytes()).unwrap();
    let transport = Transport::new(&settings(), Arc::new(keyring)).unwrap();
    for _ in 0..2 {
        transport
            .blob(&as_team(server.repository()), &digest(), 4, 0)
            .await
            .unwrap();
    }
    let order: Vec<_> = tokens_asked(&server)
        .iter()
        .map(|seen| seen.authorization().to_owned())
        .collect();
    assert_eq!(order, ["Basic YmFkOnA=", "Basic Z29vZDpw"]);
}

#[tokio::test]
async fn a_403_is_tried_with_the_next_candidate() {
    let server = Server::answering(|seen| match seen.authorization() {
        "" => with_headers(401, &[("WWW-Authenticate", "Basic")], ""),
        "Basic Z29vZDpw" => with_headers(200, &[], BLOB),
        _ => status(403),
    })
    .await;
    let name = server.name();
    let keyring = Arc::new(Keyring::new([]));
    let bad = serde_json::json!({"auths": {format!("{name}/team"): {"username": "bad", "password": "p"}}});
    keyring.set(&team(), bad.to_string().as_bytes()).unwrap();
    let transport = Transport::new(&settings(), Arc::clone(&keyring)).unwrap();
    let repository = as_team(server.repository());
    let fault = transport.blob(&repository, &digest(), 4, 0).await.unwrap_err();
    assert_eq!(fault.reason, Reason::Forbidden);
    let both = serde_json::json!({"auths": {
        format!("{name}/team"): {"username": "bad", "password": "p"},
        &name: {"username": "good", "password": "p"},
    }});
    keyring.set(&team(), both.to_string().as_bytes()).unwrap();
    transport.blob(&repository, &digest(), 4, 0).await.unwrap();
}

#[tokio::test]
async fn new_values_of_a_scope_are_used_at_once_and_old_tokens_no_more() {
    let server = registry(numbered, |authorization| authorization.starts_with("Bearer")).await;
    let keyring = Arc::new(Keyring::new([]));
    let set = |password: &str| {
        let config = serde_json::json!({"auths": {server.name(): {"username": "u", "password": password}}});
        keyring.set(&team(), config.to_string().as_bytes()).unwrap()
    };
    let transport = Transport::new(&settings(), Arc::clone(&keyring)).unwrap();
    let repository = as_team(server.repository());
    let fault = transport.blob(&repository, &digest(), 4, 0).await.unwrap_err();
    assert_eq!(fault.reason, Reason::Unauthorized);
    assert!(fault.to_string().contains("waits for a Fetch"), "{fault}");
    assert!(server.seen().is_empty(), "a scope without its values asks nobody");
    for password in ["one", "two"] {
        assert!(set(password));
        transport.blob(&repository, &digest(), 4, 0).await.unwrap();
    }
    assert_eq!(tokens_asked(&server).len(), 2);
    assert_ne!(
        tokens_asked(&server)[0].authorization(),
        tokens_asked(&server)[1].authorization()
    );
}

#[tokio::test]
async fn an_identity_token_is_granted_an_access_token() {
    let server = registry(
        |seen, _| {
            assert_eq!(seen.method, "POST");
            assert_eq!(
                seen.body,
                "grant_type=refresh_token&client_id=puller&refresh_token=re%26fresh&scope=repository%3Ateam%2Fapp%3Apull&service=reg"
            );
            with_headers(200, &[], r#"{"access_token":"granted"}"#)
        },
        |authorization| authorization == "Bearer granted",
    )
    .await;
    let transport = transport_with(&server.name(), "<token>", "re&fresh");
    transport
        .blob(&as_team(server.repository()), &digest(), 4, 0)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_registry_token_is_sent_as_it_is() {
    let server = registry(
        |_, _| status(500),
        |authorization| authorization == "Bearer direct",
    )
    .await;
    let keyring = Keyring::new([]);
    let config = serde_json::json!({"auths": {server.name(): {"registrytoken": "direct"}}});
    keyring.set(&team(), config.to_string().as_bytes()).unwrap();
    let transport = Transport::new(&settings(), Arc::new(keyring)).unwrap();
    transport
        .blob(&as_team(server.repository()), &digest(), 4, 0)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_challenge_that_nobody_can_meet_is_told() {
    for (challenge, words) in [
        ("Negotiate", "asking for negotiate"),
        ("Bearer service=x", "a token server that is no URL"),
        (
            r#"Bearer realm="file:///x", Basic realm=y"#,
            "a token server by file",
        ),
        ("Basic realm=x", "asks for a user name and a password"),
    ] {
        let server =
            Server::answering(move |_| with_headers(401, &[("WWW-Authenticate", challenge)], "")).await;
        let fault = transport().resolve(&server.repository(), "v1").await.unwrap_err();
        assert_eq!(fault.reason, Reason::Unauthorized);
        assert!(fault.to_string().contains(words), "{challenge}: {fault}");
    }
}

/// R28.
#[tokio::test]
async fn an_endless_token_is_not_read() {
    let server = registry(
        |_, _| {
            Body::from_stream(futures_util::stream::repeat_with(|| {
                Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 65536]))
            }))
            .into_response()
        },
        |_| false,
    )
    .await;
    let fault = transport().resolve(&server.repository(), "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::RegistryError);
}

#[tokio::test]
async fn a_token_server_elsewhere_is_not_quoted() {
    let elsewhere = Server::answering(|_| with_headers(401, &[], "internal words")).await;
    // Another host name for loopback: the same address is not the same host.
    let realm = format!(
        "Bearer realm=\"http://localhost:{}/token\"",
        elsewhere.address.port()
    );
    let server = Server::answering(move |_| with_headers(401, &[("WWW-Authenticate", &realm)], "")).await;
    let fault = transport().resolve(&server.repository(), "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::Unauthorized);
    assert!(!fault.to_string().contains("internal words"), "{fault}");
    assert!(fault.happened.contains("the token server localhost"), "{fault}");
}

/// Some token servers answer 200 whatever they have to say; of the rest of the answer nothing is told.
#[tokio::test]
async fn the_words_of_an_answer_without_a_token_are_told() {
    for (body, words) in [
        (
            r#"{"errors":[{"code":"DENIED","message":"no such account"}]}"#,
            "holds no token: DENIED: no such account",
        ),
        (
            r#"{"error":"invalid_request","error_description":"it is over"}"#,
            "holds no token: it is over",
        ),
        (r#"{"refresh_token":"hunter2"}"#, "holds no token"),
        (r#"["hunter2"]"#, "holds no token"),
        ("hunter2", "holds no token"),
        (r#"{"token":null,"access_token":["hunter2"]}"#, "holds no token"),
        ("", "holds no token"),
    ] {
        let server = registry(move |_, _| with_headers(200, &[], body), |_| false).await;
        let found = transport().small_blob(&server.repository(), &digest(), 4).await;
        let fault = found.unwrap_err();
        assert_eq!(fault.reason, Reason::RegistryError);
        assert!(fault.happened.ends_with(words), "{fault}");
        assert!(!fault.to_string().contains("hunter2"), "{fault}");
    }
}
