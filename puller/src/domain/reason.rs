//! Phases and reasons, and the one place that says which failures are tried again.

use serde::{Deserialize, Serialize};

/// Where an Image stands. See `Phase` in the proto file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Known; nothing asked of a registry yet, or its answer is awaited.
    Initiated,
    /// At least one layer byte is still to come.
    Pulling,
    /// All compressed bytes are verified; the rest of the tree, sync and publish remain.
    Unpacking,
    /// Published.
    Unpacked,
    /// Waits for the next attempt, or runs it without a layer byte yet.
    Retrying,
    /// Rests until something changes.
    Failed,
}

/// Why an attempt failed. See `Reason` in the proto file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the proto file documents each reason")]
pub enum Reason {
    Unauthorized,
    Forbidden,
    NotFound,
    RateLimited,
    Network,
    Tls,
    Timeout,
    RegistryError,
    NoSpace,
    DigestMismatch,
    Internal,
    InvalidReference,
    PlatformNotFound,
    UnsupportedMediaType,
    MalformedLayer,
    UnsafeLayer,
    SelectionNotFound,
    LimitExceeded,
    VerificationFailed,
    BlockedByPolicy,
}

impl Phase {
    /// The name in the API, such as `UNPACKED`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Initiated => "INITIATED",
            Self::Pulling => "PULLING",
            Self::Unpacking => "UNPACKING",
            Self::Unpacked => "UNPACKED",
            Self::Retrying => "RETRYING",
            Self::Failed => "FAILED",
        }
    }
}

impl Reason {
    /// Every reason, in the proto file's order.
    pub const ALL: [Self; 20] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::RateLimited,
        Self::Network,
        Self::Tls,
        Self::Timeout,
        Self::RegistryError,
        Self::NoSpace,
        Self::DigestMismatch,
        Self::Internal,
        Self::InvalidReference,
        Self::PlatformNotFound,
        Self::UnsupportedMediaType,
        Self::MalformedLayer,
        Self::UnsafeLayer,
        Self::SelectionNotFound,
        Self::LimitExceeded,
        Self::VerificationFailed,
        Self::BlockedByPolicy,
    ];

    /// Whether the same attempt may succeed later although nobody changes anything on our side: then
    /// the Image is `Retrying`, else `Failed`. This is the only place that decides it.
    pub fn is_retried(self) -> bool {
        match self {
            Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::RateLimited
            | Self::Network
            | Self::Tls
            | Self::Timeout
            | Self::RegistryError
            | Self::NoSpace
            | Self::DigestMismatch
            | Self::Internal => true,
            Self::InvalidReference
            | Self::PlatformNotFound
            | Self::UnsupportedMediaType
            | Self::MalformedLayer
            | Self::UnsafeLayer
            | Self::SelectionNotFound
            | Self::LimitExceeded
            | Self::VerificationFailed
            | Self::BlockedByPolicy => false,
        }
    }

    /// Whether a registry has refused these credentials.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Unauthorized | Self::Forbidden)
    }

    /// Whether other credentials may help. Some registries tell strangers that there is no such image.
    pub fn may_be_of_credentials(self) -> bool {
        self.is_refusal() || self == Self::NotFound
    }

    /// Whether the same digest is worth another look later, although it is not retried: images are signed
    /// after they have been pushed.
    pub fn may_come_right(self) -> bool {
        self == Self::VerificationFailed
    }

    /// Whether other rules of an administrator may let the same image pass.
    pub fn is_of_rules(self) -> bool {
        matches!(self, Self::VerificationFailed | Self::BlockedByPolicy)
    }

    /// The name in the API, such as `NOT_FOUND`.
    pub fn name(self) -> String {
        self.words().to_uppercase().replace(' ', "_")
    }

    /// The name as a person reads it, such as `not found`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not found",
            Self::RateLimited => "rate limited",
            Self::Network => "network",
            Self::Tls => "TLS",
            Self::Timeout => "timeout",
            Self::RegistryError => "registry error",
            Self::NoSpace => "no space",
            Self::DigestMismatch => "digest mismatch",
            Self::Internal => "internal",
            Self::InvalidReference => "invalid reference",
            Self::PlatformNotFound => "platform not found",
            Self::UnsupportedMediaType => "unsupported media type",
            Self::MalformedLayer => "malformed layer",
            Self::UnsafeLayer => "unsafe layer",
            Self::SelectionNotFound => "selection not found",
            Self::LimitExceeded => "limit exceeded",
            Self::VerificationFailed => "verification failed",
            Self::BlockedByPolicy => "blocked by policy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_reasons_are_those_of_the_specification() {
        let failed: Vec<_> = Reason::ALL.into_iter().filter(|r| !r.is_retried()).collect();
        assert_eq!(
            failed,
            [
                Reason::InvalidReference,
                Reason::PlatformNotFound,
                Reason::UnsupportedMediaType,
                Reason::MalformedLayer,
                Reason::UnsafeLayer,
                Reason::SelectionNotFound,
                Reason::LimitExceeded,
                Reason::VerificationFailed,
                Reason::BlockedByPolicy,
            ]
        );
    }

    #[test]
    fn the_documentation_has_cause_and_cure_of_each_reason_in_its_table() {
        let page = include_str!("../../../docs/reasons.md");
        let (retried, failed) = page.split_once("## Failed").expect("two tables");
        for reason in Reason::ALL {
            let row = format!("| `{}` |", reason.name());
            let (its, other) = match reason.is_retried() {
                true => (retried, failed),
                false => (failed, retried),
            };
            assert!(its.contains(&row), "no row for {row}");
            assert!(!other.contains(&row), "{row} is in the wrong table");
        }
    }
}
