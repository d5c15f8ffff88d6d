//! The API over TCP with mutual TLS: who is let in, and what everybody else is told.

use std::path::PathBuf;

use futures_util::StreamExt as _;
use puller_client::{Client, Error, Filter, Informer, TlsOptions, api};
use puller_tests::{
    certificates::{Authority, Certificate},
    grpcurl::Grpcurl,
    image::{Image, Layer},
    puller::{Phase, Puller},
    scripted::ScriptedRegistry,
    wait::{eventually, within_patience},
};
use tempfile::TempDir;

/// A puller that serves by mutual TLS, and those who sign for it.
struct Served {
    puller: Puller,
    /// Signed the puller's certificate.
    authority: Authority,
    /// Signs the clients'.
    clients: Authority,
    /// Holds the puller's certificate.
    _directory: TempDir,
}

impl Served {
    /// With a certificate for these names and addresses.
    async fn by(names: &[&str]) -> Self {
        let (authority, clients) = (Authority::new(), Authority::new());
        let directory = TempDir::new().expect("a directory");
        let certificate = authority.server_cert(names);
        let (certificate, key) = certificate.write_to(directory.path()).expect("two files");
        let text = |path: PathBuf| path.display().to_string();
        let puller = Puller::start()
            .listen_on_loopback()
            .flag("--tls-cert", text(certificate))
            .flag("--tls-key", text(key))
            .flag("--tls-client-ca", text(clients.ca_file()))
            .await;
        Self {
            puller,
            authority,
            clients,
            _directory: directory,
        }
    }

    /// By this scheme and host.
    fn endpoint(&self, scheme: &str, host: &str) -> String {
        format!("{scheme}://{host}:{}", self.puller.tcp_address().port())
    }

    /// What a client needs that is let in.
    fn tls(&self) -> TlsOptions {
        TlsOptions {
            ca: Some(self.authority.pem().into_bytes()),
            identity: Some(identity(self.clients.client_cert("controller"))),
            server_name: None,
        }
    }

    fn client(&self) -> Client {
        Client::connect_with(&self.endpoint("https", "localhost"), &self.tls()).expect("an endpoint")
    }
}

fn identity(certificate: Certificate) -> (Vec<u8>, Vec<u8>) {
    (certificate.certificate.into_bytes(), certificate.key.into_bytes())
}

fn with_credentials(reference: &str) -> api::FetchRequest {
    api::FetchRequest {
        wish: Some(api::Wish {
            reference: reference.to_owned(),
            ..Default::default()
        }),
        claimant: "me".into(),
        credentials: Some(api::Credentials {
            dockerconfigjson: br#"{"auths": {}}"#.to_vec(),
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn who_shows_a_certificate_may_do_everything() {
    let registry = ScriptedRegistry::start().await;
    let served = Served::by(&["localhost", "127.0.0.1"]).await;
    let reference = registry.hold("team/app:v1", Image::new().layer(Layer::gzip().file("a", "b")));
    let client = served.client();
    let informer = Informer::start(client.clone(), Filter::default());
    let mut triggers = informer.triggers();
    // Credentials are let through here, as on the socket.
    let id = client
        .fetch(with_credentials(&reference))
        .await
        .expect("a Fetch")
        .id;
    within_patience("the content", async {
        let is_unpacked = |image: &api::Image| image.phase() == Phase::Unpacked;
        while !informer.get(&id).is_some_and(|image| is_unpacked(&image)) {
            triggers.next().await;
        }
    })
    .await;
    let by_address = Client::connect_with(&served.endpoint("https", "127.0.0.1"), &served.tls());
    let listing = by_address.expect("an endpoint").list("me").await.expect("a List");
    assert_eq!(
        listing.images,
        [(*informer.get(&id).expect("it is there")).clone()]
    );
}

#[tokio::test]
async fn grpcurl_gets_in_with_a_certificate() {
    let served = Served::by(&["localhost"]).await;
    let directory = TempDir::new().expect("a directory");
    let (certificate, key) = served
        .clients
        .client_cert("on-call")
        .write_to(directory.path())
        .expect("two files");
    let (address, ca) = (served.endpoint("", "localhost"), served.authority.ca_file());
    let address = address.trim_start_matches("://");
    let grpcurl = Grpcurl::tls(address, &ca, (&certificate, &key));
    let listed = grpcurl.call("puller.v1.Puller/List", serde_json::json!({})).await;
    assert!(listed.expect("List answers")["version"].is_string());
}

#[tokio::test]
async fn a_puller_that_is_not_the_right_one_is_not_spoken_to() {
    let served = Served::by(&["localhost"]).await;
    let (https, right) = (served.endpoint("https", "localhost"), served.tls());
    let stranger = Authority::new();
    for (what, endpoint, tls, said) in [
        (
            "a puller by another authority",
            https.clone(),
            TlsOptions {
                ca: Some(stranger.pem().into_bytes()),
                ..right.clone()
            },
            "invalid peer certificate",
        ),
        (
            "the system's authorities",
            https.clone(),
            TlsOptions {
                ca: None,
                ..right.clone()
            },
            "invalid peer certificate",
        ),
        (
            "another name",
            https.clone(),
            TlsOptions {
                server_name: Some("puller.example.com".into()),
                ..right.clone()
            },
            "puller.example.com",
        ),
        (
            "an address that the certificate does not name",
            served.endpoint("https", "127.0.0.1"),
            right.clone(),
            "127.0.0.1",
        ),
    ] {
        let client = Client::connect_with(&endpoint, &tls).expect("an endpoint");
        let error = client.list("").await.expect_err(what);
        assert!(
            matches!(error, Error::Tls { .. }) && error.is_transient(),
            "{what}: {error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(said) && text.contains(&endpoint), "{what}: {text}");
    }
}

#[tokio::test]
async fn who_is_not_let_in_is_told_what_to_look_at() {
    let served = Served::by(&["localhost"]).await;
    for (what, identity) in [
        ("no certificate", None),
        (
            "another authority's",
            Some(identity(Authority::new().client_cert("controller"))),
        ),
        (
            "a server's",
            Some(identity(served.clients.server_cert(&["controller"]))),
        ),
    ] {
        let tls = TlsOptions {
            identity,
            ..served.tls()
        };
        let client = Client::connect_with(&served.endpoint("https", "localhost"), &tls);
        let error = client.expect("an endpoint").list("").await.expect_err(what);
        let text = error.to_string();
        assert!(
            error.is_transient() && text.contains("--tls-client-ca"),
            "{what}: {error:?}"
        );
    }
}

#[tokio::test]
async fn plain_text_and_tls_do_not_mix() {
    let served = Served::by(&["localhost"]).await;
    let client = Client::connect(&served.endpoint("http", "localhost")).expect("an endpoint");
    let text = client.list("").await.expect_err("it speaks TLS").to_string();
    assert!(text.contains("With TLS the endpoint is https://"), "{text}");

    let plain = Puller::start().listen_on_loopback().await;
    let port = plain.tcp_address().port();
    let client = Client::connect_with(&format!("https://localhost:{port}"), &served.tls());
    let error = client
        .expect("an endpoint")
        .list("")
        .await
        .expect_err("it speaks no TLS");
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");

    // Nor do credentials go where everybody could read them.
    let client = Client::connect(&format!("http://localhost:{port}")).expect("an endpoint");
    let error = client.fetch(with_credentials("registry.example.com/a:v1")).await;
    let error = error.expect_err("they are secret");
    assert!(
        matches!(error, Error::Unauthenticated(_)) && !error.is_transient(),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_informer_waits_until_it_is_let_in() {
    let mut served = Served::by(&["localhost"]).await;
    let informer = Informer::start(served.client(), Filter::default());
    within_patience("the first sync", informer.synced()).await;
    served.puller.kill().await;
    let error = eventually("an error", || informer.last_error()).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    served.puller.start_again().await;
    eventually("the end of the error", || {
        informer.last_error().is_none().then_some(())
    })
    .await;
}
