//! Answers that don't say how to become known: the challenge of the API's base stands in.

use super::{
    authorisation::{BLOB, digest, numbered},
    *,
};

/// A registry that names its scheme at the API's base only, and refuses whoever does not come with `good`.
async fn speaks_at_its_base(scheme: &'static str, good: &'static str, refusal: u16) -> Server {
    Server::answering(move |seen| {
        let realm = format!(r#"{scheme} realm="http://{}/token""#, seen.header(header::HOST));
        match seen.path.as_str() {
            "/token" => numbered(seen, 1),
            "/v2/" => with_headers(401, &[("WWW-Authenticate", &realm)], ""),
            _ if seen.authorization() == good => with_headers(200, &[], BLOB),
            _ => status(refusal),
        }
    })
    .await
}

/// Docker asks the API's base first, so some say only there what they want.
#[tokio::test]
async fn a_401_without_a_challenge_is_met_by_the_one_of_the_base() {
    for (scheme, good) in [("Bearer", "Bearer t1"), ("Basic", "Basic dXNlcjpyaWdodA==")] {
        let server = speaks_at_its_base(scheme, good, 401).await;
        let base = |server: &Server| server.lines().iter().filter(|line| *line == "GET /v2/").count();
        let right = transport_with(&server.name(), "user", "right");
        let repository = as_team(server.repository());
        for _ in 0..3 {
            let found = right.small_blob(&repository, &digest(), 4).await;
            assert_eq!(found.unwrap(), BLOB, "{scheme}");
        }
        assert_eq!(base(&server), 1, "{:?}", server.lines());
        if scheme == "Basic" {
            let wrong = transport_with(&server.name(), "user", "wrong");
            let fault = wrong.resolve(&repository, "v1").await.unwrap_err();
            assert_eq!(fault.reason, Reason::Unauthorized);
            assert!(fault.remedy.contains("check that the credentials"), "{fault}");
            assert_eq!(base(&server), 2);
        }
    }
    for base in [200, 204, 401, 404, 500] {
        let server = Server::answering(move |seen| match seen.path.as_str() {
            "/v2/" => status(base),
            _ => status(401),
        })
        .await;
        let found = transport().small_blob(&server.repository(), &digest(), 4).await;
        let fault = found.unwrap_err();
        assert_eq!(fault.reason, Reason::Unauthorized);
        assert!(
            fault.happened.contains("without saying how to authenticate"),
            "{fault}"
        );
        assert_eq!(server.seen().len(), 2, "{base}");
    }
}

/// Strangers are told 403 or 404, without a word of how to become known, for what others may have.
#[tokio::test]
async fn what_is_hidden_from_strangers_is_asked_for_with_the_credentials_there_are() {
    for (refusal, scheme, good) in [
        (403, "Bearer", "Bearer t1"),
        (404, "Bearer", "Bearer t1"),
        (403, "Basic", "Basic dXNlcjpyaWdodA=="),
        (404, "Basic", "Basic dXNlcjpyaWdodA=="),
    ] {
        let server = speaks_at_its_base(scheme, good, refusal).await;
        let known = transport_with(&server.name(), "user", "right");
        let repository = as_team(server.repository());
        let found = known.small_blob(&repository, &digest(), 4).await;
        assert_eq!(found.unwrap(), BLOB, "{refusal} {scheme}");
        // Who has no credentials takes the answer as it is.
        let before = server.seen().len();
        let stranger = transport().small_blob(&server.repository(), &digest(), 4).await;
        let wanted = [Reason::Forbidden, Reason::NotFound][usize::from(refusal == 404)];
        assert_eq!(stranger.unwrap_err().reason, wanted);
        assert_eq!(server.seen().len(), before + 1);
    }
    // What is not there for anybody stays what it is, and costs one more question.
    let server = Server::answering(move |seen| match seen.path.as_str() {
        "/v2/" => status(200),
        _ => status(404),
    })
    .await;
    let known = transport_with(&server.name(), "user", "right");
    let found = known
        .small_blob(&as_team(server.repository()), &digest(), 4)
        .await;
    assert_eq!(found.unwrap_err().reason, Reason::NotFound);
    assert_eq!(server.seen().len(), 2);
}
