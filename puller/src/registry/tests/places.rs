//! Addresses and TLS.

use http::Method;
use tokio_rustls::{TlsAcceptor, rustls as tls, server::TlsStream};

use super::{
    address::Reach,
    wire::{Call, Wire},
    *,
};

fn wire(allow_private: AllowPrivate) -> Wire {
    // Makes the TLS provider.
    drop(transport());
    Wire::new(&Settings {
        allow_private,
        ..settings()
    })
    .unwrap()
}

/// Asks as for a registry that is at a public address.
async fn ask_from_outside(wire: &Wire, url: &str) -> Result<StatusCode, Fault> {
    let activity = Arc::default();
    let call = Call {
        method: Method::GET,
        url: url.parse().unwrap(),
        headers: HeaderMap::new(),
        authorization: None,
        guest: None,
        form: None,
        plain: true,
        reach: Reach::Public,
        insecure: false,
        activity: &activity,
    };
    wire.ask(&call).await.map(|answer| answer.status())
}

#[tokio::test]
async fn a_public_registry_cannot_lead_inside() {
    let inside = Server::answering(|_| status(200)).await;
    let port = inside.address.port();
    let none = wire(AllowPrivate::No);
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
    ] {
        let fault = ask_from_outside(&none, &url).await.unwrap_err();
        assert_eq!(fault.reason, Reason::BlockedByPolicy, "{url}: {fault}");
        assert!(fault.happened.contains("is private or loopback"), "{fault}");
    }
    assert!(inside.seen().is_empty());
    // A redirect is checked as the first request is, by name and by address.
    let outside = Server::answering(move |seen| {
        let to = match seen.path.as_str() {
            "/name" => format!("http://localhost:{port}/"),
            _ => "http://169.254.169.254/latest/meta-data".to_owned(),
        };
        with_headers(302, &[("Location", &to)], "")
    })
    .await;
    let one = wire(AllowPrivate::Hosts(vec!["127.0.0.1".into()]));
    for path in ["name", "address"] {
        let url = format!("http://{}/{path}", outside.name());
        let fault = ask_from_outside(&one, &url).await.unwrap_err();
        assert_eq!(fault.reason, Reason::BlockedByPolicy, "{fault}");
    }
    assert!(inside.seen().is_empty());
    let both = wire(AllowPrivate::Hosts(vec!["127.0.0.1".into(), "localhost".into()]));
    let url = format!("http://{}/name", outside.name());
    assert_eq!(ask_from_outside(&both, &url).await, Ok(StatusCode::OK));
}

#[tokio::test]
async fn a_registry_inside_may_use_storage_inside_but_nothing_link_local() {
    let storage = Server::answering(|_| with_headers(200, &[], "blob")).await;
    let to = format!("http://localhost:{}/", storage.address.port());
    let server = Server::answering(move |seen| match seen.path.contains("/team/") {
        true => with_headers(307, &[("Location", &to)], ""),
        false => with_headers(
            307,
            &[("Location", "http://169.254.169.254/latest/meta-data")],
            "",
        ),
    })
    .await;
    let transport = transport();
    let digest = Digest::sha256(b"blob");
    let stream = transport.blob(&server.repository(), &digest, 4, 0).await.unwrap();
    assert_eq!(read(stream).await.unwrap(), b"blob");
    let other = Repository {
        path: "other".into(),
        ..server.repository()
    };
    let fault = transport.blob(&other, &digest, 4, 0).await.unwrap_err();
    assert_eq!(fault.reason, Reason::BlockedByPolicy);
    assert!(fault.happened.contains("never dialled"), "{fault}");
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<tokio::net::TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (connection, address) = self.listener.accept().await.unwrap();
            // A handshake that fails is the client's affair.
            if let Ok(connection) = self.acceptor.accept(connection).await {
                return (connection, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A registry with a certificate of its own for 127.0.0.1, and the file with the certificate.
pub(super) async fn tls_registry(dir: &std::path::Path) -> (Server, PathBuf) {
    drop(transport());
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let file = dir.join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = tls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut config = tls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TlsListener {
        listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
        acceptor: TlsAcceptor::from(Arc::new(config)),
    };
    let address = listener.listener.local_addr().unwrap();
    let (app, seen) = app(|_| Box::pin(async { with_headers(200, &[], "blob") }));
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (Server { address, seen, task }, file)
}

#[tokio::test]
async fn a_loopback_registry_with_tls_works_if_its_authority_is_known_and_is_never_asked_without() {
    let dir = tempfile::tempdir().unwrap();
    let (server, ca) = tls_registry(dir.path()).await;
    let digest = Digest::sha256(b"blob");
    let fault = transport()
        .blob(&server.repository(), &digest, 4, 0)
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Tls, "{fault}");
    assert!(fault.asked.starts_with("GET https://"), "{fault}");
    assert!(fault.happened.contains("certificate"), "{fault}");
    assert!(server.seen().is_empty());

    let settings = Settings {
        ca_files: vec![ca],
        ..settings()
    };
    let transport = Transport::new(&settings, Arc::new(Keyring::new([]))).unwrap();
    let stream = transport.blob(&server.repository(), &digest, 4, 0).await.unwrap();
    assert_eq!(read(stream).await.unwrap(), b"blob");
}

#[tokio::test]
async fn a_registry_that_does_not_speak_tls_is_told_how_it_may() {
    let server = Server::answering(|_| status(200)).await;
    // Not a host that may be plain, and so never asked whether it is.
    let wire = wire(AllowPrivate::All);
    let fault = ask_from_outside(&wire, &format!("https://{}/", server.name()))
        .await
        .unwrap_err();
    assert_eq!(fault.reason, Reason::Tls, "{fault}");
    assert!(fault.remedy.contains("plain HTTP"), "{fault}");
}

#[test]
fn a_ca_file_that_is_none_is_a_configuration_error() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for file in [empty, dir.path().join("missing.pem")] {
        let settings = Settings {
            ca_files: vec![file.clone()],
            ..settings()
        };
        let error = Transport::new(&settings, Arc::new(Keyring::new([]))).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("configuration:") && text.contains(&*file.to_string_lossy()),
            "{text}"
        );
    }
}
