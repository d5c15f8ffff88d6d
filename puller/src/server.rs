//! The listeners: the Unix socket, TCP where it is asked for, health for the kubelet, metrics for Prometheus.

mod metrics;
mod socket;

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use puller_api::v1::puller_server::PullerServer;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic_health::{
    pb::health_server::{Health, HealthServer},
    server::HealthReporter,
};

pub use self::socket::SocketFile;
use crate::{
    config::{ServerTls, Settings, TcpListen},
    daemon::Daemon,
    error::Error,
    grpc::Service,
};

/// A peer that is silent for this long is asked whether it is there, and given up after as much again:
/// a watcher whose machine died holds its connection no longer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// All listeners, bound and not serving yet.
#[derive(Debug)]
pub struct Listeners {
    socket: (SocketFile, UnixListener),
    tcp: Option<(TcpListen, TcpListener)>,
    health: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Listeners {
    /// Binds everything, so that a taken address is an error before anything is done.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub async fn bind(settings: &Settings) -> Result<Self, Error> {
        let socket = SocketFile::bind(&settings.socket, settings.socket_group.as_deref())?;
        let tcp = match &settings.listen {
            Some(listen) => Some((listen.clone(), bind_tcp(listen.address).await?)),
            None => None,
        };
        let optional = async |address: Option<SocketAddr>| match address {
            Some(address) => bind_tcp(address).await.map(Some),
            None => Ok(None),
        };
        Ok(Self {
            socket,
            tcp,
            health: optional(settings.health_address).await?,
            metrics: optional(settings.metrics_address).await?,
        })
    }

    /// Says where it listens, one line for each.
    pub fn announce(&self) {
        tracing::info!(address = %format_args!("unix://{}", self.socket.0.path().display()), "serves gRPC");
        if let Some((listen, listener)) = &self.tcp {
            let tls = if listen.tls.is_some() {
                "mutual TLS"
            } else {
                "plain text"
            };
            tracing::info!(address = ?listener.local_addr().ok(), tls, "serves gRPC");
        }
        if let Some(listener) = &self.health {
            tracing::info!(address = ?listener.local_addr().ok(), "serves health");
        }
        if let Some(listener) = &self.metrics {
            tracing::info!(address = ?listener.local_addr().ok(), "serves metrics");
        }
    }

    /// Serves until the token is cancelled and all calls have ended.
    ///
    /// # Errors
    /// A listener that fails, or certificates that can't be used.
    pub async fn serve(self, daemon: &Arc<Daemon>, stop: CancellationToken) -> Result<(), Error> {
        let Self {
            socket: (file, socket),
            tcp,
            health,
            metrics,
        } = self;
        let (reporter, health_service) = tonic_health::server::health_reporter();
        set_serving(&reporter, true).await;
        let ending = {
            let stop = stop.clone();
            let reporter = reporter.clone();
            async move {
                stop.cancelled().await;
                set_serving(&reporter, false).await;
            }
        };

        let over_socket = router(
            Server::builder(),
            Service::new(Arc::clone(daemon), true),
            health_service.clone(),
        )?
        .serve_with_incoming_shutdown(UnixListenerStream::new(socket), stop.clone().cancelled_owned());
        let over_tcp = async {
            let Some((listen, listener)) = tcp else {
                return Ok(());
            };
            let server = match &listen.tls {
                Some(tls) => Server::builder()
                    .tls_config(tls_config(tls)?)
                    .map_err(|error| tls_error(tls, &error))?,
                None => Server::builder(),
            };
            router(
                server,
                Service::new(Arc::clone(daemon), listen.tls.is_some()),
                health_service.clone(),
            )?
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned())
            .await
            .map_err(|error| failed(&listen.address.to_string(), &error))
        };
        let over_health = async {
            let Some(listener) = health else { return Ok(()) };
            let address = listener
                .local_addr()
                .map(|address| address.to_string())
                .unwrap_or_default();
            Server::builder()
                .add_service(health_service.clone())
                .serve_with_incoming_shutdown(
                    TcpListenerStream::new(listener),
                    stop.clone().cancelled_owned(),
                )
                .await
                .map_err(|error| failed(&address, &error))
        };
        let over_http = async {
            let Some(listener) = metrics else { return Ok(()) };
            metrics::serve(listener, Arc::clone(daemon), stop.clone().cancelled_owned())
                .await
                .map_err(|error| Error::Listen {
                    address: "the metrics' address".into(),
                    problem: error.to_string(),
                })
        };
        let path = file.path().display().to_string();
        let over_socket = async { over_socket.await.map_err(|error| failed(&path, &error)) };
        let ((), (), (), (), ()) = tokio::try_join!(over_socket, over_tcp, over_health, over_http, async {
            ending.await;
            Ok(())
        })?;
        drop(file);
        Ok(())
    }
}

async fn set_serving(reporter: &HealthReporter, serving: bool) {
    let status = if serving {
        tonic_health::ServingStatus::Serving
    } else {
        tonic_health::ServingStatus::NotServing
    };
    reporter.set_service_status("", status).await;
    reporter.set_service_status("puller.v1.Puller", status).await;
}

fn router(
    server: Server,
    service: Service,
    health: HealthServer<impl Health>,
) -> Result<tonic::transport::server::Router, Error> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(puller_api::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let broken = |error: tonic_reflection::server::Error| {
        Error::Config(format!("the built-in API description: {error}"))
    };
    Ok(server
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(PullerServer::new(service))
        .add_service(health)
        .add_service(reflection().build_v1().map_err(broken)?)
        .add_service(reflection().build_v1alpha().map_err(broken)?))
}

async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| Error::Listen {
        address: address.to_string(),
        problem: format!("{error}; choose an address of this machine and a free port"),
    })
}

fn tls_config(tls: &ServerTls) -> Result<ServerTlsConfig, Error> {
    let read = |path: &std::path::Path| {
        fs::read(path).map_err(|error| Error::Config(format!("cannot read {}: {error}", path.display())))
    };
    Ok(ServerTlsConfig::new()
        .identity(Identity::from_pem(read(&tls.cert)?, read(&tls.key)?))
        .client_ca_root(Certificate::from_pem(read(&tls.client_ca)?)))
}

fn tls_error(tls: &ServerTls, error: &tonic::transport::Error) -> Error {
    let detail = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Error::Config(format!(
        "the certificate {}, its key {} or the authority {} cannot be used: {detail}; all three are PEM files",
        tls.cert.display(),
        tls.key.display(),
        tls.client_ca.display()
    ))
}

fn failed(address: &str, error: &tonic::transport::Error) -> Error {
    Error::Listen {
        address: address.to_owned(),
        problem: error.to_string(),
    }
}
