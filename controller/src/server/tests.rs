use std::{future::pending, io::ErrorKind};

use axum::routing::get;
use reqwest::{Certificate, Client, ClientBuilder, Version};
use rustls::crypto::aws_lc_rs;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
};

use super::*;
use crate::tls::fixture::Files;

/// Much more than the kernel holds of one connection.
const LARGE: usize = 32 * 1024 * 1024;

pub(super) fn listen() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn router() -> Router {
    Router::new()
        .route("/hello", get(async || "hello"))
        .route("/large", get(async || vec![b'x'; LARGE]))
}

fn patience(headers: u64, drain: u64) -> Patience {
    Patience {
        headers: Duration::from_millis(headers),
        drain: Duration::from_millis(drain),
    }
}

fn client(pem: &str, address: SocketAddr) -> Client {
    builder(pem, address).build().unwrap()
}

pub(super) fn builder(pem: &str, address: SocketAddr) -> ClientBuilder {
    // The first in the process installs it.
    let _ = aws_lc_rs::default_provider().install_default();
    Client::builder()
        .tls_certs_only([Certificate::from_pem(pem.as_bytes()).unwrap()])
        .resolve("localhost", address)
        .no_proxy()
}

#[tokio::test]
async fn by_https_a_new_certificate_is_that_of_the_next_connection() {
    let files = Files::new();
    let first = std::fs::read_to_string(files.cert()).unwrap();
    let tls = files.load("intermediate").await;
    let (listener, address) = listen();
    let serving = tokio::spawn({
        let tls = tls.clone();
        async move { https(listener, router(), &tls, pending()).await }
    });
    let url = format!("https://localhost:{}/hello", address.port());
    let response = client(&first, address).get(&url).send().await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(response.text().await.unwrap(), "hello");

    let second = files.renew();
    let (stop, stopped) = oneshot::channel::<()>();
    let following = async { tls.follow(async { drop(stopped.await) }).await };
    // It looks at once when it begins.
    let asking = async {
        while client(&second, address).get(&url).send().await.is_err() {
            tokio::task::yield_now().await;
        }
        stop.send(()).unwrap();
    };
    tokio::join!(following, asking);
    client(&first, address).get(&url).send().await.unwrap_err();
    serving.abort();
}

#[tokio::test]
async fn who_never_ends_the_headers_is_not_waited_for() {
    let (listener, address) = listen();
    let serving = tokio::spawn(http_with(listener, router(), pending(), patience(50, 0)));
    for sent in ["", "GET /hello HTTP/1.1\r\nHost: a\r\nX-Slow:"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // It ends, with or without a word.
        let ended = stream.read_to_end(&mut answer).await;
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{sent:?}");
    }
    serving.abort();
}

#[tokio::test]
async fn a_slow_reader_gets_all() {
    let (listener, address) = listen();
    let serving = tokio::spawn(http_with(listener, router(), pending(), patience(50, 0)));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut read, mut part) = (0, vec![0; LARGE / 8]);
    loop {
        // Slower than anything that is waited for.
        tokio::time::sleep(Duration::from_millis(60)).await;
        match stream.read(&mut part).await.unwrap() {
            0 => break,
            more => read += more,
        }
        if read > LARGE / 4 {
            read += stream.read_to_end(&mut Vec::new()).await.unwrap();
        }
    }
    assert!(read > LARGE, "{read}");
    serving.abort();
}

#[tokio::test]
async fn at_the_stop_responses_under_way_are_finished_and_stalled_ones_given_up() {
    for (reads, drain) in [(true, 60_000), (false, 50)] {
        let (listener, address) = listen();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let serving = tokio::spawn(http_with(listener, router(), stopped, patience(60_000, drain)));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let mut body = vec![0; 1];
        stream.read_exact(&mut body).await.unwrap();
        stop.send(()).unwrap();
        if reads {
            stream.read_to_end(&mut body).await.unwrap();
            assert!(body.len() > LARGE);
        }
        serving.await.unwrap().unwrap();
        TcpStream::connect(address).await.unwrap_err();
    }
}
