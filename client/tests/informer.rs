//! The informer against a scripted puller on a real socket.

use std::{
    collections::VecDeque,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use puller_client::{
    Client, Filter, Informer,
    api::{self, puller_server, watch_event::Event},
};
use tokio::{net::UnixListener, task::JoinHandle};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// What one Watch call answers: events, then the break of the stream.
type Script = Result<Vec<Event>, Status>;

/// Each Watch call takes the next script; the last one's stream stays open.
#[derive(Clone, Default)]
struct Scripted {
    scripts: Arc<Mutex<VecDeque<Script>>>,
    versions: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl puller_server::Puller for Scripted {
    async fn fetch(&self, _: Request<api::FetchRequest>) -> Result<Response<api::FetchResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn get(&self, _: Request<api::GetRequest>) -> Result<Response<api::GetResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn list(&self, _: Request<api::ListRequest>) -> Result<Response<api::ListResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<api::WatchEvent, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<api::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.versions.lock().unwrap().push(request.into_inner().version);
        let mut scripts = self.scripts.lock().unwrap();
        let events = scripts.pop_front().unwrap_or_else(|| Ok(Vec::new()))?;
        let events = stream::iter(events).map(|event| Ok(api::WatchEvent { event: Some(event) }));
        Ok(Response::new(match scripts.is_empty() {
            true => Box::pin(events.chain(stream::pending())),
            false => Box::pin(events.chain(stream::once(async { Err(Status::unavailable("draining")) }))),
        }))
    }

    async fn release(
        &self,
        _: Request<api::ReleaseRequest>,
    ) -> Result<Response<api::ReleaseResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}

fn serve(path: &Path, scripted: Scripted) -> JoinHandle<()> {
    let incoming = UnixListenerStream::new(UnixListener::bind(path).unwrap());
    let serving = tonic::transport::Server::builder().add_service(puller_server::PullerServer::new(scripted));
    tokio::spawn(async move { serving.serve_with_incoming(incoming).await.unwrap() })
}

fn put(id: &str, version: &str) -> Event {
    Event::Put(api::Image {
        id: id.into(),
        version: version.into(),
        ..Default::default()
    })
}

fn bookmark(version: &str) -> Event {
    Event::Bookmark(api::Bookmark {
        version: version.into(),
        synced: true,
    })
}

/// Far longer than any of it takes: a test that waits in vain fails instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("it did not happen in time")
}

#[tokio::test]
async fn it_survives_breaks_resets_and_a_puller_that_knows_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    let informer = Informer::start(
        Client::connect(path.to_str().unwrap()).unwrap(),
        Filter {
            claimant: "me".into(),
            ids: vec![],
        },
    );
    let mut triggers = informer.triggers();
    // Nobody is there yet.
    assert!(!informer.has_synced() && informer.list().is_empty());

    let scripted = Scripted::default();
    *scripted.scripts.lock().unwrap() = VecDeque::from([
        Ok(vec![put("a", "1"), put("b", "2"), bookmark("2")]),
        Ok(vec![put("b", "3")]),
        Ok(vec![Event::Reset(api::Reset {}), put("b", "9"), bookmark("9")]),
        Err(Status::invalid_argument(
            "a version that this puller never gave out",
        )),
        Ok(vec![put("c", "1"), bookmark("1")]),
    ]);
    let server = serve(&path, scripted.clone());
    soon(informer.synced()).await;

    // Whatever the order of things: at each trigger the store holds that state or a later one, and in the
    // end only "c" is left.
    let last = async {
        loop {
            let id = triggers.next().await.expect("the triggers never end");
            if id == "c" || informer.list().keys().eq(["c"]) {
                break;
            }
        }
    };
    soon(last).await;
    soon(async {
        while !informer.list().keys().eq(["c"]) {
            triggers.next().await;
        }
    })
    .await;
    assert_eq!(informer.get("c").unwrap().version, "1");
    assert!(informer.get("a").is_none() && informer.has_synced());
    assert_eq!(informer.last_error(), None);
    assert_eq!(*scripted.versions.lock().unwrap(), ["", "2", "3", "9", ""]);

    // Whoever comes later is told first what is there.
    let mut late = informer.triggers();
    assert_eq!(late.next().now_or_never(), Some(Some("c".into())));
    assert_eq!(late.next().now_or_never(), None);
    server.abort();
}

#[tokio::test]
async fn triggers_alone_keep_the_informer_alive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    let informer = Informer::start(
        Client::connect(path.to_str().unwrap()).unwrap(),
        Filter::default(),
    );
    let mut triggers = informer.triggers();
    drop(informer);
    let scripted = Scripted::default();
    scripted
        .scripts
        .lock()
        .unwrap()
        .push_back(Ok(vec![put("a", "1"), bookmark("1")]));
    let server = serve(&path, scripted);
    assert_eq!(soon(triggers.next()).await.as_deref(), Some("a"));
    server.abort();
}
