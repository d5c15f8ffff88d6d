//! What the registry holds, by repository.

use std::collections::BTreeMap;

use super::Target;
use crate::image::{Blob, Content};

#[derive(Debug, Default)]
pub(crate) struct Holdings(BTreeMap<String, Repository>);

#[derive(Debug, Default)]
struct Repository {
    manifests: BTreeMap<String, Blob>,
    blobs: BTreeMap<String, Blob>,
    tags: BTreeMap<String, String>,
}

impl Holdings {
    pub(crate) fn hold(&mut self, repository: &str, content: Content) {
        let repository = self.0.entry(repository.to_owned()).or_default();
        let by_digest = |blob: Blob| (blob.digest.clone(), blob);
        repository
            .manifests
            .extend(content.manifests.into_iter().map(by_digest));
        repository.blobs.extend(content.blobs.into_iter().map(by_digest));
    }

    pub(crate) fn tag(&mut self, repository: &str, tag: &str, digest: &str) {
        self.0
            .entry(repository.to_owned())
            .or_default()
            .tags
            .insert(tag.to_owned(), digest.to_owned());
    }

    pub(crate) fn lose(&mut self, digest: &str) {
        for repository in self.0.values_mut() {
            repository.manifests.remove(digest);
            repository.blobs.remove(digest);
        }
    }

    /// What a request is about, if it is here; else the error code that the distribution-spec has.
    pub(crate) fn find(&self, target: &Target) -> Result<&Blob, &'static str> {
        let unknown_name = "NAME_UNKNOWN";
        match target {
            Target::Manifest {
                repository,
                reference,
            } => {
                let repository = self.0.get(repository).ok_or(unknown_name)?;
                let digest = repository.tags.get(reference).unwrap_or(reference);
                repository.manifests.get(digest).ok_or("MANIFEST_UNKNOWN")
            }
            Target::Blob { repository, digest } => {
                let repository = self.0.get(repository).ok_or(unknown_name)?;
                repository.blobs.get(digest).ok_or("BLOB_UNKNOWN")
            }
            Target::Ping | Target::Token | Target::Other => Err("UNSUPPORTED"),
        }
    }
}
