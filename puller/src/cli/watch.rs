//! `watch`: every change, over restarts of the daemon.

use std::time::SystemTime;

use futures_util::StreamExt as _;
use puller_client::{
    Backoff, Client,
    api::{self, watch_event::Event},
};

use super::{
    output::{self, Format},
    progress, table,
};
use crate::error::Error;

/// `puller watch`.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Only these ids [default: all]
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Only the images that this claimant claims
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub claimant: String,
    /// How to print: a table with a line for each change, JSON with one event a line, YAML with one document an event
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Format,
}

pub(super) async fn run(client: &Client, arguments: WatchArgs) -> Result<(), Error> {
    let WatchArgs {
        ids,
        claimant,
        output,
    } = arguments;
    let mut request = api::WatchRequest {
        version: String::new(),
        claimant,
        ids,
    };
    if output == Format::Table {
        output::print(&table::head())?;
    }
    let mut pause = Backoff::default();
    let mut connected = false;
    loop {
        match events(client, &mut request, output, &mut connected, &mut pause).await {
            // A daemon that was never there is an error at once, one that went away comes back.
            Err(Error::Client(error)) if connected && error.is_transient() => {
                progress::say(&super::escape::line(&format!("{error}; trying again")));
                pause.sleep().await;
            }
            Err(error) => return Err(error),
            Ok(()) => pause.sleep().await,
        }
    }
}

/// The events of one connection; `request` is left where the next one goes on.
async fn events(
    client: &Client,
    request: &mut api::WatchRequest,
    output: Format,
    connected: &mut bool,
    pause: &mut Backoff,
) -> Result<(), Error> {
    let mut watch = client.watch(request.clone()).await?;
    *connected = true;
    while let Some(event) = watch.next().await {
        let event = event?;
        pause.reset();
        if let Some(version) = version(&event) {
            version.clone_into(&mut request.version);
        }
        match output {
            Format::Table => {
                if let Some(line) = table_line(&event, SystemTime::now()) {
                    output::print(&line)?;
                }
            }
            Format::Json => output::print(&output::json_line(&event)?)?,
            Format::Yaml => output::print(&format!("---\n{}", output::yaml(&event)?))?,
        }
    }
    Ok(())
}

/// The version to resume from.
fn version(event: &api::WatchEvent) -> Option<&str> {
    match event.event.as_ref()? {
        Event::Put(image) => Some(&image.version),
        Event::Deleted(deleted) => Some(&deleted.version),
        Event::Bookmark(bookmark) => Some(&bookmark.version),
        Event::Reset(_) => None,
    }
}

fn table_line(event: &api::WatchEvent, now: SystemTime) -> Option<String> {
    match event.event.as_ref()? {
        Event::Put(image) => Some(table::line(image, now)),
        Event::Deleted(deleted) => Some(table::gone(&deleted.id)),
        Event::Bookmark(_) | Event::Reset(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_goes_on_from_the_last_version() {
        let event = |event| api::WatchEvent { event: Some(event) };
        let put = event(Event::Put(api::Image {
            version: "1.2".into(),
            ..Default::default()
        }));
        assert_eq!(version(&put), Some("1.2"));
        let bookmark = event(Event::Bookmark(api::Bookmark {
            version: "1.3".into(),
            synced: true,
        }));
        assert_eq!(
            (version(&bookmark), table_line(&bookmark, SystemTime::now())),
            (Some("1.3"), None)
        );
        assert_eq!(version(&event(Event::Reset(api::Reset {}))), None);
        assert_eq!(version(&api::WatchEvent::default()), None);
    }
}
