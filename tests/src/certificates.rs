//! A certificate authority of the scenario's own.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;

/// Signs certificates; its own is in a file that clients can be told to trust.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// A new authority, trusted by nobody yet.
    ///
    /// # Panics
    /// The temporary directory can't be written.
    pub fn new() -> Self {
        Self::try_new().expect("a certificate authority")
    }

    fn try_new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "the scenarios' authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let directory = TempDir::new()?;
        fs::write(directory.path().join("ca.crt"), issuer.pem()).context("the authority's certificate")?;
        Ok(Self { issuer, directory })
    }

    /// A file with the authority's certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// A directory that holds nothing but that file, as skopeo's `--src-cert-dir` wants it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The authority's certificate in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server with these names and addresses.
    ///
    /// # Panics
    /// A name is none.
    pub fn server_cert(&self, names: &[&str]) -> Certificate {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client.
    pub fn client_cert(&self, name: &str) -> Certificate {
        self.sign(&[name], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], usage: ExtendedKeyUsagePurpose) -> Certificate {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(names).expect("names for a certificate");
        params.extended_key_usages.push(usage);
        let certificate = params.signed_by(&key, &self.issuer).expect("a signature");
        Certificate {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Certificate {
    /// Writes both to a directory, as `server.crt` and `server.key`.
    ///
    /// # Errors
    /// The directory can't be written.
    pub fn write_to(&self, directory: &Path) -> io::Result<(PathBuf, PathBuf)> {
        let paths = (directory.join("server.crt"), directory.join("server.key"));
        fs::write(&paths.0, &self.certificate)?;
        fs::write(&paths.1, &self.key)?;
        Ok(paths)
    }

    /// What a TLS server of ours needs; it speaks HTTP/1.1. With an authority of the clients, it lets
    /// nobody in who shows no certificate by it.
    pub(crate) fn server_config(&self, clients: Option<&Authority>) -> anyhow::Result<Arc<ServerConfig>> {
        install_crypto_provider();
        let chain = vec![CertificateDer::from_pem_slice(self.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let builder = match clients {
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
            None => ServerConfig::builder().with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

/// Chooses the process's TLS library; the first call counts, later ones change nothing.
pub(crate) fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // A race with another thread's call is lost harmlessly: both install the same provider.
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
    }
}
