//! Client of the puller: the calls, over a connection that makes itself again; an informer; and the way to
//! the content.
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
//! Treat the puller like an API server: read the actual state whenever you need it ([`Client::fetch`],
//! [`Client::get`], or the store of an [`Informer`]), and let the informer tell you only *when* to read it
//! again:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = puller_client::Client::connect(puller_client::DEFAULT_ENDPOINT)?;
//! use futures_util::StreamExt as _;
//! use puller_client::{ContentDir, Filter, Informer};
//!
//! let informer = Informer::start(client, Filter::default());
//! let mut triggers = informer.triggers();
//! while let Some(id) = triggers.next().await {
//!     let Some(image) = informer.get(&id) else {
//!         println!("{id} is gone");
//!         continue;
//!     };
//!     println!("{}: {}", image.normalized_reference, image.message);
//!     if image.content.is_some() {
//!         // Where this container mounts the volume that it shares with the puller.
//!         let content = ContentDir::open("/var/lib/puller", &image)?;
//!         println!("{} bytes", content.read("/etc/os-release")?.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
#![doc = include_str!("../../docs/client.md")]

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
