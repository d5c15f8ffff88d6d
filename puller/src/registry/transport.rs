//! [`Registry`] over HTTP: the OCI distribution-spec's pull part, and what Docker's registries do
//! beside it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RANGE},
};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};

use super::{
    BlobStream, RawManifest, Registry, Repository,
    auth::{Demand, Means, Sessions, Tried},
    challenge, fault,
    keyring::Keyring,
    pause::Pauses,
    range,
    scheme::Schemes,
    settings::Settings,
    site::{self, Site},
    wire::{Answer, Call, Wire},
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
pub struct Transport {
    wire: Wire,
    schemes: Schemes,
    sessions: Sessions,
    pauses: Pauses,
    keyring: Arc<Keyring>,
}

/// What is asked of a repository.
#[derive(Debug)]
struct Question<'a> {
    method: Method,
    kind: &'static str,
    name: &'a str,
    offset: u64,
}

impl<'a> Question<'a> {
    fn manifest(method: Method, name: &'a str) -> Self {
        Self {
            method,
            kind: "manifests",
            name,
            offset: 0,
        }
    }

    fn blob(method: Method, name: &'a str, offset: u64) -> Self {
        Self {
            method,
            kind: "blobs",
            name,
            offset,
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.kind == "manifests" {
            // One field with all of them: some registries look at the first field only.
            let types = [
                OCI_IMAGE_INDEX_MEDIA_TYPE,
                OCI_IMAGE_MEDIA_TYPE,
                IMAGE_MANIFEST_LIST_MEDIA_TYPE,
                IMAGE_MANIFEST_MEDIA_TYPE,
            ];
            let accept = HeaderValue::try_from(types.join(", ")).expect("media types are header values");
            headers.insert(ACCEPT, accept);
        }
        if self.offset > 0 {
            let range =
                HeaderValue::try_from(format!("bytes={}-", self.offset)).expect("a range is a header value");
            headers.insert(RANGE, range);
        }
        headers
    }
}

/// An answer without success, and its status if there was an answer.
#[derive(Debug)]
struct Failure {
    status: Option<StatusCode>,
    fault: Fault,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self { status: None, fault }
    }
}

impl Transport {
    /// A transport that takes its credentials from `keyring`. It makes aws-lc-rs the process's TLS
    /// provider, unless another has been installed.
    ///
    /// # Errors
    /// A CA file can't be used.
    pub fn new(settings: &Settings, keyring: Arc<Keyring>) -> Result<Self, Error> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let provider = rustls::crypto::CryptoProvider::get_default().map_or_else(
            || Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
            Arc::clone,
        );
        let schemes = Schemes::new(&settings.plain_http, provider)
            .map_err(|error| Error::Config(format!("the TLS provider: {error}")))?;
        Ok(Self {
            wire: Wire::new(settings)?,
            schemes,
            sessions: Sessions::default(),
            pauses: Pauses::default(),
            keyring,
        })
    }

    /// Asks until there is an answer with success, or nothing is left to try.
    async fn ask(&self, repository: &Repository, question: &Question<'_>) -> Result<Answer, Failure> {
        self.pauses.wait(&repository.registry, &repository.activity).await;
        let site = self.site(repository).await?;
        let failure = match self.ask_at(&site, repository, question).await {
            Err(failure) if failure.fault.reason == Reason::BlockedByPolicy => failure,
            result => return result,
        };
        // The registry may have moved since its place was looked up.
        if let Some(host) = site.base.host_str() {
            self.wire.guard.forget(host);
        }
        let moved = self.site(repository).await?;
        if moved.reach == site.reach {
            return Err(failure);
        }
        self.ask_at(&moved, repository, question).await
    }

    async fn site(&self, repository: &Repository) -> Result<Site, Fault> {
        let _wait = repository
            .activity
            .waiting_for(format!("an answer from {}", repository.registry));
        Site::of(repository, &self.schemes, &self.wire.guard).await
    }

    /// The same at one place: with the credentials that are asked for, and once more where a storage
    /// refuses a link that the registry gave.
    async fn ask_at(
        &self,
        site: &Site,
        repository: &Repository,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let candidates = self
            .keyring
            .candidates(&repository.scope, &repository.registry, &repository.path)
            .ok_or_else(|| awaits_values(repository))?;
        let session = self.sessions.of(repository);
        let means = Means {
            wire: &self.wire,
            site,
            repository,
            candidates,
        };
        let mut call = Call {
            method: question.method.clone(),
            url: site.url(&repository.path, question.kind, question.name)?,
            headers: question.headers(),
            authorization: None,
            form: None,
            plain: site.is_plain(),
            reach: site.reach,
            activity: &repository.activity,
        };
        let mut pass = session
            .ready(&means)
            .await
            .map_err(|fault| self.noted(repository, fault))?;
        let mut tried = Tried::default();
        let mut asked_storage_again = false;
        loop {
            self.pauses.wait(&repository.registry, &repository.activity).await;
            call.authorization = pass.as_ref().map(|pass| pass.header.clone());
            let answer = match self.wire.ask(&call).await {
                Ok(answer) => answer,
                Err(fault) => return Err(self.doubted(site, fault).into()),
            };
            let status = answer.status();
            if status.is_success() {
                return Ok(answer);
            }
            let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if refused && !answer.at_home {
                // A presigned link may have expired on the way; the registry gives a new one.
                if asked_storage_again {
                    return Err(self.failure(repository, site, answer).await);
                }
                asked_storage_again = true;
                continue;
            }
            let challenges = challenge::all(answer.headers());
            let more = match (status, &pass) {
                (StatusCode::UNAUTHORIZED, _) => match Demand::of(&challenges, site) {
                    Ok(demand) => {
                        session
                            .next(&means, pass.as_ref(), &demand, &challenges, &mut tried)
                            .await
                    }
                    Err(problem) => {
                        let mut failure = self.failure(repository, site, answer).await;
                        failure.fault.happened.push_str(&format!(", {problem}"));
                        return Err(failure);
                    }
                },
                (StatusCode::FORBIDDEN, Some(used)) => session.another(&means, used, &mut tried).await,
                _ => Ok(None),
            };
            match more {
                Ok(Some(next)) => pass = Some(next),
                Ok(None) => {
                    if let Some(pass) = pass.filter(|_| refused) {
                        session.drop_pass(&pass).await;
                    }
                    return Err(self.failure(repository, site, answer).await);
                }
                Err(fault) => {
                    return Err(Failure {
                        status: Some(status),
                        fault: self.noted(repository, fault),
                    });
                }
            }
        }
    }

    /// HEAD, and GET where that fails in any way that a GET may not: registries answer HEAD with 403,
    /// 404, 405 and worse where GET works, and an error to GET comes with its reasons.
    async fn head_or_get(
        &self,
        repository: &Repository,
        mut question: Question<'_>,
    ) -> Result<Answer, Fault> {
        let failure = match self.ask(repository, &question).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        match failure.status {
            None | Some(StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS) => Err(failure.fault),
            Some(_) => {
                question.method = Method::GET;
                self.ask(repository, &question)
                    .await
                    .map_err(|failure| failure.fault)
            }
        }
    }

    /// The failure that an answer is, with what would be right.
    async fn failure(&self, repository: &Repository, site: &Site, answer: Answer) -> Failure {
        let status = answer.status();
        let Site { registry, whose, .. } = site;
        let remedy = match status.as_u16() {
            _ if !answer.at_home => format!("look at the storage of {registry}"),
            400 if site.is_plain() => {
                self.schemes.forget(&site.base);
                String::new()
            }
            401 => format!(
                "check that {whose} for {registry} are right and may pull {}",
                repository.path
            ),
            403 => format!(
                "let the account of {whose} for {registry} pull {}",
                repository.path
            ),
            404 => format!("check the name; or {whose} may not see it"),
            407 => "check the credentials of the proxy".to_owned(),
            _ => String::new(),
        };
        let fault = answer.into_fault(remedy).await;
        Failure {
            status: Some(status),
            fault: self.noted(repository, fault),
        }
    }

    /// Begins the pause that a fault asks for.
    fn noted(&self, repository: &Repository, fault: Fault) -> Fault {
        if fault.reason == Reason::RateLimited {
            self.pauses.begin(&repository.registry, fault.retry_after);
        }
        fault
    }

    /// Forgets how the registry is spoken to, if a fault puts that in doubt.
    fn doubted(&self, site: &Site, fault: Fault) -> Fault {
        if fault::doubts_protocol(&fault) {
            self.schemes.forget(&site.base);
        }
        fault
    }

    async fn digest_of_tag(&self, repository: &Repository, tag: &str) -> Result<Digest, Fault> {
        let told = |answer: &Answer| {
            let value = answer.headers().get(CONTENT_DIGEST)?.to_str().ok()?;
            value.trim().parse::<Digest>().ok()
        };
        let answer = self
            .head_or_get(repository, Question::manifest(Method::HEAD, tag))
            .await?;
        if answer.was_head()
            && let Some(digest) = told(&answer)
        {
            return Ok(digest);
        }
        let answer = if answer.was_head() {
            let question = Question::manifest(Method::GET, tag);
            self.ask(repository, &question)
                .await
                .map_err(|failure| failure.fault)?
        } else {
            answer
        };
        let told = told(&answer);
        let (about, bytes) = document(answer).await?;
        match told {
            Some(told) => about.verified(&told, &bytes).map(|()| told),
            None => Ok(Digest::sha256(&bytes)),
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
        let answer = self.ask(repository, &Question::blob(Method::GET, &name, 0)).await;
        let answer = answer.map_err(|failure| failure.fault)?;
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
    fn verified(&self, wanted: &Digest, bytes: &[u8]) -> Result<(), Fault> {
        let found = wanted.of_same_kind(bytes);
        if found == *wanted {
            return Ok(());
        }
        let mut happened = format!(
            "the answer's digest is {found}, not {wanted}; its type is {:?}",
            self.content_type
        );
        if self.quotable {
            let start = &bytes[..bytes.len().min(80)];
            happened.push_str(&format!(", it begins {:?}", String::from_utf8_lossy(start)));
        }
        Err(Fault::new(
            Reason::DigestMismatch,
            self.asked.as_str(),
            happened,
            "look for a proxy, mirror or storage that serves something else",
        ))
    }
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

fn awaits_values(repository: &Repository) -> Fault {
    let Repository {
        registry,
        path,
        scope,
        ..
    } = repository;
    Fault::new(
        Reason::Unauthorized,
        format!("{registry}/{path}"),
        format!(
            "{} are not here; they are kept in memory only",
            site::whose(scope)
        ),
        "waits for a Fetch that brings them",
    )
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
                .ask(repository, &Question::manifest(Method::GET, &name))
                .await;
            let (about, bytes) = document(answer.map_err(|failure| failure.fault)?).await?;
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
            let answer = self.ask(repository, &Question::blob(Method::GET, &name, 0)).await;
            let (about, bytes) = document(answer.map_err(|failure| failure.fault)?).await?;
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
            self.head_or_get(repository, question).await.map(drop)
        })
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}
