//! Where a puller is, and how to dial it.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{self, Certificate, Channel, ClientTlsConfig, Identity};

use crate::Error;

/// A puller is a neighbour: whoever does not accept by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A ping goes out when nothing was heard for this long, so that a peer that vanished (a suspended
/// node, a cut network) is noticed although a Watch may be silent for days.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long the answer to a ping may take. Generous: the puller may be starved of CPU for a while.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a puller listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket, by its absolute path.
    Unix(PathBuf),
    /// TCP in plain text.
    Http(http::Uri),
    /// TCP with TLS.
    Https(http::Uri),
}

/// What `https://` needs besides the address.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// The authorities that the server's certificate is checked against, PEM. `None`: the system's.
    pub ca: Option<Vec<u8>>,
    /// The client's certificate chain and private key, PEM. `None`: no client certificate is shown.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name that the server's certificate must bear. `None`: the endpoint's host.
    pub server_name: Option<String>,
}

/// Shows what is set, never a key.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish()
    }
}

impl TlsOptions {
    fn is_empty(&self) -> bool {
        let Self {
            ca,
            identity,
            server_name,
        } = self;
        ca.is_none() && identity.is_none() && server_name.is_none()
    }

    fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new();
        config = match &self.ca {
            Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
            None => config.with_native_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        config
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |problem: &str| Error::InvalidEndpoint {
            endpoint: text.escape_debug().take(200).collect(),
            problem: problem.to_owned(),
        };
        // `unix:///path` and gRPC's own `unix:/path` mean the same.
        if let Some(path) = text
            .strip_prefix("unix://")
            .or_else(|| text.strip_prefix("unix:"))
        {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(PathBuf::from(path))),
                false => Err(invalid("the socket's path is not absolute")),
            };
        }
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        let uri: http::Uri = text.parse().map_err(|_| invalid("it is no URI"))?;
        if uri.host().is_none_or(str::is_empty) {
            return Err(invalid("it has no scheme or no host"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("it has something after the host and port"));
        }
        match uri.scheme_str() {
            Some("http") => Ok(Self::Http(uri)),
            Some("https") => Ok(Self::Https(uri)),
            _ => Err(invalid("its scheme is none of unix, http and https")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Http(uri) | Self::Https(uri) => {
                let text = uri.to_string();
                f.write_str(text.trim_end_matches('/'))
            }
        }
    }
}

impl Endpoint {
    /// A channel that dials at the first call, and again at the next call after it broke.
    pub(crate) fn channel(&self, tls: &TlsOptions) -> Result<Channel, Error> {
        let invalid = |problem: String| Error::InvalidEndpoint {
            endpoint: self.to_string(),
            problem,
        };
        if !matches!(self, Self::Https(_)) && !tls.is_empty() {
            return Err(invalid("TLS options are for https:// endpoints".into()));
        }
        let tuned = |endpoint: transport::Endpoint| {
            endpoint
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true)
                .tcp_nodelay(true)
        };
        match self {
            Self::Unix(path) => {
                // Our own connector, since the path of a socket need not be a valid URI. The host
                // below goes into the `:authority` header and nowhere else.
                let path = path.clone();
                let connector = tower::service_fn(move |_: http::Uri| {
                    let path = path.clone();
                    async move { UnixStream::connect(path).await.map(TokioIo::new) }
                });
                let endpoint = tuned(transport::Endpoint::from_static("http://localhost"));
                Ok(endpoint.connect_with_connector_lazy(connector))
            }
            Self::Http(uri) => Ok(tuned(transport::Endpoint::from(uri.clone())).connect_lazy()),
            Self::Https(uri) => {
                let endpoint = tuned(transport::Endpoint::from(uri.clone()))
                    .tls_config(tls.config())
                    .map_err(|error| invalid(format!("TLS: {}", crate::error::chain(&error))))?;
                Ok(endpoint.connect_lazy())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_endpoint() {
        let unix = Endpoint::Unix("/run/p.sock".into());
        for text in ["unix:///run/p.sock", "unix:/run/p.sock", "/run/p.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap(), unix, "{text}");
        }
        assert_eq!(unix.to_string(), "unix:///run/p.sock");
        for text in [
            "http://localhost:50051",
            "https://puller.example.com",
            "http://[::1]:50051",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_with_the_reason() {
        for (text, problem) in [
            ("", "no URI"),
            ("unix://run/p.sock", "not absolute"),
            ("unix:p.sock", "not absolute"),
            ("localhost:50051", "none of unix, http and https"),
            ("localhost", "none of unix, http and https"),
            ("http://", "no URI"),
            ("ftp://localhost", "none of unix, http and https"),
            ("http://localhost/path", "after the host"),
            ("http://localhost?x=1", "after the host"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }

    #[tokio::test]
    async fn tls_options_without_tls_are_refused() {
        let tls = TlsOptions {
            server_name: Some("puller".into()),
            ..TlsOptions::default()
        };
        for text in ["/run/p.sock", "http://localhost:1"] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert!(
                endpoint
                    .channel(&tls)
                    .unwrap_err()
                    .to_string()
                    .contains("https://")
            );
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let tls = TlsOptions {
            identity: Some((b"certificate".to_vec(), b"hunter2".to_vec())),
            ..TlsOptions::default()
        };
        let bytes = format!("{:?}", b"hunter2");
        let shown = format!("{tls:?}");
        assert!(!shown.contains("hunter2") && !shown.contains(&bytes), "{shown}");
    }
}
