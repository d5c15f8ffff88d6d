//! The words of the puller: what is wished, what became of it, and why not.
//!
//! Nothing here knows of gRPC, HTTP or files.

pub mod activity;
pub mod claim;
pub mod content;
pub mod digest;
pub mod history;
pub mod platform;
pub mod reason;
pub mod reference;
pub mod secret;
pub mod skipped;
pub mod wish;

pub use activity::Activity;
pub use claim::Claim;
pub use content::Content;
pub use digest::{Algorithm, Digest, Digester};
pub use history::{AttemptError, AttemptRecord, Resolution};
pub use platform::Platform;
pub use reason::{Phase, Reason};
pub use reference::Reference;
pub use secret::Secret;
pub use skipped::Skipped;
pub use wish::{ImageId, Scope, Selection, UnpackOptions, Wish};
