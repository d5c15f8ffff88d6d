//! The controller's errors, and what each means for the next try.

use std::{io, process::ExitCode, time::Duration};

use crate::store::StoreError;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag, file or variable is not right. Nothing is tried again.
    #[error("{0}")]
    Config(String),
    /// The API server refused, or did not answer.
    #[error("cannot {what}: {source}")]
    Api {
        /// What was asked.
        what: &'static str,
        /// What happened.
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("cannot {what}: the API server did not answer within {patience:?}")]
    Silence {
        /// What was asked.
        what: &'static str,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The disk refused.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// An address can't be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What happened.
        source: io::Error,
    },
    /// The program can't run.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// When somebody else wrote at the same moment.
const AT_ONCE: Duration = Duration::from_millis(50);
/// When the API server or the disk refused.
const LATER: Duration = Duration::from_secs(3);

impl Error {
    /// An error of the API server.
    pub fn api(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api {
            what,
            source: Box::new(source),
        }
    }

    /// Whether the object was changed by somebody else meanwhile, which is no fault.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(&**source, kube::Error::Api(status) if status.is_conflict()))
    }

    /// When a reconcile that ended with this is tried again: the one place that says so.
    pub fn retry_after(&self) -> Duration {
        if self.is_conflict() { AT_ONCE } else { LATER }
    }

    /// How the program ends with this (sysexits.h): 78 for what a person must set right, 74 for disks and
    /// addresses, 69 for the API server.
    pub fn exit_code(&self) -> ExitCode {
        const UNAVAILABLE: u8 = 69;
        const IO: u8 = 74;
        const CONFIG: u8 = 78;
        ExitCode::from(match self {
            Self::Config(_) => CONFIG,
            Self::Api { .. } | Self::Silence { .. } => UNAVAILABLE,
            Self::Store(_) | Self::Listen { .. } | Self::Io(_) => IO,
        })
    }
}
