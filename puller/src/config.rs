//! The settings of `puller serve`, in two steps: what was typed (as flags, in the environment, in the
//! file) and what is meant by it.
//!
//! [`args`] is the one table of settings. A setting has one name: `--max-pulls` as a flag,
//! `PULLER_MAX_PULLS` in the environment, `max-pulls` in the file; the first of the three that has it
//! wins, and a list is taken whole from one place. [`Settings`] holds what is meant, checked.

pub mod args;
pub(crate) mod file;
pub mod meaning;
pub mod settings;
pub mod value;

pub use self::{
    args::ServeArgs,
    settings::{Limits, LogFormat, Private, ProviderFiles, ServerTls, Settings, TcpListen},
};

#[cfg(test)]
mod tests;
