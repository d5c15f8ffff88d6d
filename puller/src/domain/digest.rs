//! Content digests, as the OCI image-spec's "descriptor" section defines them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// A digest's algorithm. The image-spec registers sha256 and sha512; registries also meet sha384.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-256, what all registries use.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// The name as it stands before the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// Hex digits of a digest.
    pub fn hex_len(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }
}

/// A validated digest, such as `sha256:…`. Its parts hold nothing but lower-case hex digits, so they
/// may stand in a URL or a file name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: Box<str>,
}

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the digest {0:?} is not valid: it is sha256:, sha384: or sha512: and 64, 96 or 128 lower-case hex digits"
)]
pub struct InvalidDigest(String);

impl Digest {
    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The hex digits, without the algorithm.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// A name for a file or directory: `sha256-…`.
    pub fn file_name(&self) -> String {
        format!("{}-{}", self.algorithm.name(), self.hex)
    }

    /// The SHA-256 of some bytes.
    pub fn sha256(bytes: &[u8]) -> Self {
        let mut digester = Digester::new(Algorithm::Sha256);
        digester.update(bytes);
        digester.finish()
    }

    /// The digest of some bytes by this digest's algorithm; equal to it when they are its bytes.
    pub fn of_same_kind(&self, bytes: &[u8]) -> Self {
        let mut digester = Digester::new(self.algorithm);
        digester.update(bytes);
        digester.finish()
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        // Bounded, since the text may come from a registry and goes into an error message.
        let invalid = || InvalidDigest(text.chars().take(140).collect());
        let (name, hex) = text.split_once(':').ok_or_else(invalid)?;
        let algorithm = [Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(invalid)?;
        let digits = hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hex.len() != algorithm.hex_len() || !digits {
            return Err(invalid());
        }
        Ok(Self {
            algorithm,
            hex: hex.into(),
        })
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a [`Digest`] piece by piece.
#[derive(Clone)]
pub struct Digester(Kind);

#[derive(Clone)]
enum Kind {
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
}

impl Digester {
    /// Begins with no bytes.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => Kind::Sha256(Sha256::new()),
            Algorithm::Sha384 => Kind::Sha384(Sha384::new()),
            Algorithm::Sha512 => Kind::Sha512(Sha512::new()),
        })
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Kind::Sha256(hash) => hash.update(bytes),
            Kind::Sha384(hash) => hash.update(bytes),
            Kind::Sha512(hash) => hash.update(bytes),
        }
    }

    /// The digest of all bytes added.
    pub fn finish(self) -> Digest {
        let (algorithm, hex) = match self.0 {
            Kind::Sha256(hash) => (Algorithm::Sha256, hex::encode(hash.finalize())),
            Kind::Sha384(hash) => (Algorithm::Sha384, hex::encode(hash.finalize())),
            Kind::Sha512(hash) => (Algorithm::Sha512, hex::encode(hash.finalize())),
        };
        Digest {
            algorithm,
            hex: hex.into(),
        }
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digester").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn parses_what_it_prints() {
        let digest: Digest = EMPTY.parse().unwrap();
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(digest, Digest::sha256(b""));
        assert_eq!(digest.file_name(), EMPTY.replace(':', "-"));
    }

    #[test]
    fn refuses_what_could_leave_a_path_or_is_no_digest() {
        for text in [
            "",
            "sha256",
            "sha256:",
            "sha256:../../etc/passwd",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            &EMPTY.to_uppercase(),
            &EMPTY[..70],
            &format!("{EMPTY}0"),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn knows_the_longer_hashes() {
        for algorithm in [Algorithm::Sha384, Algorithm::Sha512] {
            let mut digester = Digester::new(algorithm);
            digester.update(b"abc");
            let digest = digester.finish();
            assert_eq!(digest.to_string().parse(), Ok(digest.clone()));
            assert_eq!(digest.of_same_kind(b"abc"), digest);
        }
    }
}
