//! [`Registry`] over HTTP: the OCI distribution-spec's pull part, and what Docker's registries do
//! beside it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, StatusCode, header::CONTENT_TYPE};
use serde::de::IgnoredAny;

use super::{
    BlobStream, RawManifest, Registry, Repository,
    exchange::{Exchange, Question},
    fault,
    keyring::Keyring,
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
        let told = |answer: &Answer| {
            let value = answer.headers().get(CONTENT_DIGEST)?.to_str().ok()?;
            value.trim().parse::<Digest>().ok()
        };
        let answer = self
            .0
            .head_or_get(repository, Question::manifest(Method::HEAD, tag))
            .await?;
        if answer.was_head()
            && let Some(digest) = told(&answer)
        {
            return Ok(digest);
        }
        let answer = if answer.was_head() {
            let question = Question::manifest(Method::GET, tag);
            self.0
                .ask(repository, &question)
                .await
                .map_err(|failure| failure.fault)?
        } else {
            answer
        };
        let told = told(&answer);
        let (about, bytes) = document(answer).await?;
        match told {
            Some(told) => about.verified(&told, &bytes).map(|()| told),
            // Any bytes have a digest, those of a log-in page too, which will go away by itself.
            None if is_object(&bytes) => Ok(Digest::sha256(&bytes)),
            None => Err(about.is_no_manifest(&bytes)),
        }
    }

    async fn blob_from(
        &self,
        repository: &Repository,
        digest: &Digest,
        offset: u64,
    ) -> Result<BlobStream, Fault> {
        let name = digest.to_string();
        if offset > 0 {
            match self
                .0
                .ask(repository, &Question::blob(Method::GET, &name, offset))
                .await
            {
                Ok(answer) if answer.status() != StatusCode::PARTIAL_CONTENT => return Ok(stream(answer, 0)),
                Ok(answer) if range::start_of(answer.headers()) == Some(offset) => {
                    return Ok(stream(answer, offset));
                }
                // A part that does not say which, or is not the one: asked for the whole instead.
                Ok(_) => {}
                Err(failure) if failure.status == Some(StatusCode::RANGE_NOT_SATISFIABLE) => {}
                Err(failure) => return Err(failure.fault),
            }
        }
        let answer = self
            .0
            .ask(repository, &Question::blob(Method::GET, &name, 0))
            .await;
        let answer = answer?;
        if answer.status() == StatusCode::PARTIAL_CONTENT && range::start_of(answer.headers()) != Some(0) {
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
        Ok(stream(answer, 0))
    }
}

fn stream(answer: Answer, start: u64) -> BlobStream {
    BlobStream {
        start,
        mirror: None,
        chunks: answer.into_chunks(),
    }
}

/// What a fault says of a document's answer.
struct About {
    asked: String,
    content_type: String,
    quotable: bool,
}

impl About {
    /// What the answer is said to be, and how it begins if that may be told.
    fn looks(&self, bytes: &[u8]) -> String {
        let mut looks = format!("its type is {:?}", self.content_type);
        if self.quotable {
            let start = &bytes[..bytes.len().min(80)];
            looks.push_str(&format!(", it begins {:?}", String::from_utf8_lossy(start)));
        }
        looks
    }

    fn is_no_manifest(&self, bytes: &[u8]) -> Fault {
        Fault::new(
            Reason::RegistryError,
            self.asked.as_str(),
            format!("the answer is no manifest; {}", self.looks(bytes)),
            "look for a proxy or a log-in page that answers in the registry's place",
        )
    }

    fn verified(&self, wanted: &Digest, bytes: &[u8]) -> Result<(), Fault> {
        let found = wanted.of_same_kind(bytes);
        if found == *wanted {
            return Ok(());
        }
        let happened = format!(
            "the answer's digest is {found}, not {wanted}; {}",
            self.looks(bytes)
        );
        Err(Fault::new(
            Reason::DigestMismatch,
            self.asked.as_str(),
            happened,
            "look for a proxy, mirror or storage that serves something else",
        ))
    }
}

/// Whether it is a JSON object, as manifests and indexes are.
fn is_object(bytes: &[u8]) -> bool {
    serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(bytes).is_ok()
}

async fn document(answer: Answer) -> Result<(About, Bytes), Fault> {
    let content_type = answer
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let about = About {
        asked: answer.asked().to_owned(),
        content_type: fault::quoted(content_type.unwrap_or_default()),
        quotable: answer.at_home,
    };
    let bytes = answer.into_bytes(DOCUMENT_CAP).await?;
    Ok((about, bytes))
}

impl Registry for Transport {
    fn resolve<'a>(
        &'a self,
        repository: &'a Repository,
        tag: &'a str,
    ) -> BoxFuture<'a, Result<Digest, Fault>> {
        Box::pin(self.digest_of_tag(repository, tag))
    }

    fn manifest<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<RawManifest, Fault>> {
        Box::pin(async move {
            let name = digest.to_string();
            let answer = self
                .0
                .ask(repository, &Question::manifest(Method::GET, &name))
                .await;
            let (about, bytes) = document(answer?).await?;
            about.verified(digest, &bytes)?;
            Ok(RawManifest {
                bytes,
                content_type: about.content_type,
            })
        })
    }

    fn small_blob<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
        size: u64,
    ) -> BoxFuture<'a, Result<Bytes, Fault>> {
        Box::pin(async move {
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
            about.verified(digest, &bytes)?;
            if bytes.len() as u64 != size {
                return Err(Fault::new(
                    Reason::DigestMismatch,
                    about.asked,
                    format!("the blob has {} bytes, its descriptor says {size}", bytes.len()),
                    "have the image built anew: its manifest is wrong",
                ));
            }
            Ok(bytes)
        })
    }

    fn blob<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
        offset: u64,
    ) -> BoxFuture<'a, Result<BlobStream, Fault>> {
        Box::pin(self.blob_from(repository, digest, offset))
    }

    fn has_blob<'a>(
        &'a self,
        repository: &'a Repository,
        digest: &'a Digest,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let name = digest.to_string();
            let question = Question::blob(Method::HEAD, &name, 0);
            // After a GET the body is left unread: that the registry gives it is all that is asked.
            self.0.head_or_get(repository, question).await.map(drop)
        })
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}
