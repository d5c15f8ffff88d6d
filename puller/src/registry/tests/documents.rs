//! Tags, manifests and small blobs.

use super::*;

const MANIFEST: &[u8] = br#"{"schemaVersion":2}"#;

fn digest() -> Digest {
    Digest::sha256(MANIFEST)
}

/// R26.
#[tokio::test]
async fn a_head_with_a_digest_is_all_that_a_tag_costs() {
    let server =
        Server::answering(|_| with_headers(200, &[("Docker-Content-Digest", &digest().to_string())], ""))
            .await;
    let found = transport().resolve(&server.repository(), "v1").await;
    assert_eq!(found, Ok(digest()));
    assert_eq!(server.lines(), ["HEAD /v2/team/app/manifests/v1"]);
    let accept = server.seen()[0].header(header::ACCEPT).to_owned();
    assert_eq!(accept.split(", ").count(), 4, "{accept}");
    assert!(!accept.contains('*'));
    assert_eq!(server.seen()[0].header(header::ACCEPT_ENCODING), "identity");
    let fields: Vec<_> = server.seen()[0]
        .headers
        .get_all(header::ACCEPT)
        .iter()
        .cloned()
        .collect();
    assert_eq!(fields.len(), 5, "one with all of them, and one for each");
    assert_eq!(
        fields[1..]
            .iter()
            .map(|field| field.to_str().unwrap())
            .collect::<Vec<_>>()
            .join(", "),
        accept
    );
}

/// R05. The 401 has no challenge; one that has is answered.
#[tokio::test]
async fn whatever_else_head_answers_get_decides() {
    for head in [
        200, 204, 304, 307, 400, 401, 403, 404, 405, 406, 410, 418, 500, 501, 503,
    ] {
        let server = Server::answering(move |seen| match seen.method.as_str() {
            "HEAD" => with_headers(head, &[("Docker-Content-Digest", "sha256:nonsense")], ""),
            _ => with_headers(200, &[], MANIFEST),
        })
        .await;
        assert_eq!(
            transport().resolve(&server.repository(), "v1").await,
            Ok(digest()),
            "{head}"
        );
        let lines = ["HEAD /v2/team/app/manifests/v1", "GET /v2/team/app/manifests/v1"];
        assert_eq!(server.lines(), lines, "{head}");
        assert_eq!(
            server.seen()[0].header(header::ACCEPT),
            server.seen()[1].header(header::ACCEPT),
            "both must see the same document"
        );
    }
}

/// R05: a HEAD whose connection breaks is a HEAD that failed.
#[tokio::test]
async fn where_head_breaks_the_connection_get_decides() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = connection.read(&mut request).await.unwrap();
            if request[..length].starts_with(b"GET") {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MANIFEST.len());
                connection.write_all(head.as_bytes()).await.unwrap();
                connection.write_all(MANIFEST).await.unwrap();
            }
        }
    });
    assert_eq!(transport().resolve(&repository(&name), "v1").await, Ok(digest()));
    task.abort();
}

#[tokio::test]
async fn a_tag_that_neither_finds_is_not_found_with_the_registrys_words() {
    let server = Server::answering(|_| {
        let body = r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such \u001b tag"}]}"#;
        with_headers(404, &[], body)
    })
    .await;
    let fault = transport().resolve(&server.repository(), "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::NotFound);
    assert_eq!(
        fault.asked,
        format!("GET http://{}/v2/team/app/manifests/v1", server.name())
    );
    assert!(
        fault
            .happened
            .contains("404 Not Found: MANIFEST_UNKNOWN: no such \\u{1b} tag"),
        "{fault}"
    );
}

/// R01.
#[tokio::test]
async fn a_digest_header_on_get_must_be_the_bodys() {
    let server = Server::answering(|seen| match seen.method.as_str() {
        "HEAD" => status(405),
        _ => with_headers(
            200,
            &[("Docker-Content-Digest", &Digest::sha256(b"other").to_string())],
            MANIFEST,
        ),
    })
    .await;
    let fault = transport().resolve(&server.repository(), "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::DigestMismatch);
}

#[tokio::test]
async fn a_manifest_is_verified_by_its_digests_own_algorithm() {
    let mut digester = crate::domain::Digester::new(crate::domain::Algorithm::Sha512);
    digester.update(MANIFEST);
    let long = digester.finish();
    let server = Server::answering(|_| with_headers(200, &[("Content-Type", "text/html")], MANIFEST)).await;
    let transport = transport();
    for digest in [digest(), long] {
        let found = transport.manifest(&server.repository(), &digest).await.unwrap();
        assert_eq!(
            (&found.bytes[..], found.content_type.as_str()),
            (MANIFEST, "text/html")
        );
    }
    let other = Digest::sha256(b"other");
    let fault = transport
        .manifest(&server.repository(), &other)
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::DigestMismatch);
    assert!(
        fault.happened.contains("text/html") && fault.happened.contains("schemaVersion"),
        "{fault}"
    );
}

/// R28.
#[tokio::test]
async fn an_endless_document_is_not_read() {
    let endless = || {
        Body::from_stream(futures_util::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 65536]))
        }))
    };
    let server = Server::answering(move |seen| match seen.path.ends_with("/v1") {
        // Of an error's words too only the first are read.
        true => with_headers(500, &[], endless()),
        false => with_headers(200, &[], endless()),
    })
    .await;
    let (transport, repository) = (transport(), server.repository());
    let fault = transport.manifest(&repository, &digest()).await.unwrap_err();
    assert_eq!(fault.reason, Reason::LimitExceeded);
    let fault = transport.resolve(&repository, "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::RegistryError);
    assert!(fault.happened.len() < 1000);
}

/// R28.
#[tokio::test]
async fn an_announced_length_over_the_cap_is_refused_at_once() {
    let server =
        Server::answering(|_| with_headers(200, &[("Content-Length", "9000000")], vec![b' '; 9_000_000]))
            .await;
    let fault = transport()
        .manifest(&server.repository(), &digest())
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::LimitExceeded);
}

#[tokio::test]
async fn a_small_blob_is_of_its_digest_and_size() {
    let server = Server::answering(|_| with_headers(200, &[], "config")).await;
    let (transport, repository) = (transport(), server.repository());
    let config = Digest::sha256(b"config");
    assert_eq!(
        transport.small_blob(&repository, &config, 6).await.unwrap(),
        "config"
    );
    let wrong_size = transport.small_blob(&repository, &config, 7).await.unwrap_err();
    assert_eq!(wrong_size.reason, Reason::DigestMismatch);
    let wrong = transport.small_blob(&repository, &digest(), 6).await.unwrap_err();
    assert_eq!(wrong.reason, Reason::DigestMismatch);
    let seen = server.seen().len();
    let huge = transport
        .small_blob(&repository, &config, 9 << 20)
        .await
        .unwrap_err();
    assert_eq!(huge.reason, Reason::LimitExceeded);
    assert_eq!(server.seen().len(), seen, "nothing was asked for it");
}

#[tokio::test]
async fn r22_a_page_in_the_registrys_place_is_no_manifest_and_may_go_away() {
    let server = Server::answering(|_| {
        with_headers(
            200,
            &[("Content-Type", "text/html")],
            "<html>Please \u{1b}sign in</html>",
        )
    })
    .await;
    let fault = transport().resolve(&server.repository(), "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::RegistryError);
    assert!(fault.reason.is_retried());
    let told = r#"its type is "text/html", it begins "<html>Please \u{1b}sign in</html>""#;
    assert!(fault.happened.contains(told), "{}", fault.happened);
}
