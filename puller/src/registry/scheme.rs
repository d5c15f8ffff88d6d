//! Whether a registry is spoken to over TLS.
//!
//! Always, but for hosts that may use plain HTTP: loopback ones and those in the settings. These are
//! asked first whether they speak TLS, and the answer is remembered, so that a local registry works
//! with and without it and a certificate that is wrong is never answered by going without. A host that
//! has spoken TLS once is never again asked without it: our credentials would follow.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use url::{Host, Url};

use super::address::{Guard, Reach};

/// How long a server has to begin its half of a handshake. One that speaks TLS does so at once; one
/// that waits for the rest of an HTTP request says nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long it is remembered that a host does not speak TLS.
const REMEMBERED: Duration = Duration::from_secs(600);

/// First bytes of a TLS record that a server may begin with (RFC 8446 section 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// Knows which hosts may use plain HTTP and which do.
#[derive(Debug)]
pub(super) struct Schemes {
    plain: Vec<String>,
    tls: Arc<rustls::ClientConfig>,
    /// By host and port.
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Debug, Clone, Copy)]
enum Known {
    Tls,
    /// Found out then.
    Plain(Instant),
}

impl Schemes {
    pub(super) fn new(
        plain: &[String],
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Self, rustls::Error> {
        // Only the first message of a handshake is ever made of it; it trusts nobody.
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        Ok(Self {
            plain: plain.iter().map(|host| host.to_ascii_lowercase()).collect(),
            tls: Arc::new(tls),
            known: Mutex::default(),
        })
    }

    /// Whether TLS is to be spoken with this registry. `url` is its `https` URL; one that is
    /// `insecure` may use plain HTTP whatever the settings say.
    pub(super) async fn is_tls(&self, url: &Url, guard: &Guard, reach: Reach, insecure: bool) -> bool {
        let listed = self.may_be_plain(url);
        if !listed && !insecure {
            return true;
        }
        let name = super::fault::authority(url);
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match known.get(&name) {
                Some(Known::Tls) => return true,
                Some(Known::Plain(when)) if when.elapsed() < REMEMBERED => return false,
                _ => {}
            }
        }
        let Some(tls) = self.probe(url, guard, reach).await else {
            // Nobody is there (now), or only a proxy gets there. The request itself will say so; of a
            // host that nobody listed as plain, without our credentials in clear.
            return !listed;
        };
        tracing::debug!(registry = name, tls, "found out whether the registry speaks TLS");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two answers that cross, TLS stays.
        let tls = tls || matches!(known.get(&name), Some(Known::Tls));
        let answer = if tls {
            Known::Tls
        } else {
            Known::Plain(Instant::now())
        };
        known.insert(name, answer);
        tls
    }

    /// Forgets that a host does not speak TLS, because a request found it otherwise.
    pub(super) fn forget(&self, url: &Url) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let name = super::fault::authority(url);
        if let Some(Known::Plain(_)) = known.get(&name) {
            known.remove(&name);
        }
    }

    fn may_be_plain(&self, url: &Url) -> bool {
        let loopback = match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
            None => false,
        };
        let host = url.host_str().unwrap_or_default();
        let name = super::fault::authority(url);
        loopback || self.plain.iter().any(|plain| *plain == host || *plain == name)
    }

    /// Begins a handshake and looks at how the answer begins. `None`: there was no connection.
    async fn probe(&self, url: &Url, guard: &Guard, reach: Reach) -> Option<bool> {
        let port = url.port_or_known_default()?;
        let addresses = match url.host()? {
            Host::Domain(name) => guard.resolve(name, port, reach).await.ok()?,
            Host::Ipv4(address) => vec![SocketAddr::from((address, port))],
            Host::Ipv6(address) => vec![SocketAddr::from((address, port))],
        };
        guard.check(url, reach).ok()?;
        let connecting = TcpStream::connect(addresses.as_slice());
        let mut connection = tokio::time::timeout(PATIENCE, connecting).await.ok()?.ok()?;
        let hello = self.hello(url)?;
        // A server that closes or resets the connection on these bytes does not speak TLS.
        let mut first = [0];
        let exchange = async {
            connection.write_all(&hello).await?;
            connection.read(&mut first).await
        };
        match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(Ok(1)) => Some(matches!(first[0], ALERT | HANDSHAKE)),
            Ok(_) | Err(_) => Some(false),
        }
    }

    /// The first message of a handshake.
    fn hello(&self, url: &Url) -> Option<Vec<u8>> {
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
        let name = rustls::pki_types::ServerName::try_from(host.to_owned()).ok()?;
        let mut connection = rustls::ClientConnection::new(Arc::clone(&self.tls), name).ok()?;
        let mut hello = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut hello).ok()?;
        }
        Some(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_listed_hosts_may_be_plain() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let schemes = Schemes::new(&["Plain.corp".into(), "one.corp:5000".into()], provider).unwrap();
        for (url, may) in [
            ("https://localhost/", true),
            ("https://localhost.:1/", true),
            ("https://a.localhost/", true),
            ("https://127.0.0.2:5000/", true),
            ("https://[::1]:5000/", true),
            ("https://plain.corp/", true),
            ("https://plain.corp:5000/", true),
            ("https://one.corp:5000/", true),
            ("https://one.corp/", false),
            ("https://one.corp:5001/", false),
            ("https://localhost.example.com/", false),
            ("https://10.0.0.1/", false),
            ("https://quay.io/", false),
        ] {
            assert_eq!(schemes.may_be_plain(&url.parse().unwrap()), may, "{url}");
        }
    }

    #[test]
    fn only_plain_is_forgotten() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let schemes = Schemes::new(&[], provider).unwrap();
        let mut known = schemes.known.lock().unwrap();
        known.insert("localhost:1".into(), Known::Tls);
        known.insert("localhost:2".into(), Known::Plain(Instant::now()));
        drop(known);
        for port in [1, 2] {
            schemes.forget(&format!("http://localhost:{port}/").parse().unwrap());
        }
        let known = schemes.known.lock().unwrap();
        assert!(known.contains_key("localhost:1") && !known.contains_key("localhost:2"));
    }
}
