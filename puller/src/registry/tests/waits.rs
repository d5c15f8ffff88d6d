//! Pauses, silence and failures on the way.

use std::time::Instant;

use super::*;

fn short_idle() -> Transport {
    let settings = Settings {
        idle_timeout: Duration::from_millis(300),
        ..settings()
    };
    Transport::new(&settings, Arc::new(Keyring::new([]))).unwrap()
}

/// R16.
#[tokio::test]
async fn a_429_pauses_the_registry_for_all() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let server = Server::answering(
        move |_| match first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            true => with_headers(
                429,
                &[("Retry-After", "1.2s")],
                r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#,
            ),
            false => with_headers(200, &[], "x"),
        },
    )
    .await;
    let (transport, repository) = (Arc::new(transport()), server.repository());
    let began = Instant::now();
    let fault = transport.resolve(&repository, "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::RateLimited);
    assert_eq!(fault.retry_after, Some(Duration::from_millis(1200)));
    assert_eq!(
        server.lines(),
        ["HEAD /v2/team/app/manifests/v1"],
        "no GET after a 429"
    );

    let other = Repository {
        path: "other".into(),
        activity: Arc::default(),
        ..repository
    };
    let activity = Arc::clone(&other.activity);
    let task = tokio::spawn(async move {
        transport
            .blob(&other, &Digest::sha256(b"x"), 1, 0)
            .await
            .map(|b| b.start)
    });
    while activity.waits_for().is_empty() {
        tokio::task::yield_now().await;
    }
    let wait = activity.waits_for();
    assert!(
        wait.starts_with(&format!("a pause that {} asked for, until 20", server.name())),
        "{wait}"
    );
    assert_eq!(server.seen().len(), 1, "nothing is asked during the pause");
    assert_eq!(task.await.unwrap(), Ok(0));
    assert!(began.elapsed() >= Duration::from_millis(1200));
    assert_eq!(activity.waits_for(), "");
}

#[tokio::test]
async fn a_503_passes_its_pause_on_and_holds_nobody_else() {
    let server = Server::answering(|_| with_headers(503, &[("Retry-After", "600")], "")).await;
    let transport = transport();
    for _ in 0..2 {
        let fault = transport
            .blob(&server.repository(), &Digest::sha256(b"x"), 1, 0)
            .await
            .unwrap_err();
        assert_eq!(fault.reason, Reason::RegistryError);
        assert_eq!(fault.retry_after, Some(Duration::from_secs(600)));
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_a_timeout_and_is_told_while_awaited() {
    let server = Server::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), |_| {
        Box::pin(std::future::pending())
    });
    let repository = server.repository();
    let activity = Arc::clone(&repository.activity);
    let task = tokio::spawn(async move { short_idle().resolve(&repository, "v1").await });
    while server.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(activity.waits_for(), format!("an answer from {}", server.name()));
    let fault = task.await.unwrap().unwrap_err();
    assert_eq!(fault.reason, Reason::Timeout);
    assert!(
        fault.happened.contains("nothing came from") && fault.happened.contains("0.3 s"),
        "{fault}"
    );
    assert_eq!(activity.waits_for(), "");
}

#[tokio::test]
async fn a_body_that_stalls_is_a_timeout_however_much_came_before() {
    let server = Server::answering(|_| {
        let some = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"0123"))]);
        Body::from_stream(some.chain(futures_util::stream::pending())).into_response()
    })
    .await;
    let stream = short_idle()
        .blob(&server.repository(), &Digest::sha256(b"x"), 1, 0)
        .await
        .unwrap();
    let items: Vec<_> = stream.chunks.collect().await;
    assert_eq!(items[0].as_ref().unwrap(), "0123");
    assert_eq!(items[1].as_ref().unwrap_err().reason, Reason::Timeout);
    assert_eq!(items.len(), 2);
}

#[tokio::test]
async fn a_slow_body_is_no_timeout() {
    let server = Server::answering(|_| {
        let slow = futures_util::stream::unfold(0, |n| async move {
            tokio::time::sleep(Duration::from_millis(60)).await;
            (n < 10).then(|| (Ok::<_, std::io::Error>(Bytes::from_static(b"x")), n + 1))
        });
        Body::from_stream(slow).into_response()
    })
    .await;
    let stream = short_idle()
        .blob(&server.repository(), &Digest::sha256(b"x"), 1, 0)
        .await
        .unwrap();
    assert_eq!(read(stream).await.unwrap(), b"xxxxxxxxxx");
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_a_network_fault() {
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let transport = transport();
    let fault = transport
        .resolve(&repository(&free.to_string()), "v1")
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Network);
    assert!(fault.happened.contains("could not be connected to"), "{fault}");
    let fault = transport
        .resolve(&repository("no-such-host.invalid"), "v1")
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Network, "{fault}");
    assert!(fault.happened.contains("could not be resolved"), "{fault}");
}

#[tokio::test]
async fn a_connection_that_closes_without_an_answer_is_a_network_fault() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    let fault = transport().resolve(&repository(&name), "v1").await.unwrap_err();
    assert_eq!(fault.reason, Reason::Network, "{fault}");
    task.abort();
}

/// What the puller was made for: a registry that accepts connections and never answers.
#[tokio::test]
async fn a_registry_that_accepts_and_says_nothing_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            kept.push(listener.accept().await.unwrap());
        }
    });
    let repository = repository(&name);
    let activity = Arc::clone(&repository.activity);
    let asking = tokio::spawn(async move { short_idle().resolve(&repository, "v1").await });
    while activity.waits_for().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(activity.waits_for(), format!("an answer from {name}"));
    assert_eq!(asking.await.unwrap().unwrap_err().reason, Reason::Timeout);
    task.abort();
}
