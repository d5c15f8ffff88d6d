//! Versions: `epoch.sequence`, opaque to clients.

use std::{fmt, str::FromStr};

/// A point in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Raised at each start of the puller.
    pub epoch: u64,
    /// Raised at each change.
    pub seq: u64,
}

/// The text is no version that this puller has given out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the version {0:?} is not valid: use one from an event, an image or a list, or none to begin anew")]
pub struct InvalidVersion(pub(super) String);

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let invalid = || InvalidVersion(text.chars().take(60).collect());
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        let (epoch, seq) = text.split_once('.').ok_or_else(invalid)?;
        Ok(Self {
            epoch: number(epoch).ok_or_else(invalid)?,
            seq: number(seq).ok_or_else(invalid)?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq)
    }
}
