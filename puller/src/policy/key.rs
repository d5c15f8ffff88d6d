//! Public keys, and whether a signature is theirs.

use std::fmt;

use aws_lc_rs::{
    rsa::PublicEncryptingKey,
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, ParsedPublicKey,
        RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
    },
};
use rustls::pki_types::{
    SubjectPublicKeyInfoDer, alg_id,
    pem::{Error as PemError, PemObject as _},
};

use crate::registry::quoted;

/// A key of the policy: what it is called there, and the key or why it can't be used.
pub(super) struct Key {
    name: String,
    parsed: Result<PublicKey, String>,
}

/// One key, once for each way in which it signs.
struct PublicKey(Vec<ParsedPublicKey>);

impl Key {
    /// A key by its PEM, or by why that could not be read.
    pub(super) fn new(name: String, pem: Result<Vec<u8>, String>) -> Self {
        let parsed = pem.and_then(|pem| PublicKey::parse(&pem));
        Self { name, parsed }
    }

    /// What the policy calls it: the file, or the position of its data.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Why it can't be used.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.parsed.as_ref().err()?;
        Some(format!("{}: {problem}", self.name))
    }

    /// Whether this key made that signature of that message.
    pub(super) fn made(&self, signature: &[u8], message: &[u8]) -> bool {
        self.parsed
            .as_ref()
            .is_ok_and(|PublicKey(ways)| ways.iter().any(|key| key.verify_sig(message, signature).is_ok()))
    }
}

impl PublicKey {
    fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem);
        let spki = match (keys.next(), keys.next()) {
            (Some(Ok(key)), None) => key,
            (Some(Err(PemError::NoItemsFound)), _) | (None, _) => {
                return Err("it holds no public key in PEM (BEGIN PUBLIC KEY)".to_owned());
            }
            (Some(Err(error)), _) => return Err(format!("it is no PEM: {}", quoted(&error.to_string()))),
            (Some(Ok(_)), Some(_)) => {
                return Err("something follows its first key; give each key a file of its own".to_owned());
            }
        };
        let ways: &[&'static dyn VerificationAlgorithm] = match algorithm_of(&spki) {
            Some(id) if id == alg_id::ECDSA_P256.as_ref() => &[&ECDSA_P256_SHA256_ASN1],
            // cosign has hashed with SHA-256 for each kind of key, and does so by the key's size since.
            Some(id) if id == alg_id::ECDSA_P384.as_ref() => {
                &[&ECDSA_P384_SHA384_ASN1, &ECDSA_P384_SHA256_ASN1]
            }
            Some(id) if id == alg_id::ED25519.as_ref() => &[&ED25519],
            Some(id) if id == alg_id::RSA_ENCRYPTION.as_ref() => {
                PublicEncryptingKey::from_der(&spki)
                    .map_err(|_| "it is no RSA key of 2048 to 8192 bits".to_owned())?;
                &[&RSA_PKCS1_2048_8192_SHA256]
            }
            _ => {
                return Err(
                    "it is a key of an unknown kind; ECDSA P-256 and P-384, RSA and Ed25519 are supported"
                        .to_owned(),
                );
            }
        };
        let parsed: Result<_, _> = ways
            .iter()
            .map(|algorithm| ParsedPublicKey::new(*algorithm, &spki))
            .collect();
        parsed
            .map(Self)
            .map_err(|error| format!("it is no sound public key: {error}"))
    }
}

/// The `AlgorithmIdentifier` of a `SubjectPublicKeyInfo` (RFC 5280 section 4.1), without its header:
/// the first of the two parts.
fn algorithm_of(spki: &[u8]) -> Option<&[u8]> {
    sequence(sequence(spki)?)
}

/// The contents of the DER sequence that some bytes begin with.
fn sequence(der: &[u8]) -> Option<&[u8]> {
    /// The tag of a sequence.
    const SEQUENCE: u8 = 0x30;
    let (&[tag, length], rest) = der.split_first_chunk()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 => {
            let (&[length], rest) = rest.split_first_chunk()?;
            (usize::from(length), rest)
        }
        // Keys of more than 64 KiB are none.
        0x82 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    rest.get(..length).filter(|_| tag == SEQUENCE)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("name", &self.name)
            .field("problem", &self.problem())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use rcgen::{
        KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _,
        SigningKey as _,
    };

    use super::*;

    fn key(pem: impl Into<Vec<u8>>) -> Key {
        Key::new("k".into(), Ok(pem.into()))
    }

    #[test]
    fn each_kind_of_key_knows_its_own_signatures() {
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
            let (ours, theirs) = (
                KeyPair::generate_for(algorithm).unwrap(),
                KeyPair::generate_for(algorithm).unwrap(),
            );
            let public = key(ours.public_key_pem());
            assert_eq!(public.problem(), None);
            let signature = ours.sign(b"message").unwrap();
            assert!(public.made(&signature, b"message"), "{algorithm:?}");
            assert!(!public.made(&signature, b"massage"));
            assert!(!public.made(&signature[1..], b"message"));
            assert!(!public.made(&[], b"message"));
            assert!(!public.made(&theirs.sign(b"message").unwrap(), b"message"));
        }
    }

    /// A P-384 key, and its signature of "message" with SHA-256, by openssl.
    const P384: &str = "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAECcOlZ7iXcZW6/Nz1asZM66qz6IebDY5VAsMJhckfxwr5qlU/DCudG3pPeSC46beEZP+jXgwGak9fuwYgkjRvfXdydGIGWRepqHSMn/J/HZRxThWIG2NIlKP4ADXtdO+h";
    const P384_SHA256: &str = "MGUCMAGtwIgpV/FkEb6W8boevuDAuiJ9LPe56vuC8/2Y3M9LsuzbQxRyLedwH2dv6WgqqQIxAM6ofNS7BV8T67NtzHOalbi9+fWJlipXzHqeYCttZgfVT9YajZtyIXD3UFvBudiw+A==";

    #[test]
    fn a_large_elliptic_key_may_hash_as_cosign_did() {
        let public = key(pem(&BASE64_STANDARD.decode(P384).unwrap()));
        let signature = BASE64_STANDARD.decode(P384_SHA256).unwrap();
        assert!(public.made(&signature, b"message"));
        assert!(!public.made(&signature, b"massage"));
    }

    #[test]
    fn rsa_keys_sign_with_pkcs1() {
        use aws_lc_rs::{
            encoding::AsDer as _,
            rand::SystemRandom,
            rsa::{KeyPair, KeySize},
            signature::{KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256},
        };
        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let public = key(pem(der.as_ref()));
        assert_eq!(public.problem(), None);
        let sign = |padding| {
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(padding, &SystemRandom::new(), b"message", &mut signature)
                .unwrap();
            signature
        };
        assert!(public.made(&sign(&RSA_PKCS1_SHA256), b"message"));
        assert!(!public.made(&sign(&RSA_PSS_SHA256), b"message"));
    }

    fn pem(der: &[u8]) -> String {
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            BASE64_STANDARD.encode(der)
        )
    }

    #[test]
    fn what_is_no_public_key_is_a_problem_and_never_fits() {
        let pair = KeyPair::generate().unwrap();
        let twice = format!("{0}{0}", pair.public_key_pem());
        let half = pem(&pair.subject_public_key_info()[..40]);
        for (pem, says) in [
            (String::new(), "no public key in PEM"),
            ("ssh-ed25519 AAAA".into(), "no public key in PEM"),
            (pair.serialize_pem(), "no public key in PEM"),
            (twice, "a file of its own"),
            (pem(b"\x30\x03\x30\x01\x05"), "unknown kind"),
            (pem(b"\x30\x80"), "unknown kind"),
            (half, "unknown kind"),
        ] {
            let key = key(pem);
            let problem = key.problem().unwrap();
            assert!(problem.contains(says), "{problem}");
            assert!(!key.made(&pair.sign(b"m").unwrap(), b"m"));
        }
        let unread = Key::new("/keys/a.pub".into(), Err("it is not there".into()));
        assert_eq!(unread.problem().unwrap(), "/keys/a.pub: it is not there");
    }
}
