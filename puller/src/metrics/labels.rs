//! The labels. Each has a bounded number of values.

use prometheus_client::encoding::EncodeLabelSet;

use crate::domain::{Phase, Reason};

/// Where an Image stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct State {
    phase: &'static str,
    reason: String,
}

/// How an attempt has ended, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Ended {
    pub(super) outcome: &'static str,
    pub(super) reason: String,
}

/// How an attempt has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Outcome {
    pub(super) outcome: &'static str,
}

/// A call and its status code, as gRPC names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) code: String,
}

impl State {
    /// Only what waits or rests is told by its reason: what works again may have one of before.
    pub(super) fn of(phase: Phase, reason: Option<Reason>) -> Self {
        let failing = matches!(phase, Phase::Retrying | Phase::Failed);
        Self {
            phase: phase.name(),
            reason: reason.filter(|_| failing).map(Reason::name).unwrap_or_default(),
        }
    }

    /// All that there can be.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let well = [
            Phase::Initiated,
            Phase::Pulling,
            Phase::Unpacking,
            Phase::Unpacked,
        ];
        let failing = Reason::ALL.into_iter().map(|reason| match reason.is_retried() {
            true => Self::of(Phase::Retrying, Some(reason)),
            false => Self::of(Phase::Failed, Some(reason)),
        });
        well.into_iter().map(|phase| Self::of(phase, None)).chain(failing)
    }
}
