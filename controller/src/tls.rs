//! TLS of the servers: how it is spoken, and a certificate that may change while they run.

mod profile;

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum_server::tls_rustls::RustlsConfig;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use sha2::{Digest as _, Sha256};
use tokio::time::MissedTickBehavior;

pub use self::profile::{Profile, ProfileError, ProfileFlags};

/// How often the files are looked at. A kubelet replaces them within a minute or two of the Secret's change, so
/// nothing is gained by being told of it by the file system, which is told differently of each kind of volume.
const PERIOD: Duration = Duration::from_secs(10);
/// What is spoken over TLS, best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// How often a pair is read again that was replaced while it was read.
const READS: usize = 3;

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("cannot read {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A file is not PEM, or has not in it what it should.
    #[error("{path:?} holds no {what} as PEM: {problem}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is looked for in it.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The certificate and the key do not go together, or not with the profile.
    #[error("the certificate {cert:?} and the key {key:?} cannot be used: {source}")]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
}

/// TLS of servers, all of which have the certificate of now.
#[derive(Debug, Clone)]
pub struct ServerTls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cert: PathBuf,
    key: PathBuf,
    profile: Profile,
    config: RustlsConfig,
    /// Hash of the pair that was seen last, whether it can be used or not: a bad one is logged once.
    seen: Mutex<[u8; 32]>,
}

/// A pair of files as it was read.
struct Pair {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl ServerTls {
    /// Reads a certificate, with its chain, and its key.
    ///
    /// # Errors
    /// They can't be read or used.
    pub async fn load(cert: &Path, key: &Path, profile: Profile) -> Result<Self, TlsError> {
        let pair = Pair::read(cert, key).await?;
        let config = pair.config(cert, key, &profile)?;
        Ok(Self(Arc::new(Shared {
            cert: cert.to_owned(),
            key: key.to_owned(),
            profile,
            config: RustlsConfig::from_config(config),
            seen: Mutex::new(pair.hash()),
        })))
    }

    /// Reads the files again when they change, until `stop`. Connections that are open stay what they are, and
    /// a pair that can't be used changes nothing.
    pub async fn follow(&self, stop: impl Future<Output = ()>) {
        self.follow_every(PERIOD, stop).await;
    }

    /// What servers accept connections by.
    pub fn config(&self) -> RustlsConfig {
        self.0.config.clone()
    }

    async fn follow_every(&self, period: Duration, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unreadable = false;
        loop {
            tokio::select! {
                () = &mut stop => return,
                _ = ticks.tick() => {}
            }
            let looked = self.look().await;
            // While files are missing that is true at each look, and said once.
            let is_news = !(unreadable && matches!(looked, Err(TlsError::Read { .. })));
            unreadable = matches!(looked, Err(TlsError::Read { .. }));
            match looked {
                Ok(true) => tracing::info!(cert = ?self.0.cert, "serves with a new certificate"),
                Ok(false) => {}
                Err(error) if is_news => {
                    tracing::warn!(%error, "a new certificate can't be used, and the old one stays");
                }
                Err(_) => {}
            }
        }
    }

    /// Looks at the files, and uses what is new in them. Says whether something was.
    async fn look(&self) -> Result<bool, TlsError> {
        let Shared { cert, key, .. } = &*self.0;
        let pair = Pair::read(cert, key).await?;
        let hash = pair.hash();
        {
            let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == hash {
                return Ok(false);
            }
            *seen = hash;
        }
        self.0
            .config
            .reload_from_config(pair.config(cert, key, &self.0.profile)?);
        Ok(true)
    }
}

impl Pair {
    async fn read(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = async |path: &Path| {
            tokio::fs::read(path).await.map_err(|source| TlsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        let mut pair = Self {
            cert: read(cert).await?,
            key: read(key).await?,
        };
        // The files are replaced one after the other, or both at once between the two reads.
        for _ in 1..READS {
            let again = read(cert).await?;
            if again == pair.cert {
                break;
            }
            pair = Self {
                cert: again,
                key: read(key).await?,
            };
        }
        Ok(pair)
    }

    fn hash(&self) -> [u8; 32] {
        // The length keeps apart what would be the same bytes one after another.
        let length = (self.cert.len() as u64).to_le_bytes();
        let mut hash = Sha256::new();
        for part in [&length[..], &self.cert, &self.key] {
            hash.update(part);
        }
        hash.finalize().into()
    }

    fn config(&self, cert: &Path, key: &Path, profile: &Profile) -> Result<Arc<ServerConfig>, TlsError> {
        let pem = |path: &Path, what, problem: String| TlsError::Pem {
            path: path.to_owned(),
            what,
            problem,
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&self.cert)
            .collect::<Result<_, _>>()
            .map_err(|error| pem(cert, "certificate", error.to_string()))?;
        if chain.is_empty() {
            return Err(pem(cert, "certificate", "there is none".to_owned()));
        }
        let private = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| pem(key, "private key", error.to_string()))?;
        let unusable = |source| TlsError::Pair {
            cert: cert.to_owned(),
            key: key.to_owned(),
            source,
        };
        let mut config = ServerConfig::builder_with_provider(profile.provider())
            .with_protocol_versions(profile.versions())
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(unusable)?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
