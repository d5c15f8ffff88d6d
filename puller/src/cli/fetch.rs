//! `fetch`, with and without waiting.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt as _;
use puller_client::{
    Backoff, Client,
    api::{self, watch_event::Event},
};

use super::{
    WishArgs,
    calls::{self, CLAIMANT},
    output::Format,
    progress::Progress,
    pull::outcome,
};
use crate::{config::value, error::Error};

/// More than any dockerconfigjson: a Secret has at most 1 MiB.
const MAX_CREDENTIALS: u64 = 1024 * 1024;

/// `puller fetch`.
#[derive(Debug, clap::Args)]
pub struct FetchArgs {
    /// The image: registry/repository:tag, or registry/repository@digest
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// What makes it that Image.
    #[command(flatten)]
    pub wish: WishArgs,
    /// Who asks; the claim stands until `release`
    #[arg(long, value_name = "NAME", default_value = CLAIMANT)]
    pub claimant: String,
    /// Credentials for this pull: a docker config.json, or - for stdin. The daemon keeps them in memory only
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Check a tag again that was resolved longer ago, such as 10m; under 10s counts as 10s [default: never]
    #[arg(long, value_name = "TIME", value_parser = value::duration(Duration::ZERO))]
    pub max_age: Option<Duration>,
    /// End the claim when it was not renewed for this long, such as 1h30m [default: never]
    #[arg(long, value_name = "TIME", value_parser = value::duration(Duration::from_secs(1)))]
    pub claim_ttl: Option<Duration>,
    /// Show the progress, and end when the image is there or has failed for good
    #[arg(long)]
    pub wait: bool,
    /// How to print the image
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Format,
}

pub(super) async fn run(client: &Client, arguments: FetchArgs) -> Result<(), Error> {
    let FetchArgs {
        image,
        wish,
        claimant,
        credentials,
        max_age,
        claim_ttl,
        wait,
        output,
    } = arguments;
    let credentials = credentials.as_deref().map(read_credentials).transpose()?;
    let request = api::FetchRequest {
        wish: Some(wish.wish(image)),
        claimant,
        credentials: credentials.map(|dockerconfigjson| api::Credentials { dockerconfigjson }),
        max_age: max_age.map(to_proto),
        claim_ttl: claim_ttl.map(to_proto),
        in_use: Vec::new(),
    };
    let image = match wait {
        true => self::wait(client, &request).await?,
        false => client.fetch(request).await?,
    };
    calls::print(&image, output)
}

/// Fetches and watches until the pull ends, over restarts of the daemon: each time it is there again it
/// is asked again, since it may have lost the claim of the last seconds.
async fn wait(client: &Client, request: &api::FetchRequest) -> Result<api::Image, Error> {
    let mut progress = Progress::on_stderr();
    let mut pause = Backoff::default();
    let mut accepted = false;
    loop {
        match fetch_and_watch(client, request, &mut progress, &mut accepted).await {
            Err(Error::Client(error)) if accepted && error.is_transient() => {
                progress.note(&format!("{error}; trying again"));
                pause.sleep().await;
            }
            end => return end,
        }
    }
}

/// One connection's part of it. `accepted` tells that the daemon took the wish.
async fn fetch_and_watch(
    client: &Client,
    request: &api::FetchRequest,
    progress: &mut Progress,
    accepted: &mut bool,
) -> Result<api::Image, Error> {
    let mut settle = |image: &api::Image| {
        progress.show(image);
        outcome(image, None)
    };
    let image = client.fetch(request.clone()).await?;
    *accepted = true;
    if let Some(end) = settle(&image) {
        return end.map(|()| image).map_err(Error::Pull);
    }
    let mut watch = client
        .watch(api::WatchRequest {
            ids: vec![image.id.clone()],
            ..Default::default()
        })
        .await?;
    let mut seen = false;
    while let Some(event) = watch.next().await {
        match event?.event {
            Some(Event::Put(image)) => {
                seen = true;
                if let Some(end) = settle(&image) {
                    return end.map(|()| image).map_err(Error::Pull);
                }
            }
            Some(Event::Deleted(_)) => return Err(gone(&image)),
            Some(Event::Bookmark(bookmark)) if bookmark.synced && !seen => return Err(gone(&image)),
            // All is told again.
            Some(Event::Reset(_)) => seen = false,
            Some(Event::Bookmark(_)) | None => {}
        }
    }
    Err(Error::Client(puller_client::Error::Unavailable(
        "it ended the watch".into(),
    )))
}

fn gone(image: &api::Image) -> Error {
    let text = format!("the daemon has removed {}: its claim was released", image.id);
    Error::Client(puller_client::Error::NotFound(text))
}

fn read_credentials(path: &Path) -> Result<Vec<u8>, Error> {
    let said = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot read the credentials {}: {error}", path.display()),
        )
    };
    let reader: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(fs::File::open(path).map_err(said)?),
    };
    let mut bytes = Vec::new();
    reader
        .take(MAX_CREDENTIALS + 1)
        .read_to_end(&mut bytes)
        .map_err(said)?;
    if bytes.len() as u64 > MAX_CREDENTIALS {
        return Err(said(io::Error::from(io::ErrorKind::FileTooLarge)).into());
    }
    Ok(bytes)
}

fn to_proto(duration: Duration) -> prost_types::Duration {
    // Durations on the command line are at most a year.
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}
