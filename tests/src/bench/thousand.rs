//! A puller with as many Images as a large installation has.

use anyhow::Context as _;

use crate::{
    image::{BuiltLayer, Image, Layer},
    puller::{Phase, Puller},
    scripted::ScriptedRegistry,
};

/// How many.
pub const IMAGES: usize = 1000;

/// How often it is looked whether all are there.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(200);

/// Puts the images into the registry: each with a layer of its own, and one that all share.
pub fn hold(registry: &ScriptedRegistry) -> Vec<String> {
    let shared: BuiltLayer = Layer::gzip().noise(4, 2_000).build();
    let image = |n: usize| {
        let own = Layer::gzip().file("configs/catalog.json", format!("{{\"n\": {n}}}"));
        Image::catalog(shared.clone()).layer(own)
    };
    (0..IMAGES)
        .map(|n| registry.hold(&format!("bench/app-{n:04}:v1"), image(n)))
        .collect()
}

/// Pulls them all.
///
/// # Errors
/// A call failed.
pub async fn pull(puller: &Puller, references: &[String]) -> anyhow::Result<()> {
    for reference in references {
        puller.fetch(reference).claimant("bench").send().await?;
    }
    while !is_whole(puller).await? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Whether all are listed and unpacked.
///
/// # Errors
/// The call failed.
pub async fn is_whole(puller: &Puller) -> anyhow::Result<bool> {
    let mut client = puller.client().max_decoding_message_size(usize::MAX);
    let listed = client.list(puller_api::v1::ListRequest::default()).await;
    let images = listed.context("List")?.into_inner().images;
    let unpacked = images.iter().filter(|image| image.phase() == Phase::Unpacked);
    Ok(unpacked.count() == IMAGES)
}
