//! Which versions, ciphers and curves servers speak: Mozilla's profiles, by the names that catalogd's flags have.

use std::sync::Arc;

use rustls::{
    CipherSuite, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{
        CryptoProvider, SupportedKxGroup,
        aws_lc_rs::{self, kx_group},
    },
    version::{TLS12, TLS13},
};

/// Ciphers of TLS 1.2, by their names in Go, which are those of the RFCs.
const TLS12_CIPHERS: [(&str, CipherSuite); 6] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];
/// Those of TLS 1.3.
const TLS13_CIPHERS: [(&str, CipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
];
/// The curves of Mozilla's profiles, best first.
const CURVES: [&str; 4] = ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];
/// A list of versions.
type Versions = &'static [&'static SupportedProtocolVersion];
/// From TLS 1.2 on.
static FROM_12: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
/// From TLS 1.3 on.
static FROM_13: [&SupportedProtocolVersion; 1] = [&TLS13];
/// Said where less is spoken than was asked for.
const OLD: &str = "the TLS profile \"old\" asks for TLS 1.0 and 1.1 and for ciphers without forward secrecy, none of \
                   which is offered here: clients need TLS 1.2, as with \"intermediate\"";

/// The flags that choose a profile.
#[derive(Debug, Clone, Copy)]
pub struct ProfileFlags<'a> {
    /// `--tls-profile`.
    pub profile: &'a str,
    /// `--tls-custom-version`.
    pub version: &'a str,
    /// `--tls-custom-ciphers`; none: all.
    pub ciphers: &'a [String],
    /// `--tls-custom-curves`; none: those of the other profiles.
    pub curves: &'a [String],
}

/// Why there is no such profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name.
    #[error("--tls-profile={0}: there is \"modern\", \"intermediate\", \"old\" and \"custom\"")]
    Profile(String),
    /// A version that is not spoken.
    #[error("--tls-custom-version={0}: there is TLSv1.2 and TLSv1.3")]
    Version(String),
    /// A cipher that is not offered.
    #[error("--tls-custom-ciphers: {0} is not offered; there is {all}", all = names(&[&TLS13_CIPHERS, &TLS12_CIPHERS]))]
    Cipher(String),
    /// Ciphers of which none is one of the least version's or a later one's.
    #[error("--tls-custom-ciphers: with TLSv1.3 at least one of {all} is needed", all = names(&[&TLS13_CIPHERS]))]
    NoCipher,
    /// A curve that is not offered.
    #[error(
        "--tls-custom-curves: {0} is not offered; there is X25519MLKEM768, SecP256r1MLKEM768, X25519, secp256r1 and secp384r1"
    )]
    Curve(String),
}

/// How TLS is spoken.
#[derive(Debug, Clone)]
pub struct Profile {
    provider: Arc<CryptoProvider>,
    versions: Versions,
    warning: Option<&'static str>,
}

impl Profile {
    /// The profile that flags choose.
    ///
    /// # Errors
    /// They name something that is not offered here.
    pub fn new(flags: &ProfileFlags<'_>) -> Result<Self, ProfileError> {
        match flags.profile {
            "modern" => Self::of(&FROM_13, &[], &[]),
            "intermediate" => Self::of(&FROM_12, &[], &[]),
            "old" => Ok(Self {
                warning: Some(OLD),
                ..Self::of(&FROM_12, &[], &[])?
            }),
            "custom" => {
                let versions: Versions = match flags.version {
                    "TLSv1.2" => &FROM_12,
                    "TLSv1.3" => &FROM_13,
                    other => return Err(ProfileError::Version(other.to_owned())),
                };
                Self::of(versions, flags.ciphers, flags.curves)
            }
            other => Err(ProfileError::Profile(other.to_owned())),
        }
    }

    /// What to say of a profile that is not quite what was asked for.
    pub fn warning(&self) -> Option<&str> {
        self.warning
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.provider)
    }

    pub(super) fn versions(&self) -> Versions {
        self.versions
    }

    fn of(versions: Versions, ciphers: &[String], curves: &[String]) -> Result<Self, ProfileError> {
        // A flag that is there and empty names an empty string.
        let ciphers: Vec<&str> = ciphers
            .iter()
            .map(|name| name.trim())
            .filter(|name| !name.is_empty())
            .collect();
        let curves: Vec<&str> = curves
            .iter()
            .map(|name| name.trim())
            .filter(|name| !name.is_empty())
            .collect();
        let curves = if curves.is_empty() {
            CURVES.to_vec()
        } else {
            curves
        };
        let cipher_suites = suites(&ciphers)?;
        if !cipher_suites
            .iter()
            .any(|suite| versions.contains(&suite.version()))
        {
            return Err(ProfileError::NoCipher);
        }
        Ok(Self {
            provider: Arc::new(CryptoProvider {
                cipher_suites,
                kx_groups: curves.into_iter().map(group).collect::<Result<_, _>>()?,
                ..aws_lc_rs::default_provider()
            }),
            versions,
            warning: None,
        })
    }
}

/// The ciphers of these names. As in Go, names of TLS 1.2 say nothing about TLS 1.3, which has all of its
/// ciphers then; unlike there, some can be chosen by naming them.
fn suites(names: &[&str]) -> Result<Vec<SupportedCipherSuite>, ProfileError> {
    let of = |names: &[&str], table: &[(&str, CipherSuite)]| -> Vec<CipherSuite> {
        let found = |name: &&str| table.iter().find(|(known, _)| known == name);
        names.iter().filter_map(found).map(|(_, suite)| *suite).collect()
    };
    let all = |table: &[(&str, CipherSuite)]| table.iter().map(|(_, suite)| *suite).collect::<Vec<_>>();
    let known = |name: &str| {
        TLS13_CIPHERS
            .iter()
            .chain(&TLS12_CIPHERS)
            .any(|(known, _)| *known == name)
    };
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(ProfileError::Cipher((*unknown).to_owned()));
    }
    let mut chosen = of(names, &TLS13_CIPHERS);
    if chosen.is_empty() {
        chosen = all(&TLS13_CIPHERS);
    }
    chosen.extend(match names.is_empty() {
        true => all(&TLS12_CIPHERS),
        false => of(names, &TLS12_CIPHERS),
    });
    let offered = |suite: &CipherSuite| {
        let mut all = aws_lc_rs::ALL_CIPHER_SUITES.iter();
        all.find(|offered| offered.suite() == *suite).copied()
    };
    Ok(chosen.iter().filter_map(offered).collect())
}

fn group(name: &str) -> Result<&'static dyn SupportedKxGroup, ProfileError> {
    Ok(match name {
        "X25519MLKEM768" => kx_group::X25519MLKEM768,
        "SecP256r1MLKEM768" => kx_group::SECP256R1MLKEM768,
        "X25519" => kx_group::X25519,
        "secp256r1" | "prime256v1" | "CurveP256" | "P-256" => kx_group::SECP256R1,
        "secp384r1" | "CurveP384" | "P-384" => kx_group::SECP384R1,
        other => return Err(ProfileError::Curve(other.to_owned())),
    })
}

fn names(tables: &[&[(&str, CipherSuite)]]) -> String {
    let names: Vec<&str> = tables
        .iter()
        .flat_map(|table| table.iter())
        .map(|(name, _)| *name)
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(
        profile: &str,
        version: &str,
        ciphers: &[&str],
        curves: &[&str],
    ) -> Result<Profile, ProfileError> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Profile::new(&ProfileFlags {
            profile,
            version,
            ciphers: &owned(ciphers),
            curves: &owned(curves),
        })
    }

    #[test]
    fn profiles_are_what_their_names_say() {
        const RSA: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        for (name, version, ciphers, curves, versions, suites, groups) in [
            ("modern", "TLSv1.2", &[][..], &[][..], 1, 9, 4),
            ("intermediate", "", &[], &[], 2, 9, 4),
            // What is custom is looked at with that profile only.
            ("intermediate", "SSLv3", &["RC4"], &["P-521"], 2, 9, 4),
            ("old", "", &[], &[], 2, 9, 4),
            ("custom", "TLSv1.2", &[], &[], 2, 9, 4),
            ("custom", "TLSv1.2", &[""], &[""], 2, 9, 4),
            ("custom", "TLSv1.3", &[RSA], &["X25519"], 1, 4, 1),
            (
                "custom",
                "TLSv1.2",
                &[RSA],
                &["secp256r1", "X25519MLKEM768", "SecP256r1MLKEM768"],
                2,
                4,
                3,
            ),
            (
                "custom",
                "TLSv1.2",
                &[RSA, "TLS_AES_256_GCM_SHA384"],
                &[],
                2,
                2,
                4,
            ),
            ("custom", "TLSv1.2", &["TLS_AES_256_GCM_SHA384"], &[], 2, 1, 4),
        ] {
            let profile = profile(name, version, ciphers, curves).unwrap();
            let provider = profile.provider();
            assert_eq!(profile.versions().len(), versions, "{name}");
            assert_eq!(provider.cipher_suites.len(), suites, "{name} {ciphers:?}");
            assert_eq!(provider.kx_groups.len(), groups, "{name} {curves:?}");
            assert_eq!(profile.warning().is_some(), name == "old");
        }
    }

    #[test]
    fn what_is_not_offered_is_refused_with_its_name() {
        for (name, version, ciphers, curves, named) in [
            ("Modern", "", &[][..], &[][..], "Modern"),
            ("custom", "TLSv1.1", &[], &[], "TLSv1.1"),
            ("custom", "", &[], &[], "TLSv1.2"),
            (
                "custom",
                "TLSv1.2",
                &["TLS_RSA_WITH_AES_128_CBC_SHA"],
                &[],
                "TLS_RSA_WITH_AES_128_CBC_SHA",
            ),
            ("custom", "TLSv1.2", &[], &["X25519", "secp521r1"], "secp521r1"),
            (
                "custom",
                "TLSv1.2",
                &[],
                &["SecP384r1MLKEM1024"],
                "SecP384r1MLKEM1024",
            ),
        ] {
            let error = profile(name, version, ciphers, curves).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
