//! What the API server says of tokens.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, api::PostParams};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::PATH;

/// For how long it holds. Who scrapes does so at about that rate.
const FRESH: Duration = Duration::from_secs(30);
/// How many are kept, so that made-up tokens fill no memory.
const KEPT: usize = 256;
/// How many are asked for at once, so that made-up tokens do not burden the API server.
const AT_ONCE: usize = 4;
/// How long a client waits for the API server; Prometheus gives up after 10 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its user may read metrics.
    Allowed,
    /// Its user may not.
    Denied,
    /// It is nobody's.
    Unknown,
}

/// Why nothing is said.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Api(Box<kube::Error>),
    #[error("it did not answer within {PATIENCE:?}")]
    Silence,
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

/// Asks, and remembers for a while.
pub(super) struct Reviews {
    client: kube::Client,
    asking: Semaphore,
    /// By the token's hash: tokens themselves are not kept.
    kept: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
}

impl Reviews {
    pub(super) fn new(client: kube::Client) -> Self {
        Self {
            client,
            asking: Semaphore::new(AT_ONCE),
            kept: Mutex::default(),
        }
    }

    /// What a token is good for, as of now or of a moment ago.
    pub(super) async fn of(&self, token: &str) -> Result<Verdict, Error> {
        let hash = Sha256::digest(token).into();
        if let Some(verdict) = self.kept(&hash) {
            return Ok(verdict);
        }
        let asked = async {
            // It is never closed.
            let _permit = self.asking.acquire().await;
            match self.kept(&hash) {
                Some(verdict) => Ok(verdict),
                None => self.ask(token).await,
            }
        };
        let verdict = timeout(PATIENCE, asked).await.map_err(|_| Error::Silence)??;
        self.keep(hash, verdict);
        Ok(verdict)
    }

    async fn ask(&self, token: &str) -> Result<Verdict, Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let tokens: Api<TokenReview> = Api::all(self.client.clone());
        let status = tokens.create(&PostParams::default(), &review).await?.status;
        let status = status.filter(|status| status.authenticated == Some(true));
        let Some(user) = status.and_then(|status| status.user) else {
            return Ok(Verdict::Unknown);
        };
        let accesses: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = access(user);
        let status = accesses.create(&PostParams::default(), &review).await?.status;
        Ok(match status.is_some_and(|status| status.allowed) {
            true => Verdict::Allowed,
            false => Verdict::Denied,
        })
    }

    fn kept(&self, hash: &[u8; 32]) -> Option<Verdict> {
        let (since, verdict) = *self.lock().get(hash)?;
        (since.elapsed() < FRESH).then_some(verdict)
    }

    fn keep(&self, hash: [u8; 32], verdict: Verdict) {
        let mut kept = self.lock();
        if kept.len() >= KEPT {
            kept.retain(|_, (since, _)| since.elapsed() < FRESH);
        }
        if kept.len() >= KEPT {
            // Tokens of nobody go first: a flood of them leaves those of users alone.
            let oldest = kept
                .iter()
                .min_by_key(|(_, (since, verdict))| (*verdict != Verdict::Unknown, *since));
            if let Some(oldest) = oldest.map(|(hash, _)| *hash) {
                kept.remove(&oldest);
            }
        }
        kept.insert(hash, (Instant::now(), verdict));
    }

    /// What it holds is whole at any moment.
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, Verdict)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a user may read metrics.
fn access(user: UserInfo) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(PATH.to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::ApiServer, *};

    #[tokio::test(start_paused = true)]
    async fn verdicts_hold_for_a_while() {
        let server = ApiServer::default();
        let reviews = Reviews::new(server.client());
        for (after, asked) in [(0, 2), (0, 2), (29, 2), (2, 4)] {
            tokio::time::advance(Duration::from_secs(after)).await;
            assert_eq!(reviews.of("good").await.unwrap(), Verdict::Allowed);
            assert_eq!(server.asked(), asked);
        }
    }

    #[tokio::test]
    async fn made_up_tokens_fill_nothing_and_drive_no_user_out() {
        let server = ApiServer::default();
        let reviews = Reviews::new(server.client());
        reviews.of("good").await.unwrap();
        for n in 0..2 * KEPT {
            let verdict = reviews.of(&format!("made-up-{n}")).await.unwrap();
            assert_eq!(verdict, Verdict::Unknown);
        }
        assert_eq!(reviews.lock().len(), KEPT);
        let asked = server.asked();
        reviews.of("good").await.unwrap();
        assert_eq!(server.asked(), asked);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_silent_is_not_waited_for() {
        let server = ApiServer::default();
        let reviews = Reviews::new(server.client());
        let error = reviews.of("silence").await.unwrap_err();
        assert!(matches!(error, Error::Silence));
        assert!(reviews.lock().is_empty(), "what is not known is not kept");
    }
}
