use std::os::unix::fs::PermissionsExt as _;

use puller_api::v1::{
    Bookmark, FetchRequest, FetchResponse, GetRequest, GetResponse, ListRequest, ListResponse,
    ReleaseRequest, ReleaseResponse, WatchEvent, WatchRequest, puller_server, watch_event::Event,
};
use tokio::{net::UnixListener, sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status, transport::Server};

use super::*;

/// A service that answers what the test wants, in place of the real one.
struct Stage {
    events: std::sync::Mutex<Option<mpsc::Receiver<Result<WatchEvent, Status>>>>,
}

#[tonic::async_trait]
impl puller_server::Puller for Stage {
    async fn fetch(&self, request: Request<FetchRequest>) -> Result<Response<FetchResponse>, Status> {
        let request = request.into_inner();
        let image = Image {
            id: request.claimant,
            wish: request.wish,
            ..Image::default()
        };
        Ok(Response::new(FetchResponse { image: Some(image) }))
    }

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        Err(Status::not_found("nobody asked for it"))
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        Ok(Response::new(ListResponse::default()))
    }

    type WatchStream = ReceiverStream<Result<WatchEvent, Status>>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let events = self.events.lock().unwrap().take();
        events
            .map(|events| Response::new(events.into()))
            .ok_or_else(|| Status::unavailable("one Watch only"))
    }

    async fn release(&self, _: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        Ok(Response::new(ReleaseResponse {}))
    }
}

/// A [`Puller`] whose other side is a [`Stage`], and what sends events to its Watch.
async fn on_stage() -> (Puller, mpsc::Sender<Result<WatchEvent, Status>>, JoinHandle<()>) {
    let (events, receiver) = mpsc::channel(16);
    let mut puller = Puller::start().binary("/nowhere").prepare().unwrap();
    let listener = UnixListener::bind(puller.socket()).unwrap();
    let stage = Stage {
        events: std::sync::Mutex::new(Some(receiver)),
    };
    let server = tokio::spawn(async move {
        let server = Server::builder().add_service(puller_server::PullerServer::new(stage));
        server
            .serve_with_incoming(UnixListenerStream::new(listener))
            .await
            .unwrap();
    });
    puller.client = Some(PullerClient::new(puller.channel().unwrap()));
    (puller, events, server)
}

fn put(id: &str, version: &str, phase: Phase) -> Result<WatchEvent, Status> {
    let image = Image {
        id: id.to_owned(),
        version: version.to_owned(),
        phase: phase.into(),
        ..Image::default()
    };
    let event = Some(Event::Put(image));
    Ok(WatchEvent { event })
}

fn synced(version: &str) -> Result<WatchEvent, Status> {
    let event = Some(Event::Bookmark(Bookmark {
        version: version.to_owned(),
        synced: true,
    }));
    Ok(WatchEvent { event })
}

#[tokio::test]
async fn a_watcher_collects_what_it_is_told() {
    let (puller, events, _server) = on_stage().await;
    let watcher = puller.watch().await;
    events.send(synced("1")).await.unwrap();
    watcher.synced().await;
    for (version, phase) in [
        ("2", Phase::Initiated),
        ("3", Phase::Initiated),
        ("4", Phase::Unpacked),
    ] {
        events.send(put("a", version, phase)).await.unwrap();
    }
    events.send(put("b", "5", Phase::Failed)).await.unwrap();
    let image = watcher
        .wait_for_image("a", "the end", |image| image.phase() == Phase::Unpacked)
        .await;
    assert_eq!(image.version, "4");
    assert_eq!(watcher.phases_of("a"), [Phase::Initiated, Phase::Unpacked]);
    watcher.wait_for_image("b", "any state", |_| true).await;
    assert_eq!(watcher.last_version().as_deref(), Some("5"));
    assert!(watcher.ended().is_none());
}

#[tokio::test]
#[should_panic(expected = "waited for the phase Unpacked of a, but the Watch ended")]
async fn a_wait_says_what_it_waited_for_when_the_watch_ends() {
    let (puller, events, _server) = on_stage().await;
    events.send(put("a", "1", Phase::Pulling)).await.unwrap();
    drop(events);
    puller.unpacked("a").await;
}

#[tokio::test]
async fn a_fetch_is_sent_as_its_sentence_says() {
    let (puller, _events, _server) = on_stage().await;
    let image = puller
        .fetch("r/a:v1")
        .claimant("me")
        .scope("s")
        .path("/p")
        .platform("linux", "arm")
        .await;
    let wish = image.wish.unwrap();
    assert_eq!((image.id.as_str(), wish.reference.as_str()), ("me", "r/a:v1"));
    assert_eq!(wish.credential_scope.as_deref(), Some("s"));
    assert_eq!(wish.platform.unwrap().architecture, "arm");
    puller.gone("a").await;
}

/// A program that ends at once, in place of the puller.
fn script(directory: &TempDir, text: &str) -> PathBuf {
    let path = directory.path().join("script");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_puller_that_does_not_start_says_why() {
    let directory = TempDir::new().unwrap();
    let binary = script(&directory, "#!/bin/sh\necho \"no way: $*; $A\" >&2\nexit 3\n");
    let start = || {
        Puller::start()
            .binary(&binary)
            .idle_timeout(Duration::from_secs(2))
            .environment("A", "b")
    };
    let error = start().try_start().await.unwrap_err().to_string();
    assert!(
        error.contains("exit status: 3") && error.contains("no way: serve --volume"),
        "{error}"
    );
    let (status, words) = start().fails().await;
    assert_eq!(status, 3);
    assert!(words.ends_with("--idle-timeout 2000ms; b\n"), "{words}");
}
