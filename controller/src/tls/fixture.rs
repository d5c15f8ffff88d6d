//! Certificates for tests.

use std::{fs, path::PathBuf};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;

use super::{Profile, ProfileFlags, ServerTls};

/// A pair of files that goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Files {
    directory: TempDir,
}

impl Files {
    /// Makes a pair for `localhost`.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = Self { directory };
        files.renew();
        files
    }

    /// Replaces the pair, and returns the new certificate as PEM.
    pub(crate) fn renew(&self) -> String {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(self.cert(), cert.pem()).unwrap();
        fs::write(self.key(), signing_key.serialize_pem()).unwrap();
        cert.pem()
    }

    pub(crate) fn cert(&self) -> PathBuf {
        self.directory.path().join("tls.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.directory.path().join("tls.key")
    }

    /// Loads it.
    pub(crate) async fn load(&self, profile: &str) -> ServerTls {
        ServerTls::load(&self.cert(), &self.key(), of(profile))
            .await
            .unwrap()
    }
}

/// A profile by its name.
pub(crate) fn of(profile: &str) -> Profile {
    Profile::new(&ProfileFlags {
        profile,
        version: "TLSv1.2",
        ciphers: &[],
        curves: &[],
    })
    .unwrap()
}
