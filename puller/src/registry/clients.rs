//! The HTTP clients: one for each [`Reach`] and each way to do TLS.
//!
//! A client owns its connections, so a request never uses one that was made under other rules: a wider
//! reach, another client certificate, or no verification.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    address::{Guard, Reach, Resolver},
    proxy::Proxies,
    settings::Settings,
};
use crate::error::Error;

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

/// Makes clients and keeps them.
#[derive(Debug)]
pub(super) struct Clients {
    settings: Settings,
    roots: Vec<reqwest::Certificate>,
    proxies: Proxies,
    guard: Arc<Guard>,
    made: Mutex<HashMap<Profile, reqwest::Client>>,
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
        let clients = Self {
            settings: settings.clone(),
            roots,
            proxies,
            guard,
            made: Mutex::default(),
        };
        // What nearly all requests use is made at once, so that what is wrong is said at the start.
        for reach in [Reach::Public, Reach::Inside] {
            clients
                .of(&Profile {
                    reach,
                    insecure: false,
                })
                .map_err(|error| Error::Config(format!("the HTTP client: {error}")))?;
        }
        Ok(clients)
    }

    /// The client for this.
    pub(super) fn of(&self, profile: &Profile) -> Result<reqwest::Client, reqwest::Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(profile) {
            return Ok(client.clone());
        }
        let client = self.make(profile)?;
        made.insert(profile.clone(), client.clone());
        Ok(client)
    }

    fn make(&self, profile: &Profile) -> Result<reqwest::Client, reqwest::Error> {
        let roots = || self.roots.iter().cloned();
        let builder = || {
            self.proxies
                .apply(reqwest::Client::builder())
                .user_agent(&self.settings.user_agent)
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .connect_timeout(self.settings.connect_timeout)
                .pool_idle_timeout(POOL_IDLE)
                .tls_danger_accept_invalid_certs(profile.insecure)
                .dns_resolver(Resolver {
                    guard: Arc::clone(&self.guard),
                    reach: profile.reach,
                })
        };
        builder().tls_certs_merge(roots()).build().or_else(|error| {
            // An image without CA certificates must not keep plain registries from being pulled from.
            tracing::warn!(%error, "cannot use the system's CA certificates; only those of the CA files are trusted");
            builder().tls_certs_only(roots()).build()
        })
    }
}
