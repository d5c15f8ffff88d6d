//! Connections that a server ends when it likes, as load balancers do with those that are kept for the next
//! request.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const DOCUMENT: &[u8] = br#"{"schemaVersion": 2}"#;

/// A server that answers so many requests of each connection and closes it then: at once, or only when the
/// next request has come.
struct Closing {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Closing {
    async fn after(requests: usize, at_once: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let count = Arc::clone(&count);
                tokio::spawn(async move { serve(connection, requests, at_once, &count).await });
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut connection: tokio::net::TcpStream,
    requests: usize,
    at_once: bool,
    count: &AtomicUsize,
) -> std::io::Result<()> {
    for n in 0.. {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match connection.read_u8().await {
                Ok(byte) => head.push(byte),
                // The probe for TLS, or the client is done.
                Err(error) => return Err(error),
            }
            if head[0] < b' ' {
                return Ok(());
            }
        }
        if n == 0 {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if n >= requests {
            return Ok(());
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", DOCUMENT.len());
        connection
            .write_all(&[head.as_bytes(), DOCUMENT].concat())
            .await?;
        if at_once && n + 1 == requests {
            return Ok(());
        }
    }
    Ok(())
}

/// RFC 9110 section 9.2.2: what only reads is asked again where a kept connection turns out to be closed.
#[tokio::test]
async fn a_kept_connection_that_turns_out_to_be_closed_costs_no_attempt() {
    for (requests, at_once) in [(1, true), (1, false), (2, false), (3, true)] {
        let server = Closing::after(requests, at_once).await;
        let transport = transport();
        let repository = repository(&server.address.to_string());
        let digest = Digest::sha256(DOCUMENT);
        for n in 0..6 {
            let found = transport.manifest(&repository, &digest).await;
            assert!(found.is_ok(), "{requests} {at_once}, request {n}: {found:?}");
        }
        let connections = server.connections.load(Ordering::Relaxed);
        assert!(
            connections >= 6_usize.div_ceil(requests),
            "{connections} connections of {requests} requests"
        );
    }
}

#[tokio::test]
async fn a_fresh_connection_that_is_closed_is_not_tried_again() {
    let server = Closing::after(0, false).await;
    let repository = repository(&server.address.to_string());
    let fault = transport()
        .manifest(&repository, &Digest::sha256(DOCUMENT))
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Network, "{fault}");
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}
