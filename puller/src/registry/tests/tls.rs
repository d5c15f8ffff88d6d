//! Whom we trust, registry by registry.

use super::{places::tls_registry, *};

#[tokio::test]
async fn an_insecure_endpoint_may_have_any_certificate_and_shares_no_connection() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = tls_registry(dir.path()).await;
    let transport = transport();
    let digest = Digest::sha256(b"blob");
    let insecure = Repository {
        insecure: true,
        ..server.repository()
    };
    let stream = transport.blob(&insecure, &digest, 4, 0).await.unwrap();
    assert_eq!(read(stream).await.unwrap(), b"blob");
    // The connection is still there; a request that verifies must not use it.
    let fault = transport
        .blob(&server.repository(), &digest, 4, 0)
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Tls, "{fault}");
}

#[tokio::test]
async fn an_insecure_endpoint_may_speak_plain_http() {
    let server = Server::answering(|_| with_headers(200, &[], "blob")).await;
    let insecure = Repository {
        insecure: true,
        ..server.repository()
    };
    let digest = Digest::sha256(b"blob");
    let stream = transport().blob(&insecure, &digest, 4, 0).await.unwrap();
    assert_eq!(read(stream).await.unwrap(), b"blob");
}

#[tokio::test]
async fn only_the_insecure_endpoint_itself_is_not_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (storage, _) = tls_registry(dir.path()).await;
    let link = format!("https://{}/blob", storage.name());
    let server = Server::answering(move |_| with_headers(307, &[("Location", &link)], "")).await;
    let insecure = Repository {
        insecure: true,
        ..server.repository()
    };
    let fault = transport()
        .blob(&insecure, &Digest::sha256(b"blob"), 4, 0)
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Tls, "{fault}");
    assert!(storage.seen().is_empty());
}
