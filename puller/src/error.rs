//! The crate's errors: one enum, one verdict on what is tried again ([`Reason::is_retried`]), and one
//! exit code for each class ([`Error::exit_code`]).

use std::{fmt, path::PathBuf, time::Duration};

use crate::domain::Reason;

pub mod exit;

pub use exit::Exit;

/// Why an attempt failed, in a form that always says what was asked, what happened and what would be
/// right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The class.
    pub reason: Reason,
    /// What was asked, such as `GET https://quay.io/v2/a/b/manifests/v1`.
    pub asked: String,
    /// What happened, such as `answered 401 Unauthorized`.
    pub happened: String,
    /// What would be right, such as `check the credentials for quay.io`; may be empty where nobody
    /// can do anything but wait.
    pub remedy: String,
    /// The registry's own wish for a pause before the next attempt.
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// A fault that says what was asked, what happened and what would be right.
    pub fn new(
        reason: Reason,
        asked: impl Into<String>,
        happened: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            reason,
            asked: asked.into(),
            happened: happened.into(),
            remedy: remedy.into(),
            retry_after: None,
        }
    }

    /// An operation on the volume that failed. No room (space, inodes or quota) is `no space`,
    /// anything else `internal`.
    pub fn volume(asked: impl Into<String>, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::new(
                Reason::NoSpace,
                asked,
                error.to_string(),
                "make room on the volume, in bytes and in inodes",
            ),
            _ => Self::new(
                Reason::Internal,
                asked,
                error.to_string(),
                "look at the volume and at the puller's log",
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.asked, self.happened)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Everything that can go wrong in this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag, a variable or the configuration file is wrong.
    #[error("configuration: {0}")]
    Config(String),
    /// The volume can't be used.
    #[error("volume {}: {problem}", path.display())]
    Volume {
        /// The volume's root.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Another puller has the volume.
    #[error("volume {}: another puller (pid {owner}) is using it; a volume has one puller", path.display())]
    VolumeTaken {
        /// The volume's root.
        path: PathBuf,
        /// What the lock file says of its owner.
        owner: String,
    },
    /// An address or socket can't be listened on.
    #[error("cannot listen on {address}: {problem}")]
    Listen {
        /// The address as it was configured.
        address: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The daemon can't be reached, or refused a call.
    #[error(transparent)]
    Client(#[from] puller_client::Error),
    /// A pull failed.
    #[error("{reason}: {0}", reason = .0.reason.words())]
    Pull(#[from] Fault),
    /// The command line's own input or output failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
