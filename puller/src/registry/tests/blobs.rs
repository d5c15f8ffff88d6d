//! Blobs, ranges and redirects.

use std::convert::Infallible;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::registry::coding::{Coding, tests::encoded};

const BLOB: &[u8] = b"0123456789";
const SIZE: u64 = BLOB.len() as u64;

fn digest() -> Digest {
    Digest::sha256(BLOB)
}

async fn fetch(server: &Server, offset: u64) -> Result<(u64, Vec<u8>), Fault> {
    let stream = transport()
        .blob(&server.repository(), &digest(), SIZE, offset)
        .await?;
    let start = stream.start;
    Ok((start, read(stream).await?))
}

/// R18.
#[tokio::test]
async fn no_range_is_sent_for_the_whole() {
    let server = Server::answering(|_| with_headers(200, &[("Content-Encoding", "gzip")], BLOB)).await;
    // What the registry says of encodings is not acted on: the digest is of the bytes as they are.
    assert_eq!(fetch(&server, 0).await, Ok((0, BLOB.to_vec())));
    assert_eq!(server.seen()[0].header(header::RANGE), "");
    assert_eq!(server.seen()[0].header(header::ACCEPT_ENCODING), "identity");
}

/// R19, and R18 where a registry refuses ranges whatever they are.
#[tokio::test]
async fn a_range_is_believed_only_if_it_says_what_it_is() {
    let wrong = [
        (206, Some("bytes 3-9/10")),
        (206, Some("bytes */10")),
        (206, None),
        (206, Some("bytes 4-9/11")),
        (206, Some("bytes 4-10/*")),
        (206, Some("octets 4-9/10")),
        (416, None),
        (400, None),
        (405, None),
        (412, None),
        (501, None),
    ];
    for (status, range) in wrong {
        let server = Server::answering(move |seen| match seen.header(header::RANGE) {
            "" => with_headers(200, &[], BLOB),
            _ => {
                let headers: Vec<_> = range.iter().map(|&range| ("Content-Range", range)).collect();
                with_headers(status, &headers, "garbage")
            }
        })
        .await;
        assert_eq!(
            fetch(&server, 4).await,
            Ok((0, BLOB.to_vec())),
            "{status} {range:?}"
        );
        let ranges: Vec<_> = server
            .seen()
            .iter()
            .map(|s| s.header(header::RANGE).to_owned())
            .collect();
        assert_eq!(ranges, ["bytes=4-", ""]);
    }
    let server =
        Server::answering(|_| with_headers(206, &[("Content-Range", "bytes 4-9/10")], &BLOB[4..])).await;
    assert_eq!(fetch(&server, 4).await, Ok((4, BLOB[4..].to_vec())));
    let server = Server::answering(|_| with_headers(200, &[], BLOB)).await;
    assert_eq!(fetch(&server, 4).await, Ok((0, BLOB.to_vec())));
    assert_eq!(server.seen().len(), 1, "the whole is taken as it comes");
}

/// R19 and R22: what is of another length can't be the blob, and none of it is taken.
#[tokio::test]
async fn a_whole_of_another_length_is_refused_before_its_first_byte() {
    for offset in [0, 4] {
        let page = "<html>sign\u{1b}[2J in</html>";
        let server =
            Server::answering(move |_| with_headers(200, &[("Content-Type", "text/html")], page)).await;
        let fault = fetch(&server, offset).await.unwrap_err();
        assert_eq!(fault.reason, Reason::DigestMismatch, "{fault}");
        for words in ["has 24 bytes", "says 10", "\"text/html\"", "<html>sign\\u{1b}[2J"] {
            assert!(fault.happened.contains(words), "{words}: {fault}");
        }
        assert_eq!(server.seen().len(), 1);
    }
    let storage = Server::answering(|_| with_headers(200, &[], "internal words")).await;
    let to = format!("http://{}/", storage.name());
    let server = Server::answering(move |_| with_headers(307, &[("Location", &to)], "")).await;
    let fault = fetch(&server, 0).await.unwrap_err();
    assert!(!fault.happened.contains("internal words"), "{fault}");
}

#[tokio::test]
async fn a_part_that_nobody_asked_for_is_an_error() {
    let server =
        Server::answering(|_| with_headers(206, &[("Content-Range", "bytes 4-9/10")], &BLOB[4..])).await;
    assert_eq!(fetch(&server, 0).await.unwrap_err().reason, Reason::RegistryError);
}

/// R06.
#[tokio::test]
async fn credentials_stay_at_home_and_the_range_goes_along() {
    let storage =
        Server::answering(|_| with_headers(206, &[("Content-Range", "bytes 4-9/10")], &BLOB[4..])).await;
    let to = format!("http://{}/bucket/x?signature=hunter2", storage.name());
    let server = Server::answering(move |seen| match (seen.authorization(), seen.path.as_str()) {
        ("", _) => with_headers(401, &[("WWW-Authenticate", "Basic realm=x")], ""),
        (_, "/same-host") => with_headers(307, &[("Location", &to)], ""),
        _ => with_headers(307, &[("Location", "/same-host")], ""),
    })
    .await;
    let transport = transport_with(&server.name(), "user", "pass");
    let stream = transport
        .blob(&as_team(server.repository()), &digest(), SIZE, 4)
        .await
        .unwrap();
    assert_eq!(stream.start, 4);
    assert_eq!(read(stream).await.unwrap(), &BLOB[4..]);
    assert_eq!(server.seen()[2].line(), "GET /same-host");
    assert_eq!(server.seen()[2].authorization(), "Basic dXNlcjpwYXNz");
    let at_storage = &storage.seen()[0];
    assert_eq!(at_storage.authorization(), "");
    assert_eq!(at_storage.header(header::RANGE), "bytes=4-");
    assert_eq!(at_storage.query, "signature=hunter2");
}

#[tokio::test]
async fn credentials_do_not_come_back_with_a_redirect_from_away() {
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = format!("http://{}/", away.local_addr().unwrap());
    let server = Server::answering(move |seen| match (seen.authorization(), seen.path.as_str()) {
        (_, "/back") => with_headers(200, &[], BLOB),
        ("", _) => with_headers(401, &[("WWW-Authenticate", "Basic realm=x")], ""),
        _ => with_headers(307, &[("Location", &to)], ""),
    })
    .await;
    let back = format!("http://{}/back", server.name());
    let _away = Server::on(away, move |_| {
        let answer = with_headers(302, &[("Location", &back)], "");
        Box::pin(async move { answer })
    });
    let transport = transport_with(&server.name(), "user", "pass");
    let stream = transport
        .blob(&as_team(server.repository()), &digest(), SIZE, 0)
        .await
        .unwrap();
    assert_eq!(read(stream).await.unwrap(), BLOB);
    assert_eq!(server.seen().last().unwrap().line(), "GET /back");
    assert_eq!(server.seen().last().unwrap().authorization(), "");
}

/// R06: storages say in several ways that a link has expired.
#[tokio::test]
async fn a_link_that_a_storage_refuses_is_asked_for_once_more() {
    for refusal in [400, 401, 403, 404, 410] {
        let storage = Server::answering(move |seen| match seen.query.as_str() {
            "link=2" => with_headers(200, &[], BLOB),
            _ => with_headers(refusal, &[("WWW-Authenticate", "Basic realm=x")], ""),
        })
        .await;
        let links = std::sync::atomic::AtomicU32::new(0);
        let to = storage.name();
        let server = Server::answering(move |_| {
            let link = links.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            with_headers(307, &[("Location", &format!("http://{to}/x?link={link}"))], "")
        })
        .await;
        assert_eq!(fetch(&server, 0).await, Ok((0, BLOB.to_vec())), "{refusal}");
        assert!(storage.seen().iter().all(|seen| seen.authorization().is_empty()));
    }
}

#[tokio::test]
async fn an_expired_link_is_asked_for_once_more_and_its_words_are_not_quoted() {
    let storage = Server::answering(|seen| match seen.query.as_str() {
        "link=2" => with_headers(200, &[], BLOB),
        _ => with_headers(403, &[], "internal words"),
    })
    .await;
    let links = std::sync::atomic::AtomicU32::new(0);
    let to = storage.name();
    let server = Server::answering(move |seen| {
        let link = match seen.path.contains("other") {
            true => 9,
            false => links.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1,
        };
        with_headers(307, &[("Location", &format!("http://{to}/x?link={link}"))], "")
    })
    .await;
    assert_eq!(fetch(&server, 0).await, Ok((0, BLOB.to_vec())));
    assert_eq!(server.seen().len(), 2);
    let other = Repository {
        path: "other".into(),
        ..server.repository()
    };
    let fault = transport().blob(&other, &digest(), SIZE, 0).await.unwrap_err();
    assert_eq!(fault.reason, Reason::Forbidden);
    assert_eq!(server.seen().len(), 4);
    let text = fault.to_string();
    assert!(text.contains(&storage.name()), "{text}");
    assert!(
        !text.contains("internal words") && !text.contains("link="),
        "{text}"
    );
}

/// R07.
#[tokio::test]
async fn redirects_end() {
    let server = Server::answering(|_| with_headers(307, &[("Location", "/again")], "")).await;
    let fault = fetch(&server, 0).await.unwrap_err();
    assert_eq!(fault.reason, Reason::RegistryError);
    assert_eq!(server.seen().len(), 11, "the request and ten hops");
    let server = Server::answering(|_| with_headers(307, &[("Location", "file:///etc/passwd")], "")).await;
    let fault = fetch(&server, 0).await.unwrap_err();
    assert_eq!(fault.reason, Reason::RegistryError);
    assert!(fault.happened.contains("scheme file"), "{fault}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_network_fault_after_the_bytes_that_came() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = connection.read(&mut request).await.unwrap();
            if request[..length].starts_with(b"GET") {
                let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123";
                connection.write_all(cut).await.unwrap();
            }
        }
    });
    let stream = transport()
        .blob(&repository(&name), &digest(), SIZE, 0)
        .await
        .unwrap();
    let items: Vec<_> = stream.chunks.collect().await;
    assert_eq!(items.len(), 2, "{items:?}");
    assert_eq!(items[0].as_ref().unwrap(), "0123");
    assert_eq!(items[1].as_ref().unwrap_err().reason, Reason::Network);
    task.abort();
}

#[tokio::test]
async fn a_blob_is_there_if_head_or_get_says_so() {
    let server = Server::answering(
        |seen| match (seen.method.as_str(), seen.path.contains("missing")) {
            (_, true) => status(404),
            ("HEAD", _) => status(405),
            _ => with_headers(200, &[], BLOB),
        },
    )
    .await;
    let transport = transport();
    assert_eq!(transport.has_blob(&server.repository(), &digest()).await, Ok(()));
    let missing = Repository {
        path: "missing".into(),
        ..server.repository()
    };
    assert_eq!(
        transport.has_blob(&missing, &digest()).await.unwrap_err().reason,
        Reason::NotFound
    );
}

/// Some servers encode whatever was asked for, in an answer that says its length or not.
#[tokio::test]
async fn what_was_encoded_on_the_way_is_decoded() {
    let layer = encoded(Coding::Gzip, &[7; 200_000]);
    let digest = Digest::sha256(&layer);
    for chunked in [false, true] {
        for offset in [0, 100] {
            let body = encoded(Coding::Gzip, &layer);
            let server = Server::answering(move |seen| {
                let body = match chunked {
                    true => {
                        Body::from_stream(futures_util::stream::iter([Ok::<_, Infallible>(body.clone())]))
                    }
                    false => Body::from(body.clone()),
                };
                assert!(offset == 0 || seen.header(header::RANGE) == "bytes=100-");
                with_headers(200, &[("Content-Encoding", "gzip")], body)
            })
            .await;
            let stream = transport()
                .blob(&server.repository(), &digest, layer.len() as u64, offset)
                .await
                .unwrap();
            assert_eq!(stream.start, 0);
            assert_eq!(read(stream).await.unwrap(), layer, "{chunked}");
        }
    }
    // What is no gzip at all.
    let server =
        Server::answering(|_| with_headers(200, &[("Content-Encoding", "gzip")], "plain text")).await;
    let stream = transport()
        .blob(&server.repository(), &digest, 4, 0)
        .await
        .unwrap();
    assert_eq!(read(stream).await.unwrap_err().reason, Reason::DigestMismatch);
}
