//! The commands against a scripted daemon on a real socket.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
};

use clap::FromArgMatches as _;
use futures_util::{Stream, StreamExt as _, stream};
use puller_client::api::{self, Phase, puller_server, watch_event::Event};
use tokio::{net::UnixListener, task::AbortHandle};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::{failing, image, unpacked};
use crate::{
    cli::{Cli, Command, call, command},
    error::{Error, Exit},
};

/// What one Watch call gives before its stream breaks off (or, when it is the last, stays open).
type Script = Vec<api::WatchEvent>;

#[derive(Clone, Default)]
struct Daemon {
    fetched: Arc<Mutex<Vec<api::FetchRequest>>>,
    released: Arc<Mutex<Vec<api::ReleaseRequest>>>,
    scripts: Arc<Mutex<VecDeque<Script>>>,
    watched: Arc<Mutex<Vec<api::WatchRequest>>>,
}

#[tonic::async_trait]
impl puller_server::Puller for Daemon {
    async fn fetch(
        &self,
        request: Request<api::FetchRequest>,
    ) -> Result<Response<api::FetchResponse>, Status> {
        let request = request.into_inner();
        let answer = match request.wish.as_ref().map(|wish| wish.reference.as_str()) {
            Some("bad") => Err(Status::invalid_argument("the reference \"bad\" is not valid")),
            Some("there") => Ok(unpacked()),
            _ => Ok(image("new", Phase::Initiated)),
        };
        self.fetched.lock().unwrap().push(request);
        answer.map(|image| Response::new(api::FetchResponse { image: Some(image) }))
    }

    async fn get(&self, request: Request<api::GetRequest>) -> Result<Response<api::GetResponse>, Status> {
        match request.into_inner().by {
            Some(api::get_request::By::Id(_)) => Ok(Response::new(api::GetResponse {
                image: Some(unpacked()),
            })),
            _ => Err(Status::not_found("nobody asked for it")),
        }
    }

    async fn list(&self, _: Request<api::ListRequest>) -> Result<Response<api::ListResponse>, Status> {
        Ok(Response::new(api::ListResponse {
            images: vec![unpacked()],
            version: "1.9".into(),
        }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<api::WatchEvent, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<api::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.watched.lock().unwrap().push(request.into_inner());
        let Some(script) = self.scripts.lock().unwrap().pop_front() else {
            return Err(Status::failed_precondition("the script has ended"));
        };
        let broken = stream::once(async { Err(Status::unavailable("draining")) });
        Ok(Response::new(Box::pin(
            stream::iter(script).map(Ok).chain(broken),
        )))
    }

    async fn release(
        &self,
        request: Request<api::ReleaseRequest>,
    ) -> Result<Response<api::ReleaseResponse>, Status> {
        self.released.lock().unwrap().push(request.into_inner());
        Ok(Response::new(api::ReleaseResponse {}))
    }
}

/// A scripted daemon, its socket, and the end of both.
struct Running {
    daemon: Daemon,
    directory: tempfile::TempDir,
    server: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Running {
    fn with(scripts: impl IntoIterator<Item = Script>) -> Self {
        let daemon = Daemon {
            scripts: Arc::new(Mutex::new(scripts.into_iter().collect())),
            ..Daemon::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let incoming = UnixListenerStream::new(UnixListener::bind(directory.path().join("p.sock")).unwrap());
        let serving =
            tonic::transport::Server::builder().add_service(puller_server::PullerServer::new(daemon.clone()));
        let server = tokio::spawn(async move { serving.serve_with_incoming(incoming).await }).abort_handle();
        Self {
            daemon,
            directory,
            server,
        }
    }

    async fn run(&self, arguments: &[&str]) -> Result<(), Error> {
        let endpoint = self.directory.path().join("p.sock");
        let line = ["puller", "--endpoint", endpoint.to_str().unwrap()]
            .into_iter()
            .chain(arguments.iter().copied());
        let matches = command().try_get_matches_from(line).unwrap();
        let Cli { connection, command } = Cli::from_arg_matches(&matches).unwrap();
        let Command::Call(command) = command else {
            panic!("{arguments:?} calls no daemon")
        };
        call(&connection, command).await
    }

    async fn exit(&self, arguments: &[&str]) -> Exit {
        self.run(arguments)
            .await
            .map_or_else(|error| error.exit_code(), |()| Exit::Success)
    }
}

fn put(image: api::Image) -> api::WatchEvent {
    api::WatchEvent {
        event: Some(Event::Put(image)),
    }
}

fn bookmark() -> api::WatchEvent {
    api::WatchEvent {
        event: Some(Event::Bookmark(api::Bookmark {
            version: "1.9".into(),
            synced: true,
        })),
    }
}

#[tokio::test]
async fn fetch_says_what_was_typed() {
    let daemon = Running::with([]);
    let credentials = daemon.directory.path().join("config.json");
    std::fs::write(&credentials, "{\"auths\": {}}").unwrap();
    let line = [
        "fetch",
        "quay.io/a/b:v1",
        "--platform=linux/arm/v7",
        "--label=l",
        "--claimant=me",
        "--max-age=10m",
    ];
    let more = [
        "--claim-ttl=1h30m",
        "--refuse-escaping-links",
        "--scope=team",
        "--credentials",
    ];
    let line: Vec<_> = line.into_iter().chain(more).chain(credentials.to_str()).collect();
    assert_eq!(daemon.exit(&line).await, Exit::Success);
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let wish = api::Wish {
        reference: "quay.io/a/b:v1".into(),
        platform: Some(api::Platform {
            os: "linux".into(),
            architecture: "arm".into(),
            variant: "v7".into(),
        }),
        selection: Some(api::Selection {
            kind: Some(api::selection::Kind::Label("l".into())),
        }),
        unpack: Some(api::UnpackOptions {
            refuse_escaping_links: true,
        }),
        credential_scope: Some("team".into()),
    };
    let expected = api::FetchRequest {
        wish: Some(wish),
        claimant: "me".into(),
        credentials: Some(api::Credentials {
            dockerconfigjson: b"{\"auths\": {}}".to_vec(),
        }),
        max_age: seconds(600),
        claim_ttl: seconds(5400),
        in_use: Vec::new(),
    };
    assert_eq!(*daemon.daemon.fetched.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn calls_end_with_the_code_of_their_class() {
    let daemon = Running::with([]);
    let id = "0123456789abcdef0123";
    for (line, exit) in [
        (vec!["fetch", "bad"], Exit::Invalid),
        (vec!["fetch", "there", "--wait"], Exit::Success),
        (vec!["get", id], Exit::Success),
        (vec!["get", "quay.io/a/b:v1"], Exit::NotFound),
        (vec!["list", "-o", "json"], Exit::Success),
        (vec!["release", id, "--claimant=me"], Exit::Success),
        (
            vec!["fetch", "quay.io/a/b:v1", "--credentials=/nowhere"],
            Exit::Internal,
        ),
    ] {
        assert_eq!(daemon.exit(&line).await, exit, "{line:?}");
    }
    let by = Some(api::release_request::By::Id(id.into()));
    let released = [api::ReleaseRequest {
        by,
        claimant: "me".into(),
    }];
    assert_eq!(*daemon.daemon.released.lock().unwrap(), released);
    std::fs::remove_file(daemon.directory.path().join("p.sock")).unwrap();
    assert_eq!(daemon.exit(&["list"]).await, Exit::Unreachable);
}

#[tokio::test]
async fn waiting_outlives_a_restart_of_the_daemon_and_fetches_again() {
    let daemon = Running::with([
        vec![put(image("new", Phase::Pulling)), bookmark()],
        vec![
            put(failing(Phase::Retrying, api::Reason::Network)),
            bookmark(),
            put(unpacked()),
        ],
    ]);
    assert_eq!(
        daemon.exit(&["fetch", "quay.io/a/b:v1", "--wait"]).await,
        Exit::Success
    );
    assert_eq!(daemon.daemon.fetched.lock().unwrap().len(), 2);
    let ids: Vec<_> = daemon
        .daemon
        .watched
        .lock()
        .unwrap()
        .iter()
        .flat_map(|watch| watch.ids.clone())
        .collect();
    assert_eq!(ids, ["new", "new"]);
}

#[tokio::test]
async fn waiting_ends_with_the_reason_of_a_failure_and_when_the_image_is_gone() {
    let deleted = Event::Deleted(api::Deleted {
        id: "new".into(),
        version: "1.9".into(),
    });
    let deleted = api::WatchEvent { event: Some(deleted) };
    for (script, exit) in [
        (
            vec![put(failing(Phase::Failed, api::Reason::PlatformNotFound))],
            Exit::NoSuchPart,
        ),
        (
            vec![put(image("new", Phase::Pulling)), bookmark(), deleted],
            Exit::NotFound,
        ),
        (vec![bookmark()], Exit::NotFound),
    ] {
        let daemon = Running::with([script]);
        assert_eq!(daemon.exit(&["fetch", "quay.io/a/b:v1", "--wait"]).await, exit);
    }
}

#[tokio::test]
async fn watch_comes_back_with_the_last_version() {
    for output in ["table", "json", "yaml"] {
        let scripts = [
            vec![put(image("a", Phase::Pulling)), bookmark()],
            vec![put(image("b", Phase::Pulling))],
        ];
        let daemon = Running::with(scripts);
        // The script's end is no transient error, so it ends the command.
        assert_eq!(
            daemon
                .exit(&["watch", "--claimant=me", "-o", output, "a", "b"])
                .await,
            Exit::Internal
        );
        let watched = daemon.daemon.watched.lock().unwrap();
        let versions: Vec<_> = watched.iter().map(|watch| watch.version.as_str()).collect();
        assert_eq!(versions, ["", "1.9", "1.7"], "{output}");
        assert!(
            watched
                .iter()
                .all(|watch| watch.claimant == "me" && watch.ids == ["a", "b"])
        );
    }
}
