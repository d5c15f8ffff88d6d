//! A small pusher: monolithic uploads, by the distribution-spec's "Pushing" section.

use anyhow::Context as _;
use reqwest::{
    Method, StatusCode,
    header::{CONTENT_TYPE, LOCATION},
};

use super::DockerRegistry;
use crate::image::{Blob, Content};

/// Pushes all blobs, then all manifests by digest, then the root under the name's tag.
pub(super) async fn push(registry: &DockerRegistry, name: &str, content: &Content) -> anyhow::Result<()> {
    let (repository, tag) = name.split_once(':').context("the name is not repository:tag")?;
    for blob in &content.blobs {
        push_blob(registry, repository, blob)
            .await
            .with_context(|| format!("{blob:?}"))?;
    }
    for manifest in &content.manifests {
        push_manifest(registry, repository, &manifest.digest, manifest).await?;
    }
    push_manifest(registry, repository, tag, content.root()).await
}

async fn push_blob(registry: &DockerRegistry, repository: &str, blob: &Blob) -> anyhow::Result<()> {
    let path = format!("/v2/{repository}/blobs/{}", blob.digest);
    if registry
        .request(Method::HEAD, &path)
        .send()
        .await?
        .status()
        .is_success()
    {
        return Ok(());
    }
    let path = format!("/v2/{repository}/blobs/uploads/");
    let begun = registry.request(Method::POST, &path).send().await?;
    anyhow::ensure!(
        begun.status() == StatusCode::ACCEPTED,
        "POST {path}: {}",
        begun.status()
    );
    let location = begun.headers().get(LOCATION).context("no Location")?.to_str()?;
    let base = format!("{}://{}", registry.scheme(), registry.host());
    let location = location.strip_prefix(&base).unwrap_or(location);
    let joint = if location.contains('?') { '&' } else { '?' };
    let path = format!("{location}{joint}digest={}", blob.digest);
    let done = registry
        .request(Method::PUT, &path)
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(blob.bytes.clone())
        .send()
        .await?;
    anyhow::ensure!(
        done.status() == StatusCode::CREATED,
        "PUT {path}: {}",
        done.status()
    );
    Ok(())
}

async fn push_manifest(
    registry: &DockerRegistry,
    repository: &str,
    reference: &str,
    manifest: &Blob,
) -> anyhow::Result<()> {
    let path = format!("/v2/{repository}/manifests/{reference}");
    let done = registry
        .request(Method::PUT, &path)
        .header(CONTENT_TYPE, &manifest.media_type)
        .body(manifest.bytes.clone())
        .send()
        .await?;
    let status = done.status();
    anyhow::ensure!(
        status == StatusCode::CREATED,
        "PUT {path}: {status}: {}",
        done.text().await?
    );
    Ok(())
}
