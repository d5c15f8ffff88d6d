//! [`Registry`] over HTTP: the OCI distribution-spec's pull part, and what Docker's registries do
//! beside it.

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{Method, StatusCode};
use serde::de::IgnoredAny;

use super::{
    BlobStream, RawManifest, Registry, Repository,
    coding::Coding,
    exchange::{Exchange, Question},
    keyring::Keyring,
    looks::Looks,
    manifest::Manifest,
    range,
    settings::Settings,
    wire::Answer,
};
use crate::{
    domain::{Digest, Reason},
    error::{Error, Fault},
};

/// Most of a manifest, index or config that is read. Registries take manifests up to 4 MiB
/// (distribution-spec, "Pushing manifests").
const DOCUMENT_CAP: usize = 8 << 20;

/// Says what a manifest's bytes are the hash of.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// Speaks to all registries.
pub struct Transport(Exchange);

impl Transport {
    /// A transport that takes its credentials from `keyring`. It makes aws-lc-rs the process's TLS
    /// provider, unless another has been installed.
    ///
    /// # Errors
    /// A CA file or a proxy variable can't be used.
    pub fn new(settings: &Settings, keyring: Arc<Keyring>) -> Result<Self, Error> {
        Exchange::new(settings, keyring).map(Self)
    }

    async fn digest_of_tag(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault> {
        let question = Question::manifest(Method::HEAD, tag);
        let answer = self.0.head_or_get(repository, question).await?;
        if !answer.was_head() {
            return digest_of(answer).await;
        }
        match told(&answer) {
            Some(digest) => Ok(digest),
            None => self.digest_by_get(repository, tag).await,
        }
    }

    async fn digest_by_get(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault> {
        let question = Question::manifest(Method::GET, tag);
        digest_of(self.0.ask(repository, &question).await?).await
    }

    async fn blob_from(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        offset: u64,
    ) -> Result<BlobStream, Fault> {
        let name = digest.to_string();
        if offset > 0 {
            let question = Question::blob(Method::GET, &name, offset);
            match self.0.ask(repository, &question).await {
                Ok(answer) if answer.status() != StatusCode::PARTIAL_CONTENT => {
                    return whole(answer, size).await;
                }
                Ok(answer) if range::start_of(answer.headers(), size) == Some(offset) => {
                    return Ok(raw(answer, offset));
                }
                // A part that does not say which, or is not the one: asked for the whole instead.
                Ok(_) => {}
                Err(failure) if failure.status.is_some_and(range::is_why_refused) => {}
                Err(failure) => return Err(failure.fault),
            }
        }
        let question = Question::blob(Method::GET, &name, 0);
        let answer = self.0.ask(repository, &question).await?;
        if answer.status() == StatusCode::PARTIAL_CONTENT
            && range::start_of(answer.headers(), size) != Some(0)
        {
            return Err(Fault::new(
                Reason::RegistryError,
                answer.asked(),
                format!(
                    "{} answered with a part, although the whole was asked for",
                    answer.host
                ),
                "look for a proxy or cache that adds ranges",
            ));
        }
        whole(answer, size).await
    }
}

/// The digest that an answer says its document has.
fn told(answer: &Answer) -> Option<Digest> {
    let value = answer.headers().get(CONTENT_DIGEST)?.to_str().ok()?;
    value.trim().parse().ok()
}

/// The digest of the manifest that an answer holds.
async fn digest_of(answer: Answer) -> Result<Digest, Fault> {
    let told = told(&answer);
    let (about, bytes) = document(answer).await?;
    match told {
        Some(told) => {
            about.manifest(&told, bytes)?;
            Ok(told)
        }
        // Any bytes have a digest, those of a log-in page too, which will go away by itself.
        None => {
            let decoded = || about.decoded(&bytes).filter(|bytes| is_object(bytes));
            let manifest = Some(bytes.clone())
                .filter(|bytes| is_object(bytes))
                .or_else(decoded);
            manifest
                .map(|manifest| Digest::sha256(&manifest))
                .ok_or_else(|| about.is_no_manifest(&bytes))
        }
    }
}

/// An answer that is to be the whole blob. One of another length is not it, and none of it is taken, unless its
/// coding explains that.
async fn whole(mut answer: Answer, size: u64) -> Result<BlobStream, Fault> {
    if answer.status() == StatusCode::PARTIAL_CONTENT {
        return Ok(raw(answer, 0));
    }
    let asked = answer.asked().to_owned();
    match (answer.length(), Coding::of(answer.headers())) {
        (Some(length), None) if length != size => {
            let looks = Looks::of(&answer);
            // The beginning is for the message only.
            let start = answer.chunk().await.ok().flatten().unwrap_or_default();
            Err(Fault::new(
                Reason::DigestMismatch,
                asked,
                format!(
                    "the answer has {length} bytes, the blob's descriptor says {size}; {}",
                    looks.with(&start)
                ),
                SERVES_ELSE,
            ))
        }
        (Some(length), Some(coding)) if length != size => Ok(decoded(coding, asked, raw(answer, 0))),
        (None, Some(coding)) => {
            let start = answer.chunk().await?.unwrap_or_default();
            let is_encoded = coding.is_on_top(&start);
            let mut blob = raw(answer, 0);
            blob.chunks = stream::once(async { Ok(start) }).chain(blob.chunks).boxed();
            match is_encoded {
                true => Ok(decoded(coding, asked, blob)),
                false => Ok(blob),
            }
        }
        _ => Ok(raw(answer, 0)),
    }
}

/// An answer's bytes as they come.
fn raw(answer: Answer, start: u64) -> BlobStream {
    BlobStream {
        start,
        mirror: None,
        looks: Looks::of(&answer),
        chunks: answer.into_chunks(),
    }
}

/// The same, decoded.
fn decoded(coding: Coding, asked: String, mut blob: BlobStream) -> BlobStream {
    let broken = move |error: &io::Error| {
        Fault::new(
            Reason::DigestMismatch,
            asked.as_str(),
            format!("the answer is not encoded as it says: {error}"),
            SERVES_ELSE,
        )
    };
    blob.chunks = coding.undo(blob.chunks, broken);
    blob
}

/// What to do about bytes that are not those that were asked for.
const SERVES_ELSE: &str = "look for a proxy, mirror or storage that serves something else";

/// What a fault says of a document's answer.
struct About {
    asked: String,
    looks: Looks,
    coding: Option<Coding>,
}

impl About {
    fn is_no_manifest(&self, bytes: &[u8]) -> Fault {
        Fault::new(
            Reason::RegistryError,
            self.asked.as_str(),
            format!("the answer is no manifest; {}", self.looks.with(bytes)),
            "look for a proxy or a log-in page that answers in the registry's place",
        )
    }

    /// A manifest, if it is the one of this digest.
    fn manifest(&self, digest: &Digest, bytes: Bytes) -> Result<RawManifest, Fault> {
        let manifest = |bytes| RawManifest {
            content_type: self.looks.content_type().to_owned(),
            bytes,
        };
        match self.verified(digest, bytes.clone()) {
            Ok(bytes) => Ok(manifest(bytes)),
            Err(fault) => Err(Manifest::refused_as_schema_1(&manifest(bytes), &self.asked).unwrap_or(fault)),
        }
    }

    fn decoded(&self, bytes: &[u8]) -> Option<Bytes> {
        self.coding?.decoded(bytes, DOCUMENT_CAP)
    }

    /// The bytes, or what they are decoded, if those are the ones of this digest.
    fn verified(&self, wanted: &Digest, bytes: Bytes) -> Result<Bytes, Fault> {
        let found = wanted.of_same_kind(&bytes);
        if found == *wanted {
            return Ok(bytes);
        }
        if let Some(decoded) = self.decoded(&bytes)
            && wanted.of_same_kind(&decoded) == *wanted
        {
            return Ok(decoded);
        }
        let happened = format!(
            "the answer's digest is {found}, not {wanted}; {}",
            self.looks.with(&bytes)
        );
        Err(Fault::new(
            Reason::DigestMismatch,
            self.asked.as_str(),
            happened,
            SERVES_ELSE,
        ))
    }
}

/// Whether it is a JSON object, as manifests and indexes are.
fn is_object(bytes: &[u8]) -> bool {
    serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(bytes).is_ok()
}

async fn document(answer: Answer) -> Result<(About, Bytes), Fault> {
    let about = About {
        asked: answer.asked().to_owned(),
        looks: Looks::of(&answer),
        coding: Coding::of(answer.headers()),
    };
    let bytes = answer.into_bytes(DOCUMENT_CAP).await?;
    Ok((about, bytes))
}

#[async_trait]
impl Registry for Transport {
    async fn resolve(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault> {
        self.digest_of_tag(repository, tag).await
    }

    async fn reread(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault> {
        self.digest_by_get(repository, tag).await
    }

    async fn manifest(&self, repository: &Repository, digest: &Digest) -> Result<RawManifest, Fault> {
        let name = digest.to_string();
        let answer = self
            .0
            .ask(repository, &Question::manifest(Method::GET, &name))
            .await;
        let (about, bytes) = document(answer?).await?;
        about.manifest(digest, bytes)
    }

    async fn small_blob(&self, repository: &Repository, digest: &Digest, size: u64) -> Result<Bytes, Fault> {
        let name = digest.to_string();
        if size > DOCUMENT_CAP as u64 {
            return Err(Fault::new(
                Reason::LimitExceeded,
                format!("the blob {digest} of {}/{}", repository.registry, repository.path),
                format!("it has {size} bytes"),
                format!("such a blob may have {DOCUMENT_CAP} bytes"),
            ));
        }
        let answer = self
            .0
            .ask(repository, &Question::blob(Method::GET, &name, 0))
            .await;
        let (about, bytes) = document(answer?).await?;
        let bytes = about.verified(digest, bytes)?;
        if bytes.len() as u64 != size {
            return Err(Fault::new(
                Reason::DigestMismatch,
                about.asked,
                format!("the blob has {} bytes, its descriptor says {size}", bytes.len()),
                "have the image built anew: its manifest is wrong",
            ));
        }
        Ok(bytes)
    }

    async fn blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        offset: u64,
    ) -> Result<BlobStream, Fault> {
        self.blob_from(repository, digest, size, offset).await
    }

    async fn has_blob(&self, repository: &Repository, digest: &Digest) -> Result<(), Fault> {
        let name = digest.to_string();
        let question = Question::blob(Method::HEAD, &name, 0);
        // After a GET the body is left unread: that the registry gives it is all that is asked.
        self.0.head_or_get(repository, question).await.map(drop)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}
