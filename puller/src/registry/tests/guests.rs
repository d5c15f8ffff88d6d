//! Registries that lead to other registries.

use super::*;

const BLOB: &[u8] = br#"{"schemaVersion": 2}"#;

/// A registry that wants a token, `good`, of anybody, for the repository `real/app`.
async fn public(realm: &'static str, good: &'static str) -> Server {
    Server::answering(move |seen| {
        let host = seen.header(header::HOST);
        let challenge = format!(
            r#"Bearer realm="{}",service="real",scope="repository:real/app:pull""#,
            realm.replace("$R", &format!("http://{host}"))
        );
        match seen.path.as_str() {
            "/token" => with_headers(200, &[], r#"{"token":"guest","expires_in":300}"#),
            _ if seen.authorization() == good => with_headers(200, &[], BLOB),
            _ => with_headers(401, &[("WWW-Authenticate", &challenge)], "who are you"),
        }
    })
    .await
}

/// One that is nothing but redirects, once it knows who asks.
async fn front(to: String, wants: &'static str) -> Server {
    Server::answering(move |seen| {
        if seen.authorization() != wants {
            return with_headers(401, &[("WWW-Authenticate", r#"Basic realm="front""#)], "");
        }
        let path = seen.path.replace("/team/app/", "/real/app/");
        with_headers(307, &[("Location", &format!("http://{to}{path}"))], "")
    })
    .await
}

#[tokio::test]
async fn a_registry_that_leads_to_another_is_followed_as_anybody_would_be() {
    for (realm, wants) in [
        ("$R/token", ""),
        ("/token", ""),
        ("$R/token", "Basic dXNlcjpyaWdodA=="),
    ] {
        let other = public(realm, "Bearer guest").await;
        let front = front(other.name(), wants).await;
        let transport = transport_with(&front.name(), "user", "right");
        let repository = as_team(front.repository());
        let digest = Digest::sha256(BLOB);
        assert_eq!(transport.resolve(&repository, "v1").await.unwrap(), digest);
        transport.manifest(&repository, &digest).await.unwrap();
        let size = BLOB.len() as u64;
        let stream = transport.blob(&repository, &digest, size, 5).await.unwrap();
        assert_eq!(read(stream).await.unwrap(), BLOB);
        let tokens: Vec<_> = other
            .seen()
            .into_iter()
            .filter(|seen| seen.path == "/token")
            .collect();
        assert_eq!(tokens.len(), 1, "{:?}", other.lines());
        assert_eq!(
            tokens[0].query,
            "service=real&scope=repository%3Areal%2Fapp%3Apull"
        );
        for seen in other.seen() {
            assert!(matches!(seen.authorization(), "" | "Bearer guest"), "{seen:?}");
        }
        for seen in front.seen() {
            assert!(
                seen.authorization().is_empty() || seen.authorization() == wants,
                "{seen:?}"
            );
        }
    }
}

#[tokio::test]
async fn one_that_lets_nobody_in_is_told_and_gets_no_credentials() {
    for realm in ["$R/token", "file:///token", "", "http://169.254.169.254/token"] {
        let other = public(realm, "never").await;
        let front = front(other.name(), "Basic dXNlcjpyaWdodA==").await;
        let transport = transport_with(&front.name(), "user", "right");
        let repository = as_team(front.repository());
        let found = transport.manifest(&repository, &Digest::sha256(BLOB)).await;
        let fault = found.unwrap_err();
        assert_eq!(fault.reason, Reason::Unauthorized, "{fault}");
        assert!(
            fault.remedy.contains(&format!("leads to {}", other.name())),
            "{fault}"
        );
        assert!(!fault.to_string().contains("who are you"), "{fault}");
        for seen in other.seen() {
            assert!(matches!(seen.authorization(), "" | "Bearer guest"), "{seen:?}");
        }
        assert!(other.seen().len() <= 4, "{:?}", other.lines());
    }
}
