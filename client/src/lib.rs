//! Client of the puller: a connection that makes itself again, and errors with a type.
//!
//! ```no_run
//! # async fn example() -> Result<(), puller_client::Error> {
//! use puller_client::{Client, api};
//!
//! let client = Client::connect("unix:///run/puller/puller.sock")?;
//! let image = client
//!     .fetch(api::FetchRequest {
//!         wish: Some(api::Wish { reference: "quay.io/a/b:v1".into(), ..Default::default() }),
//!         claimant: "example".into(),
//!         ..Default::default()
//!     })
//!     .await?;
//! println!("{}: {}", image.id, image.message);
//! # Ok(())
//! # }
//! ```
//!
//! Treat the puller like an API server: read the actual state whenever you need it ([`Client::get`],
//! [`Client::list`], or the store of an [`Informer`]), and let the watch tell you only *when* to read it
//! again.

mod backoff;
mod connection;
mod content;
mod endpoint;
mod error;
mod informer;

pub use puller_api::v1 as api;

pub use self::{
    backoff::Backoff,
    connection::{Client, Key, Listing, Watch},
    content::{ContentDir, ContentEntry, ContentError, ContentKind, Walk},
    endpoint::{Endpoint, TlsOptions},
    error::Error,
    informer::{Filter, Informer, Triggers},
};

/// Where the daemon listens unless it is told otherwise.
pub const DEFAULT_ENDPOINT: &str = "unix:///run/puller/puller.sock";
