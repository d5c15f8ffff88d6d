//! Waiting for a pull, whoever runs it: `puller pull` in this process, `puller fetch --wait` in the
//! daemon.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use futures_util::{Stream, StreamExt as _};
use puller_client::api;

use super::progress::Progress;
use crate::{
    config::{
        Private,
        meaning::{NONE, POLICY, REGISTRIES_CONF, docker_configs},
        value,
    },
    domain::{Platform, Reason, Reference, Selection},
    error::{Error, Fault},
    registry::Routes,
};

/// `puller pull`: the same engine as the daemon's, in one process.
#[derive(Debug, clap::Args)]
pub struct PullArgs {
    /// The image: registry/repository:tag, or registry/repository@digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// The directory that gets the tree
    ///
    /// It must not exist or be empty, unless --replace is given. It is left as it was when the pull fails.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Replace what is in the directory
    #[arg(long)]
    pub replace: bool,
    /// Give up after so many attempts; what trying again can't mend ends it at once
    #[arg(long, value_name = "N", default_value = "5")]
    pub attempts: NonZeroU32,
    /// The platform to pick, such as linux/amd64 or linux/arm/v7 [default: this machine's]
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<Platform>,
    /// Write only this path of the image
    #[arg(long, value_name = "PATH", conflicts_with = "label")]
    pub path: Option<String>,
    /// Write only the path that this label of the image's config names
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// Fail when a symbolic link of the result leads out of the tree
    #[arg(long)]
    pub refuse_escaping_links: bool,
    /// Credentials: docker config.json files, the first that has some wins; none uses none [default: $REGISTRY_AUTH_FILE,
    /// $DOCKER_CONFIG/config.json and ~/.docker/config.json, those that exist]
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub docker_config: Vec<PathBuf>,
    /// Mirrors, blocked registries and short names
    #[arg(long, value_name = "FILE", default_value = REGISTRIES_CONF)]
    pub registries_conf: PathBuf,
    /// Speak plain HTTP with these registries: host or host:port
    #[arg(long, value_name = "REGISTRY", value_delimiter = ',', value_parser = value::registry)]
    pub plain_http: Vec<String>,
    /// Trust these authorities beside the system's: PEM files
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub ca_file: Vec<PathBuf>,
    /// Let these registries (or *, all) send us to private addresses
    #[arg(long, value_name = "REGISTRY", value_delimiter = ',', value_parser = value::registry_or_all)]
    pub allow_private: Vec<String>,
    /// Which images may be pulled, and whose signatures they need: a containers-policy.json(5) file
    #[arg(long, value_name = "FILE", default_value = POLICY)]
    pub policy: PathBuf,
    /// How long nothing may move before an attempt ends
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = value::duration(Duration::from_secs(1)))]
    pub idle_timeout: Duration,
    /// How long a connection may take, TLS included
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = value::duration(Duration::from_secs(1)))]
    pub connect_timeout: Duration,
}

impl PullArgs {
    /// The image.
    ///
    /// # Errors
    /// The reference can't be one.
    pub fn reference(&self, routes: &Routes) -> Result<Reference, Error> {
        routes
            .reference(&self.image)
            .map_err(|problem| Error::Pull(Fault::new(Reason::InvalidReference, "pull", problem, "")))
    }

    /// The files with credentials: those named, else those of other tools that exist. `none` is none.
    pub fn docker_configs(&self) -> Vec<PathBuf> {
        let named = self.docker_config.iter().filter(|path| path.as_os_str() != NONE);
        match self.docker_config.is_empty() {
            true => docker_configs(&|name| std::env::var_os(name)),
            false => named.cloned().collect(),
        }
    }

    /// The part of the image that is written.
    ///
    /// # Errors
    /// The path or label can't be one.
    pub fn selection(&self) -> Result<Selection, Error> {
        let wrong = |option: &str, what: String| {
            Error::Pull(Fault::new(
                Reason::SelectionNotFound,
                option,
                what,
                "give a path of the image, such as /configs, or a label's name",
            ))
        };
        match (&self.path, &self.label) {
            (Some(path), _) => Selection::path(path).map_err(|what| wrong("--path", what)),
            (None, Some(label)) => Selection::label(label).map_err(|what| wrong("--label", what)),
            (None, None) => Ok(Selection::All),
        }
    }

    /// Who may send us to private addresses.
    pub fn private(&self) -> Private {
        Private::of(self.allow_private.clone())
    }
}

/// Shows the states of one pull on stderr until it ends, and tells how. At most `attempts` attempts;
/// `None`: as many as it takes. A pull that rests (`Failed`) ends at once.
///
/// # Errors
/// [`Error::Pull`] with the last error, or the stream ended before the pull did.
pub async fn follow<S>(states: S, attempts: Option<NonZeroU32>) -> Result<api::Image, Error>
where
    S: Stream<Item = api::Image>,
{
    let mut progress = Progress::on_stderr();
    let mut states = std::pin::pin!(states);
    while let Some(image) = states.next().await {
        progress.show(&image);
        if let Some(end) = outcome(&image, attempts) {
            return end.map(|()| image).map_err(Error::Pull);
        }
    }
    Err(Error::Pull(Fault::new(
        Reason::Internal,
        "the pull",
        "it stopped without telling how it ended",
        "",
    )))
}

/// Whether a state is the end for whoever waits, and which.
pub(super) fn outcome(image: &api::Image, attempts: Option<NonZeroU32>) -> Option<Result<(), Fault>> {
    match image.phase() {
        api::Phase::Unpacked => Some(Ok(())),
        api::Phase::Failed => Some(Err(failure(image))),
        // Without a next retry the attempt still runs.
        api::Phase::Retrying if image.next_retry.is_some() => {
            let enough = attempts.is_some_and(|attempts| image.attempt >= attempts.get());
            enough.then(|| Err(failure(image)))
        }
        api::Phase::Unspecified
        | api::Phase::Initiated
        | api::Phase::Pulling
        | api::Phase::Unpacking
        | api::Phase::Retrying => None,
    }
}

/// The last error of an Image.
fn failure(image: &api::Image) -> Fault {
    let asked = format!("{} (attempt {})", image.normalized_reference, image.attempt);
    match &image.last_error {
        Some(error) => Fault::new(
            reason(error.reason()).unwrap_or(Reason::Internal),
            asked,
            &error.message,
            "",
        ),
        None => Fault::new(
            Reason::Internal,
            asked,
            "it failed, and no error was told",
            "look at the daemon's log",
        ),
    }
}

/// The reason that a message names; `None`: none, or one that this version does not know.
pub(super) fn reason(reason: api::Reason) -> Option<Reason> {
    Some(match reason {
        api::Reason::Unspecified => return None,
        api::Reason::Unauthorized => Reason::Unauthorized,
        api::Reason::Forbidden => Reason::Forbidden,
        api::Reason::NotFound => Reason::NotFound,
        api::Reason::RateLimited => Reason::RateLimited,
        api::Reason::Network => Reason::Network,
        api::Reason::Tls => Reason::Tls,
        api::Reason::Timeout => Reason::Timeout,
        api::Reason::RegistryError => Reason::RegistryError,
        api::Reason::NoSpace => Reason::NoSpace,
        api::Reason::DigestMismatch => Reason::DigestMismatch,
        api::Reason::Internal => Reason::Internal,
        api::Reason::InvalidReference => Reason::InvalidReference,
        api::Reason::PlatformNotFound => Reason::PlatformNotFound,
        api::Reason::UnsupportedMediaType => Reason::UnsupportedMediaType,
        api::Reason::MalformedLayer => Reason::MalformedLayer,
        api::Reason::UnsafeLayer => Reason::UnsafeLayer,
        api::Reason::SelectionNotFound => Reason::SelectionNotFound,
        api::Reason::LimitExceeded => Reason::LimitExceeded,
        api::Reason::VerificationFailed => Reason::VerificationFailed,
        api::Reason::BlockedByPolicy => Reason::BlockedByPolicy,
    })
}
