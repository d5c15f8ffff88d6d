//! `get`, `list` and `release`.

use std::time::SystemTime;

use puller_client::{Client, Listing, api};

use super::{
    WishArgs,
    output::{self, Format},
    table,
};
use crate::error::Error;

/// Who claims, unless it is said.
pub(super) const CLAIMANT: &str = "cli";

/// `puller get`.
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    /// The image's id, or its reference with the same options as in its Fetch
    #[arg(value_name = "ID|IMAGE")]
    pub image: String,
    /// What makes it that Image.
    #[command(flatten)]
    pub wish: WishArgs,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Format,
}

/// `puller list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only the images that this claimant claims
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub claimant: String,
    /// How to print them
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Format,
}

/// `puller release`.
#[derive(Debug, clap::Args)]
pub struct ReleaseArgs {
    /// The image's id, or its reference with the same options as in its Fetch
    #[arg(value_name = "ID|IMAGE")]
    pub image: String,
    /// What makes it that Image.
    #[command(flatten)]
    pub wish: WishArgs,
    /// Whose claim ends
    #[arg(long, value_name = "NAME", default_value = CLAIMANT)]
    pub claimant: String,
}

pub(super) async fn get(client: &Client, arguments: GetArgs) -> Result<(), Error> {
    let GetArgs { image, wish, output } = arguments;
    let image = client.get(wish.key(image)).await?;
    print(&image, output)
}

pub(super) async fn list(client: &Client, arguments: ListArgs) -> Result<(), Error> {
    let ListArgs { claimant, output } = arguments;
    let Listing { images, version } = client.list(&claimant).await?;
    let text = match output {
        Format::Table => table::table(&images, SystemTime::now()),
        Format::Json => output::json(&api::ListResponse { images, version })?,
        Format::Yaml => output::yaml(&api::ListResponse { images, version })?,
    };
    Ok(output::print(&text)?)
}

pub(super) async fn release(client: &Client, arguments: ReleaseArgs) -> Result<(), Error> {
    let ReleaseArgs {
        image,
        wish,
        claimant,
    } = arguments;
    Ok(client.release(wish.key(image), &claimant).await?)
}

/// Prints one Image.
pub(super) fn print(image: &api::Image, output: Format) -> Result<(), Error> {
    let text = match output {
        Format::Table => table::table([image], SystemTime::now()),
        Format::Json => output::json(image)?,
        Format::Yaml => output::yaml(image)?,
    };
    Ok(output::print(&text)?)
}
