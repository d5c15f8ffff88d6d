//! The client against a scripted server: what each answer becomes.

use std::{path::Path, pin::Pin};

use futures_util::{Stream, StreamExt as _, stream};
use puller_client::{
    Client, Error, Key, TlsOptions,
    api::{self, puller_server},
};
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinHandle,
};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::{
    Code, Request, Response, Status,
    transport::{Certificate, Identity, Server, ServerTlsConfig},
};

/// Answers by the claimant or id that it is asked with.
struct Scripted;

fn image(id: &str) -> api::Image {
    api::Image {
        id: id.to_owned(),
        ..Default::default()
    }
}

#[tonic::async_trait]
impl puller_server::Puller for Scripted {
    async fn fetch(
        &self,
        request: Request<api::FetchRequest>,
    ) -> Result<Response<api::FetchResponse>, Status> {
        let claimant = request.into_inner().claimant;
        let code = match claimant.as_str() {
            "empty" => return Ok(Response::new(api::FetchResponse { image: None })),
            "invalid" => Code::InvalidArgument,
            "exhausted" => Code::ResourceExhausted,
            "unauthenticated" => Code::Unauthenticated,
            "unavailable" => Code::Unavailable,
            "broken" => Code::DataLoss,
            _ => {
                return Ok(Response::new(api::FetchResponse {
                    image: Some(image(&claimant)),
                }));
            }
        };
        Err(Status::new(code, format!("because of {claimant}")))
    }

    async fn get(&self, request: Request<api::GetRequest>) -> Result<Response<api::GetResponse>, Status> {
        match request.into_inner().by {
            Some(api::get_request::By::Id(id)) => Ok(Response::new(api::GetResponse {
                image: Some(image(&id)),
            })),
            _ => Err(Status::not_found("nobody asked for it")),
        }
    }

    /// More than tonic's own bound of 4 MiB.
    async fn list(&self, _: Request<api::ListRequest>) -> Result<Response<api::ListResponse>, Status> {
        let message = "x".repeat(64 * 1024);
        let images = (0..100).map(|n| api::Image {
            message: message.clone(),
            ..image(&n.to_string())
        });
        Ok(Response::new(api::ListResponse {
            images: images.collect(),
            version: "7".into(),
        }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<api::WatchEvent, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<api::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if request.into_inner().version == "never" {
            return Err(Status::invalid_argument("no such version"));
        }
        let put = api::WatchEvent {
            event: Some(api::watch_event::Event::Put(image("one"))),
        };
        Ok(Response::new(Box::pin(stream::iter([
            Ok(put),
            Err(Status::unavailable("draining")),
        ]))))
    }

    async fn release(
        &self,
        request: Request<api::ReleaseRequest>,
    ) -> Result<Response<api::ReleaseResponse>, Status> {
        let api::ReleaseRequest { by, claimant } = request.into_inner();
        match by {
            Some(api::release_request::By::Id(_)) if claimant == "me" => {
                Ok(Response::new(api::ReleaseResponse {}))
            }
            _ => Err(Status::invalid_argument("claimant")),
        }
    }
}

fn on_socket(path: &Path) -> JoinHandle<()> {
    let incoming = UnixListenerStream::new(UnixListener::bind(path).unwrap());
    let serving = Server::builder().add_service(puller_server::PullerServer::new(Scripted));
    tokio::spawn(async move { serving.serve_with_incoming(incoming).await.unwrap() })
}

fn fetch(claimant: &str) -> api::FetchRequest {
    api::FetchRequest {
        claimant: claimant.to_owned(),
        ..Default::default()
    }
}

#[tokio::test]
async fn each_answer_has_its_type() {
    let directory = tempfile::tempdir().unwrap();
    // A path that is no valid URI.
    let path = directory.path().join("a socket %.sock");
    on_socket(&path);
    let client = Client::connect(path.to_str().unwrap()).unwrap();

    assert_eq!(client.fetch(fetch("me")).await.unwrap().id, "me");
    let because = |claimant: &str| format!("because of {claimant}");
    for (claimant, error) in [
        ("invalid", Error::InvalidArgument(because("invalid"))),
        ("exhausted", Error::ResourceExhausted(because("exhausted"))),
        (
            "unauthenticated",
            Error::Unauthenticated(because("unauthenticated")),
        ),
        ("unavailable", Error::Unavailable(because("unavailable"))),
        (
            "broken",
            Error::Unexpected {
                code: Code::DataLoss,
                message: because("broken"),
            },
        ),
    ] {
        assert_eq!(client.fetch(fetch(claimant)).await.unwrap_err(), error);
    }
    let empty = client.fetch(fetch("empty")).await.unwrap_err();
    assert!(
        matches!(
            empty,
            Error::Unexpected {
                code: Code::Internal,
                ..
            }
        ),
        "{empty}"
    );

    assert_eq!(client.get(Key::Id("x".into())).await.unwrap().id, "x");
    let missing = client.get(Key::Wish(api::Wish::default())).await.unwrap_err();
    assert_eq!(missing, Error::NotFound("nobody asked for it".into()));
    assert!(!missing.is_transient());

    client.release(Key::Id("x".into()), "me").await.unwrap();
    assert!(client.release(Key::Id("x".into()), "").await.is_err());
}

#[tokio::test]
async fn a_list_larger_than_four_mebibytes_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    on_socket(&path);
    let listing = Client::connect(path.to_str().unwrap())
        .unwrap()
        .list("")
        .await
        .unwrap();
    assert_eq!((listing.images.len(), listing.version.as_str()), (100, "7"));
}

#[tokio::test]
async fn a_watch_gives_events_until_its_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    on_socket(&path);
    let client = Client::connect(path.to_str().unwrap()).unwrap();
    let mut watch = client.watch(api::WatchRequest::default()).await.unwrap();
    let put = api::WatchEvent {
        event: Some(api::watch_event::Event::Put(image("one"))),
    };
    assert_eq!(watch.next().await, Some(Ok(put)));
    assert_eq!(
        watch.next().await,
        Some(Err(Error::Unavailable("draining".into())))
    );
    assert_eq!(watch.next().await, None);
    let never = api::WatchRequest {
        version: "never".into(),
        ..Default::default()
    };
    assert!(matches!(
        client.watch(never).await,
        Err(Error::InvalidArgument(_))
    ));
}

#[tokio::test]
async fn a_socket_that_is_not_there_or_dead_is_said_and_the_connection_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    let client = Client::connect(path.to_str().unwrap()).unwrap();

    let error = client.list("").await.unwrap_err();
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(
        text.contains("there is no such socket") && text.contains("p.sock"),
        "{text}"
    );

    // A socket whose owner died: the file is there, and nobody listens.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let text = client.list("").await.unwrap_err().to_string();
    assert!(text.contains("nobody listens"), "{text}");

    // The same client, once the puller is there.
    std::fs::remove_file(&path).unwrap();
    let server = on_socket(&path);
    assert_eq!(client.fetch(fetch("me")).await.unwrap().id, "me");

    // And a connection that breaks is no other kind of error.
    let mut watch = client.watch(api::WatchRequest::default()).await.unwrap();
    server.abort();
    while let Some(event) = watch.next().await {
        assert!(event.is_ok() || event.unwrap_err().is_transient());
    }
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        while let Ok((mut stream, _)) = listener.accept().await {
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
        }
    });
    let error = Client::connect(&format!("http://{address}"))
        .unwrap()
        .list("")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

/// An authority, and a certificate that it signed for `name`: (authority PEM, certificate PEM, key PEM).
fn certificate(name: &str) -> (String, String, String) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    (authority.pem(), leaf.pem(), key.serialize_pem())
}

#[tokio::test]
async fn mutual_tls_lets_in_who_shows_the_right_certificate() {
    let (server_ca, server_cert, server_key) = certificate("localhost");
    let (client_ca, client_cert, client_key) = certificate("client");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(server_cert, server_key))
        .client_ca_root(Certificate::from_pem(client_ca));
    let serving = Server::builder()
        .tls_config(tls)
        .unwrap()
        .add_service(puller_server::PullerServer::new(Scripted));
    tokio::spawn(async move {
        serving
            .serve_with_incoming(TcpListenerStream::new(listener))
            .await
            .unwrap();
    });

    let right = TlsOptions {
        ca: Some(server_ca.clone().into_bytes()),
        identity: Some((client_cert.into_bytes(), client_key.into_bytes())),
        server_name: None,
    };
    let client = Client::connect_with(&endpoint, &right).unwrap();
    assert_eq!(client.fetch(fetch("me")).await.unwrap().id, "me");

    let (_, other_cert, other_key) = certificate("client");
    for (what, wrong) in [
        (
            "no client certificate",
            TlsOptions {
                identity: None,
                ..right.clone()
            },
        ),
        (
            "another authority's client certificate",
            TlsOptions {
                identity: Some((other_cert.into(), other_key.into())),
                ..right.clone()
            },
        ),
        (
            "an unknown server",
            TlsOptions {
                ca: Some(certificate("localhost").0.into()),
                ..right.clone()
            },
        ),
        (
            "another name",
            TlsOptions {
                server_name: Some("example.com".into()),
                ..right.clone()
            },
        ),
    ] {
        let error = Client::connect_with(&endpoint, &wrong)
            .unwrap()
            .list("")
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::Tls { .. } | Error::Unreachable { .. }),
            "{what}: {error:?}"
        );
    }
    let junk = TlsOptions {
        ca: Some(b"-----BEGIN CERTIFICATE-----\n!!\n".to_vec()),
        ..TlsOptions::default()
    };
    let error = Client::connect_with(&endpoint, &junk).unwrap_err();
    assert!(matches!(error, Error::InvalidEndpoint { .. }), "{error:?}");
}
