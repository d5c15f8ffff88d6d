//! The HTTP clients: one for each [`Reach`] and each way to do TLS.
//!
//! A client owns its connections, so a request never uses one that was made under other rules: a wider
//! reach, another client certificate, or no verification.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use url::Url;

use dials::Dials;

use super::{
    address::{Guard, Reach, Resolver},
    certs::{Certs, HostTls},
    fault,
    proxy::Proxies,
    settings::Settings,
};
use crate::{
    domain::Reason,
    error::{Error, Fault},
};

mod dials;

/// Load balancers close idle connections after a minute or so; we do it first.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// What a client is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Profile {
    /// What may be dialled.
    pub(super) reach: Reach,
    /// Accept any certificate. Only for an endpoint that its administrator called insecure: whoever
    /// sits on the way can read and change everything, credentials included.
    pub(super) insecure: bool,
}

/// An HTTP client that counts its connections.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) http: reqwest::Client,
    dials: Dials,
}

impl Client {
    /// Connections that were begun so far. As long as this stays the same, a request uses one that was
    /// kept.
    pub(super) fn dials(&self) -> u64 {
        self.dials.0.load(Ordering::Relaxed)
    }
}

/// A client, and what it was made of.
type Made = (Option<Arc<HostTls>>, Client);

/// Makes clients and keeps them.
#[derive(Debug)]
pub(super) struct Clients {
    settings: Settings,
    roots: Vec<reqwest::Certificate>,
    proxies: Proxies,
    guard: Arc<Guard>,
    certs: Certs,
    /// By the host too where it has certificates of its own.
    made: Mutex<HashMap<(Profile, Option<String>), Made>>,
}

impl Clients {
    /// # Errors
    /// A CA file can't be used, or no client can be made.
    pub(super) fn new(settings: &Settings, proxies: Proxies, guard: Arc<Guard>) -> Result<Self, Error> {
        let mut roots = Vec::new();
        for file in &settings.ca_files {
            let bad = |problem: String| Error::Config(format!("the CA file {}: {problem}", file.display()));
            let pem = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
            let found =
                reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| bad(error.to_string()))?;
            if found.is_empty() {
                return Err(bad("holds no certificate in PEM form".to_owned()));
            }
            roots.extend(found);
        }
        warn_of_missing_roots();
        let clients = Self {
            settings: settings.clone(),
            roots,
            proxies,
            guard,
            certs: Certs::new(settings.certs_dirs.clone()),
            made: Mutex::default(),
        };
        // What nearly all requests use is made at once, so that what is wrong is said at the start.
        for reach in [Reach::Public, Reach::Inside] {
            clients
                .made(
                    &Profile {
                        reach,
                        insecure: false,
                    },
                    None,
                )
                .map_err(|error| Error::Config(format!("the HTTP client: {error}")))?;
        }
        Ok(clients)
    }

    /// The client for a request to this URL, whose host and port are `host`.
    ///
    /// # Errors
    /// Its host's certificates can't be used.
    pub(super) fn of(&self, profile: &Profile, asked: &str, url: &Url, host: &str) -> Result<Client, Fault> {
        let certs = if url.scheme() == "https" {
            self.certs.of(url, host).map_err(|unusable| {
                let happened = format!("the certificates for {host} cannot be used: {unusable}");
                Fault::new(Reason::Tls, asked, happened, unusable.remedy)
            })?
        } else {
            None
        };
        let of_host = certs.as_ref().map(|_| host.to_owned());
        self.made(profile, of_host.zip(certs)).map_err(|error| {
            Fault::new(
                Reason::Tls,
                asked,
                format!("no TLS client for {host} can be made: {}", fault::cause(&error)),
                format!("check that the .cert and .key for {host} belong together"),
            )
        })
    }

    fn made(&self, profile: &Profile, own: Option<(String, Arc<HostTls>)>) -> Result<Client, reqwest::Error> {
        let (host, certs) = own.unzip();
        let key = (profile.clone(), host);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, client)) = made.get(&key) {
            let same = match (of, &certs) {
                (Some(of), Some(certs)) => of.is(certs),
                (of, certs) => of.is_none() && certs.is_none(),
            };
            if same {
                return Ok(client.clone());
            }
        }
        let client = self.make(profile, certs.as_deref())?;
        // A client of before goes with its idle connections; requests under way keep theirs.
        made.insert(key, (certs, client.clone()));
        Ok(client)
    }

    fn make(&self, profile: &Profile, certs: Option<&HostTls>) -> Result<Client, reqwest::Error> {
        let dials = Dials::default();
        let own_roots = certs.map(|certs| certs.roots.as_slice()).unwrap_or_default();
        let roots = || self.roots.iter().chain(own_roots).cloned();
        let builder = || {
            let builder = self.proxies.apply(reqwest::Client::builder());
            match certs.and_then(|certs| certs.identity.clone()) {
                Some(identity) => builder.identity(identity),
                None => builder,
            }
            .user_agent(&self.settings.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.settings.connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .connector_layer(dials.clone())
            .tls_danger_accept_invalid_certs(profile.insecure)
            .dns_resolver(Resolver {
                guard: Arc::clone(&self.guard),
                reach: profile.reach,
            })
        };
        let http = builder().tls_certs_merge(roots()).build().or_else(|error| {
            // An image without CA certificates must not keep plain registries from being pulled from.
            tracing::warn!(%error, "cannot use the system's CA certificates; only those of the CA files are trusted");
            builder().tls_certs_only(roots()).build()
        })?;
        Ok(Client { http, dials })
    }
}

/// Says which of the places that are to replace the system's authorities are not there: the TLS library
/// goes on without them.
fn warn_of_missing_roots() {
    let file = std::env::var_os("SSL_CERT_FILE").map(|file| ("SSL_CERT_FILE", file.into()));
    let directories = std::env::var_os("SSL_CERT_DIR").unwrap_or_default();
    let directories = std::env::split_paths(&directories)
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| ("SSL_CERT_DIR", path));
    for (variable, path) in file.into_iter().chain(directories) {
        let path: std::path::PathBuf = path;
        if let Err(error) = std::fs::metadata(&path) {
            tracing::warn!(variable, path = %path.display(), %error, "no authorities can be read there; certificates that need them are not accepted");
        }
    }
}
