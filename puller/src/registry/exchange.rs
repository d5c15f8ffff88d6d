//! One question to a repository and all that it takes to have an answer: pauses, credentials, and
//! second tries where they make sense.

use std::sync::Arc;

use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, RANGE},
};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};

use super::{
    Repository,
    auth::{Demand, Lookup, Means, Sessions, Tried},
    challenge::{self, Challenge},
    fault,
    guests::Guests,
    keyring::Keyring,
    pause::Pauses,
    scheme::Schemes,
    settings::Settings,
    site::Site,
    wire::{Answer, Call, Wire},
};
use crate::{
    domain::Reason,
    error::{Error, Fault},
};

/// Asks all registries, and remembers what holds for more than one question.
#[derive(Debug)]
pub(super) struct Exchange {
    wire: Wire,
    schemes: Schemes,
    sessions: Sessions,
    pauses: Pauses,
    guests: Guests,
    keyring: Arc<Keyring>,
}

/// What is asked of a repository.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) method: Method,
    kind: &'static str,
    name: &'a str,
    offset: u64,
}

impl<'a> Question<'a> {
    pub(super) fn manifest(method: Method, name: &'a str) -> Self {
        Self {
            method,
            kind: "manifests",
            name,
            offset: 0,
        }
    }

    pub(super) fn blob(method: Method, name: &'a str, offset: u64) -> Self {
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
            // One field with all of them, since some registries look at the first field only; then one
            // for each, since others do not part a field at its commas. Both are the same list (RFC 9110
            // section 5.3).
            let types = [
                OCI_IMAGE_INDEX_MEDIA_TYPE,
                OCI_IMAGE_MEDIA_TYPE,
                IMAGE_MANIFEST_LIST_MEDIA_TYPE,
                IMAGE_MANIFEST_MEDIA_TYPE,
            ];
            let accept = HeaderValue::try_from(types.join(", ")).expect("media types are header values");
            headers.insert(ACCEPT, accept);
            for media_type in types {
                headers.append(ACCEPT, HeaderValue::from_static(media_type));
            }
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
pub(super) struct Failure {
    pub(super) status: Option<StatusCode>,
    pub(super) fault: Fault,
    /// It is a 401 that does not say how to authenticate.
    unchallenged: bool,
}

impl Failure {
    /// Whether GET may do better than the HEAD that failed so: always, but where another request would
    /// only ask again what was answered, or wait as long again.
    fn leaves_hope_for_get(&self) -> bool {
        match self.status {
            Some(StatusCode::UNAUTHORIZED) => self.unchallenged,
            Some(StatusCode::TOO_MANY_REQUESTS) => false,
            Some(_) => true,
            None => matches!(self.fault.reason, Reason::Network | Reason::RegistryError),
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        failure.fault
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self {
            status: None,
            fault,
            unchallenged: false,
        }
    }
}

impl Exchange {
    pub(super) fn new(settings: &Settings, keyring: Arc<Keyring>) -> Result<Self, Error> {
        // Fails if there is one already, which is then the one to be used.
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
            guests: Guests::default(),
            keyring,
        })
    }

    /// Asks until there is an answer with success, or nothing is left to try.
    pub(super) async fn ask(
        &self,
        repository: &Repository,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
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

    /// The same at one place, with the credentials that there are.
    async fn ask_at(
        &self,
        site: &Site,
        repository: &Repository,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let lookup = Lookup::new(&self.keyring, repository)?;
        let answered = self.ask_with(site, repository, question, &lookup).await;
        answered.map_err(|mut failure| {
            if failure.fault.reason.is_refusal() {
                self.keyring.refused(&repository.registry, &repository.path);
                for problem in lookup.problems() {
                    failure.fault.happened.push_str(&format!("; {problem}"));
                }
            }
            failure
        })
    }

    /// The same with credentials that are looked up once they are wanted, and once more where a storage
    /// refuses a link that the registry gave.
    async fn ask_with(
        &self,
        site: &Site,
        repository: &Repository,
        question: &Question<'_>,
        lookup: &Lookup<'_>,
    ) -> Result<Answer, Failure> {
        let session = self.sessions.of(repository);
        let means = Means {
            wire: &self.wire,
            site,
            repository,
            lookup,
        };
        let mut call = Call {
            method: question.method.clone(),
            url: site.url(&repository.path, question.kind, question.name)?,
            headers: question.headers(),
            authorization: None,
            guest: self.guests.known(&repository.registry, &repository.path),
            form: None,
            plain: site.is_plain(),
            reach: site.reach,
            insecure: site.insecure,
            activity: &repository.activity,
        };
        let mut pass = session
            .ready(&means)
            .await
            .map_err(|fault| self.noted(repository, fault))?;
        let mut tried = Tried::default();
        let (mut asked_storage_again, mut asked_for_guest) = (false, false);
        let mut of_base = None;
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
            if !answer.at_home && status == StatusCode::UNAUTHORIZED && !asked_for_guest {
                asked_for_guest = true;
                let challenges = challenge::all(answer.headers());
                if let Some(guest) = self.guests.obtain(&means, &answer.url, &challenges).await {
                    call.guest = Some(guest);
                    continue;
                }
            }
            if !answer.at_home && may_be_expired(status) {
                // A presigned link may have expired on the way; the registry gives a new one.
                if asked_storage_again {
                    return Err(self.failure(repository, site, answer).await);
                }
                asked_storage_again = true;
                continue;
            }
            let mut challenges = challenge::all(answer.headers());
            let hidden = pass.is_none() && may_hide(&answer) && lookup.has_credentials().await?;
            // A HEAD is followed by a GET then.
            let unsaid = challenges.is_empty() && question.method == Method::GET;
            if unsaid && (status == StatusCode::UNAUTHORIZED || hidden) {
                challenges = match of_base.take() {
                    Some(before) => before,
                    None => self.challenges_of_base(site, &call).await,
                };
                of_base = Some(challenges.clone());
            }
            let more = match (status, &pass) {
                _ if is_challenge(status, &challenges) || (hidden && !challenges.is_empty()) => {
                    match Demand::of(&challenges, site) {
                        Ok(demand) => {
                            session
                                .next(&means, pass.as_ref(), &demand, &challenges, &mut tried)
                                .await
                        }
                        Err(problem) => {
                            let mut failure = self.failure(repository, site, answer).await;
                            failure.fault.happened.push_str(&format!(", {problem}"));
                            failure.unchallenged = challenges.is_empty();
                            return Err(failure);
                        }
                    }
                }
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
                        ..self.noted(repository, fault).into()
                    });
                }
            }
        }
    }

    /// What the API's base asks for. Docker and its kin ask there first, so that some registries, and what is
    /// in front of them, say it nowhere else.
    async fn challenges_of_base(&self, site: &Site, call: &Call<'_>) -> Vec<Challenge> {
        let mut url = site.base.clone();
        url.set_path("/v2/");
        let base = Call {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            authorization: None,
            guest: None,
            form: None,
            ..*call
        };
        match self.wire.ask(&base).await {
            Ok(answer) if answer.at_home && answer.status() == StatusCode::UNAUTHORIZED => {
                challenge::all(answer.headers())
            }
            // Whatever is wrong there, the 401 at hand is what is told.
            _ => Vec::new(),
        }
    }

    /// HEAD, and GET where that fails in any way that a GET may not: registries answer HEAD with 403,
    /// 404, 405 and worse, or not at all, where GET works, and an error to GET comes with its reasons.
    pub(super) async fn head_or_get(
        &self,
        repository: &Repository,
        mut question: Question<'_>,
    ) -> Result<Answer, Fault> {
        let failure = match self.ask(repository, &question).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        if !failure.leaves_hope_for_get() {
            return Err(failure.fault);
        }
        question.method = Method::GET;
        Ok(self.ask(repository, &question).await?)
    }

    /// The failure that an answer is, with what would be right.
    async fn failure(&self, repository: &Repository, site: &Site, answer: Answer) -> Failure {
        let status = answer.status();
        let Site { registry, whose, .. } = site;
        let remedy = match status.as_u16() {
            401 if !answer.at_home && !challenge::all(answer.headers()).is_empty() => format!(
                "{registry} leads to {}, where {whose} are not sent: pull from there",
                answer.host
            ),
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
            ..self.noted(repository, fault).into()
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
}

/// Whether an answer wants another authorisation: a 401, or the 403 that RFC 6750 section 3.1 has for a
/// token whose scope does not suffice.
fn is_challenge(status: StatusCode, challenges: &[Challenge]) -> bool {
    let too_narrow = |challenge: &Challenge| challenge.parameter("error") == Some("insufficient_scope");
    status == StatusCode::UNAUTHORIZED
        || (status == StatusCode::FORBIDDEN && challenges.iter().any(too_narrow))
}

/// Whether a registry answers so to strangers, for what others may have: who has credentials shows them then.
fn may_hide(answer: &Answer) -> bool {
    answer.at_home && matches!(answer.status(), StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
}

/// Whether a storage answers so to a link that has expired: 403 mostly, 400 where the key that signed it
/// has, and 401, 404 or 410 at some.
fn may_be_expired(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 401 | 403 | 404 | 410)
}
