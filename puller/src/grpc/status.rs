//! The one place that maps errors to gRPC's codes.

use std::fmt::Display;

use tonic::Status;

use crate::{
    daemon::FetchError,
    domain::{ImageId, Reason},
};
use puller_api::v1;

/// A part of the request is wrong.
pub(super) fn invalid(part: &str, problem: &dyn Display) -> Status {
    Status::invalid_argument(format!("{part}: {problem}"))
}

pub(super) fn no_such_image(id: &ImageId) -> Status {
    Status::not_found(format!(
        "there is no image {id}: nobody has fetched it, or all have released it; fetch it"
    ))
}

pub(super) fn of_fetch(error: &FetchError) -> Status {
    match error {
        FetchError::Refused(_) => Status::resource_exhausted(error.to_string()),
        FetchError::Credentials(_) => invalid("credentials.dockerconfigjson", error),
        FetchError::Stopping => Status::unavailable(error.to_string()),
    }
}

/// A reason by its number in the proto file.
pub(super) fn reason(reason: Reason) -> v1::Reason {
    match reason {
        Reason::Unauthorized => v1::Reason::Unauthorized,
        Reason::Forbidden => v1::Reason::Forbidden,
        Reason::NotFound => v1::Reason::NotFound,
        Reason::RateLimited => v1::Reason::RateLimited,
        Reason::Network => v1::Reason::Network,
        Reason::Tls => v1::Reason::Tls,
        Reason::Timeout => v1::Reason::Timeout,
        Reason::RegistryError => v1::Reason::RegistryError,
        Reason::NoSpace => v1::Reason::NoSpace,
        Reason::DigestMismatch => v1::Reason::DigestMismatch,
        Reason::Internal => v1::Reason::Internal,
        Reason::InvalidReference => v1::Reason::InvalidReference,
        Reason::PlatformNotFound => v1::Reason::PlatformNotFound,
        Reason::UnsupportedMediaType => v1::Reason::UnsupportedMediaType,
        Reason::MalformedLayer => v1::Reason::MalformedLayer,
        Reason::UnsafeLayer => v1::Reason::UnsafeLayer,
        Reason::SelectionNotFound => v1::Reason::SelectionNotFound,
        Reason::LimitExceeded => v1::Reason::LimitExceeded,
        Reason::VerificationFailed => v1::Reason::VerificationFailed,
        Reason::BlockedByPolicy => v1::Reason::BlockedByPolicy,
    }
}
