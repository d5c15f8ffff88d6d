//! The exit codes: one for each class of failure, so that a script can tell what to do next.

use super::Error;
use crate::domain::Reason;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// What was asked is done.
    Success = 0,
    /// A fault of the puller, or of its input or output.
    Internal = 1,
    /// The command line is wrong; clap's own code.
    Usage = 2,
    /// Credentials.
    Unauthorized = 10,
    /// It is not there.
    NotFound = 11,
    /// The registry or the way to it; trying again later may help.
    Registry = 12,
    /// No room.
    NoSpace = 13,
    /// Other bytes than those of the digest.
    DigestMismatch = 14,
    /// The request can't be right.
    Invalid = 15,
    /// The image has no such part.
    NoSuchPart = 16,
    /// The image can't be unpacked.
    Unsupported = 17,
    /// The image must not be unpacked.
    Unsafe = 18,
    /// A policy says no.
    Policy = 19,
    /// No daemon.
    Unreachable = 20,
    /// The daemon says no.
    Refused = 21,
    /// The volume.
    Volume = 22,
    /// An address or socket.
    Listen = 23,
    /// The settings of `puller serve`; `EX_USAGE` of sysexits.h, as other daemons have it.
    Config = 64,
}

impl Exit {
    /// All, in rising order.
    pub const ALL: [Self; 18] = [
        Self::Success,
        Self::Internal,
        Self::Usage,
        Self::Unauthorized,
        Self::NotFound,
        Self::Registry,
        Self::NoSpace,
        Self::DigestMismatch,
        Self::Invalid,
        Self::NoSuchPart,
        Self::Unsupported,
        Self::Unsafe,
        Self::Policy,
        Self::Unreachable,
        Self::Refused,
        Self::Volume,
        Self::Listen,
        Self::Config,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it means, for the help.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => "done",
            Self::Internal => "internal: a fault of the puller, or of its input or output",
            Self::Usage => "usage: the command line is wrong",
            Self::Unauthorized => "unauthorized, forbidden: credentials",
            Self::NotFound => "not found: the image at its registry, or in the daemon",
            Self::Registry => "network, TLS, timeout, rate limited, registry error",
            Self::NoSpace => "no space on the volume",
            Self::DigestMismatch => "digest mismatch",
            Self::Invalid => "invalid reference or request",
            Self::NoSuchPart => "platform not found, selection not found",
            Self::Unsupported => "unsupported media type, malformed layer",
            Self::Unsafe => "unsafe layer, limit exceeded",
            Self::Policy => "verification failed, blocked by policy",
            Self::Unreachable => "the daemon can't be reached or is not available",
            Self::Refused => "the daemon refused the call",
            Self::Volume => "the volume can't be used, or another puller uses it",
            Self::Listen => "cannot listen on an address or socket",
            Self::Config => "configuration: a flag, a variable or the file of `serve` is wrong",
        }
    }

    /// The class of a reason.
    pub fn of_reason(reason: Reason) -> Self {
        match reason {
            Reason::Internal => Self::Internal,
            Reason::Unauthorized | Reason::Forbidden => Self::Unauthorized,
            Reason::NotFound => Self::NotFound,
            Reason::RateLimited | Reason::Network | Reason::Tls | Reason::Timeout | Reason::RegistryError => {
                Self::Registry
            }
            Reason::NoSpace => Self::NoSpace,
            Reason::DigestMismatch => Self::DigestMismatch,
            Reason::InvalidReference => Self::Invalid,
            Reason::PlatformNotFound | Reason::SelectionNotFound => Self::NoSuchPart,
            Reason::UnsupportedMediaType | Reason::MalformedLayer => Self::Unsupported,
            Reason::UnsafeLayer | Reason::LimitExceeded => Self::Unsafe,
            Reason::VerificationFailed | Reason::BlockedByPolicy => Self::Policy,
        }
    }

    /// The table, for `puller --help`.
    pub fn table() -> String {
        let rows = Self::ALL.map(|exit| format!("  {:>2}  {}", exit.code(), exit.meaning()));
        format!("Exit codes:\n{}", rows.join("\n"))
    }
}

impl Error {
    /// How the program ends after this error.
    pub fn exit_code(&self) -> Exit {
        use puller_client::Error as Client;
        match self {
            Self::Config(_) => Exit::Config,
            Self::Volume { .. } | Self::VolumeTaken { .. } => Exit::Volume,
            Self::Listen { .. } => Exit::Listen,
            Self::Pull(fault) => Exit::of_reason(fault.reason),
            Self::Io(_) => Exit::Internal,
            Self::Client(error) => match error {
                Client::InvalidEndpoint { .. } => Exit::Usage,
                Client::Unreachable { .. } | Client::Tls { .. } | Client::Unavailable(_) => Exit::Unreachable,
                Client::NotFound(_) => Exit::NotFound,
                Client::InvalidArgument(_) => Exit::Invalid,
                Client::ResourceExhausted(_) | Client::Unauthenticated(_) => Exit::Refused,
                Client::Unexpected { .. } => Exit::Internal,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    #[test]
    fn every_reason_has_the_code_that_the_table_names_it_at() {
        for reason in Reason::ALL {
            let error = Error::Pull(Fault::new(reason, "", "", ""));
            let exit = error.exit_code();
            assert_ne!(exit, Exit::Success);
            let words = reason.words();
            assert!(
                exit.meaning().contains(words),
                "{words} ends with {exit:?}: {}",
                exit.meaning()
            );
        }
    }

    #[test]
    fn the_table_is_complete_and_in_order() {
        assert!(Exit::ALL.is_sorted_by(|a, b| a < b));
        let table = Exit::table();
        assert_eq!(table.lines().count(), 1 + Exit::ALL.len());
        assert!(table.contains("\n  64  configuration"), "{table}");
    }
}
