//! The platform of an image, by the names of the OCI image index.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// `os/architecture[/variant]`, such as `linux/arm/v7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Platform {
    /// Such as `linux`.
    pub os: String,
    /// Such as `amd64`.
    pub architecture: String,
    /// Such as `v7`; empty: any.
    #[serde(default)]
    pub variant: String,
}

/// Why a text is no platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the platform {0:?} is not valid: it is os/architecture or os/architecture/variant, such as linux/amd64"
)]
pub struct InvalidPlatform(String);

/// Longest part of a platform; the longest in use has 8 characters.
const MAX_PART: usize = 32;

impl Platform {
    /// Checks the parts.
    ///
    /// # Errors
    /// A part is missing, too long, or holds something other than letters, digits, `.`, `_` and `-`.
    pub fn new(os: &str, architecture: &str, variant: &str) -> Result<Self, InvalidPlatform> {
        let sound = |part: &str| {
            part.len() <= MAX_PART
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        };
        let platform = Self {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.to_owned(),
        };
        let parts = [os, architecture, variant];
        if os.is_empty() || architecture.is_empty() || !parts.into_iter().all(sound) {
            return Err(InvalidPlatform(platform.to_string().chars().take(100).collect()));
        }
        Ok(platform)
    }

    /// The platform that this program runs on.
    pub fn of_this_machine() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        };
        Self {
            os: std::env::consts::OS.to_owned(),
            architecture: architecture.to_owned(),
            variant: String::new(),
        }
    }
}

impl FromStr for Platform {
    type Err = InvalidPlatform;

    fn from_str(text: &str) -> Result<Self, InvalidPlatform> {
        let mut parts = text.splitn(3, '/');
        let mut part = || parts.next().unwrap_or_default();
        Self::new(part(), part(), part())
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_it_prints() {
        for text in ["linux/amd64", "linux/arm/v7", "windows/amd64"] {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_missing_and_odd_parts() {
        for text in ["", "linux", "linux/", "/amd64", "linux/amd 64", "linux/arm/v7/x"] {
            assert!(text.parse::<Platform>().is_err(), "{text:?} was accepted");
        }
    }
}
