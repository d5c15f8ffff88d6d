//! Which `Authorization` a request carries: one [`Session`] for each registry, repository and scope.
//!
//! Nothing is sent before the registry asks for it. What it then accepts is remembered and sent at
//! once with the next request. Tokens are fetched by one task while the others wait for what comes of
//! it, be it a token or a fault.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use http::HeaderValue;
use tokio::sync::MutexGuard;

use super::{
    Repository,
    challenge::Challenge,
    fault,
    keyring::Credential,
    redirect,
    site::Site,
    token::{self, Denied, Realm},
    wire::Wire,
};
use crate::{
    domain::{Reason, Scope},
    error::Fault,
};

mod lookup;

pub(super) use lookup::Lookup;

/// Sessions that are kept although nobody uses them; more than a node has repositories.
const MOST_SESSIONS: usize = 1024;

/// What is known of all registries' wishes for authorisation.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Key, Arc<Session>>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    registry: String,
    repository: String,
    /// What was sent without verification is not used with it, nor the other way round.
    insecure: bool,
    scope: Scope,
}

/// Authorisation for one repository under one scope.
#[derive(Debug, Default)]
pub(super) struct Session {
    state: tokio::sync::Mutex<State>,
    /// Whether the registry has ever wanted credentials here. Before that none are looked up.
    challenged: AtomicBool,
    /// Flights that have landed: whoever waited for one takes what it brought.
    landed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// What the keyring had when the rest was found out.
    candidates: Vec<Credential>,
    demand: Option<Demand>,
    pass: Option<Pass>,
    /// Of the last flight, if it failed.
    failure: Option<Fault>,
    passes: u64,
}

/// How a registry wants us to show who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Demand {
    /// A token from there.
    Bearer(Realm),
    /// User name and password.
    Basic,
}

/// An `Authorization` that may be good.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    /// The header.
    pub(super) header: HeaderValue,
    /// Tells it from others of its session.
    number: u64,
    /// Which of the candidates it was made of.
    turn: usize,
    /// `None`: it is used until it is refused.
    expires: Option<Instant>,
    /// Whether asking once more could give another.
    renewable: bool,
    /// The token's scope.
    scope: String,
}

/// What a request has tried so far, so that each thing is tried once.
#[derive(Debug, Default)]
pub(super) struct Tried {
    renewed: bool,
    widened: bool,
    /// The pass at hand came of this request's own 401.
    fresh: bool,
}

/// What is asked of a session.
#[derive(Debug)]
struct Want<'a> {
    demand: &'a Demand,
    scope: String,
    /// The pass with this number was refused.
    not: Option<u64>,
    /// The first candidate to be tried.
    turn: usize,
}

/// What a session needs to fetch tokens.
#[derive(Debug)]
pub(super) struct Means<'a> {
    pub(super) wire: &'a Wire,
    pub(super) site: &'a Site,
    pub(super) repository: &'a Repository,
    pub(super) lookup: &'a Lookup<'a>,
}

impl Sessions {
    /// The session of a repository.
    pub(super) fn of(&self, repository: &Repository) -> Arc<Session> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MOST_SESSIONS {
            sessions.retain(|_, session| Arc::strong_count(session) > 1);
        }
        let key = Key {
            registry: repository.registry.clone(),
            repository: repository.path.clone(),
            insecure: repository.insecure,
            scope: repository.scope.clone(),
        };
        Arc::clone(sessions.entry(key).or_default())
    }
}

impl Demand {
    /// What the challenges of an answer come to: Bearer before Basic, whatever their order.
    ///
    /// # Errors
    /// The text says why none of them can be met.
    pub(super) fn of(challenges: &[Challenge], site: &Site) -> Result<Self, String> {
        let mut problem = None;
        let basic = challenges.iter().any(|challenge| challenge.scheme == "basic");
        for challenge in challenges.iter().filter(|challenge| challenge.scheme == "bearer") {
            // Without a token server there is nothing to be got round.
            if basic && challenge.parameter("realm").is_none_or(str::is_empty) {
                continue;
            }
            match realm_of(challenge, site) {
                Ok(realm) => return Ok(Self::Bearer(realm)),
                Err(why) => problem = Some(why),
            }
        }
        // A Bearer challenge that we refuse for its realm is not got round by sending a password.
        match problem {
            Some(problem) => Err(problem),
            None if basic => Ok(Self::Basic),
            None if challenges.is_empty() => Err("without saying how to authenticate".to_owned()),
            None => {
                let schemes: Vec<_> = challenges
                    .iter()
                    .map(|challenge| challenge.scheme.as_str())
                    .collect();
                Err(format!("asking for {}", fault::quoted(&schemes.join(", "))))
            }
        }
    }
}

fn realm_of(challenge: &Challenge, site: &Site) -> Result<Realm, String> {
    let realm = challenge.parameter("realm").unwrap_or_default();
    let no_url = "naming a token server that is no URL";
    if realm.is_empty() {
        return Err(no_url.to_owned());
    }
    let mut url = site.base.join(realm).map_err(|_| no_url)?;
    match url.scheme() {
        "https" => {}
        "http" if site.is_plain() => {}
        scheme => {
            return Err(format!(
                "naming a token server by {}, to which no credentials are sent",
                fault::quoted(scheme)
            ));
        }
    }
    redirect::strip_userinfo(&mut url).map_err(|()| no_url)?;
    let service = challenge
        .parameter("service")
        .filter(|service| !service.is_empty());
    Ok(Realm {
        url,
        service: service.map(str::to_owned),
    })
}

impl Session {
    /// What is to be sent without being asked; a token that has expired is renewed.
    ///
    /// # Errors
    /// The renewal failed.
    pub(super) async fn ready(&self, means: &Means<'_>) -> Result<Option<Pass>, Fault> {
        if !self.challenged.load(Ordering::Acquire) {
            return Ok(None);
        }
        let demand = {
            let state = self.after_others(means).await?;
            match (&state.pass, &state.demand) {
                (Some(pass), _) if pass.is_current() => return Ok(Some(pass.clone())),
                (Some(_), Some(demand)) => demand.clone(),
                _ => return Ok(None),
            }
        };
        let want = Want {
            demand: &demand,
            scope: pull_scope(means.repository),
            not: None,
            turn: 0,
        };
        self.obtain(means, want).await.map(Some)
    }

    /// What to send after a 401; `None`: all has been tried.
    ///
    /// # Errors
    /// The challenge can't be met, or no token could be had.
    pub(super) async fn next(
        &self,
        means: &Means<'_>,
        refused: Option<&Pass>,
        demand: &Demand,
        challenges: &[Challenge],
        tried: &mut Tried,
    ) -> Result<Option<Pass>, Fault> {
        self.challenged.store(true, Ordering::Release);
        let own_scope = pull_scope(means.repository);
        let mut want = Want {
            demand,
            scope: own_scope.clone(),
            not: refused.map(|pass| pass.number),
            turn: refused.map_or(0, |pass| pass.turn),
        };
        if let Some(pass) = refused {
            let wider = wider_scope(challenges, &pass.scope);
            if pass.renewable && !tried.fresh && !tried.renewed {
                tried.renewed = true;
            } else if let Some(wider) = wider.filter(|_| pass.renewable && !tried.widened) {
                tried.widened = true;
                want.scope = wider;
            } else if pass.turn + 1 < means.lookup.credentials().await?.len() {
                want.turn = pass.turn + 1;
                *tried = Tried::default();
            } else {
                return Ok(None);
            }
        }
        tried.fresh = true;
        self.obtain(means, want).await.map(Some)
    }

    /// What to send after a 403, which another credential may do better than; `None`: there is none.
    ///
    /// # Errors
    /// No token could be had with it.
    pub(super) async fn another(
        &self,
        means: &Means<'_>,
        used: &Pass,
        tried: &mut Tried,
    ) -> Result<Option<Pass>, Fault> {
        let demand = self.state.lock().await.demand.clone();
        let candidates = means.lookup.credentials().await?.len();
        let (Some(demand), true) = (demand, used.turn + 1 < candidates) else {
            return Ok(None);
        };
        *tried = Tried {
            fresh: true,
            ..Tried::default()
        };
        let want = Want {
            demand: &demand,
            scope: pull_scope(means.repository),
            not: Some(used.number),
            turn: used.turn + 1,
        };
        self.obtain(means, want).await.map(Some)
    }

    /// Forgets a pass that came to nothing, so that the next request begins anew.
    pub(super) async fn drop_pass(&self, pass: &Pass) {
        let mut state = self.state.lock().await;
        if state
            .pass
            .as_ref()
            .is_some_and(|current| current.number == pass.number)
        {
            state.pass = None;
        }
    }

    /// The state, once nobody else is fetching. Whoever had to wait for one who failed fails too,
    /// instead of finding out the same again.
    async fn after_others(&self, means: &Means<'_>) -> Result<MutexGuard<'_, State>, Fault> {
        let Repository {
            registry,
            path,
            activity,
            ..
        } = means.repository;
        let seen = self.landed.load(Ordering::Acquire);
        let candidates = means.lookup.credentials().await?;
        let mut state = {
            let _wait = activity.waiting_for(format!("authorisation for {registry}/{path}"));
            self.state.lock().await
        };
        state.adopt(candidates);
        match &state.failure {
            Some(failure) if self.landed.load(Ordering::Acquire) != seen => Err(failure.clone()),
            _ => Ok(state),
        }
    }

    async fn obtain(&self, means: &Means<'_>, want: Want<'_>) -> Result<Pass, Fault> {
        let mut state = self.after_others(means).await?;
        if let Some(pass) = &state.pass
            && Some(pass.number) != want.not
            && pass.turn >= want.turn
            && pass.is_current()
            // A wider scope will do for whoever wants the ordinary one, but not the other way round.
            && (want.scope == pass.scope || want.scope == pull_scope(means.repository))
        {
            return Ok(pass.clone());
        }
        let made = make(means, &want, state.passes + 1).await;
        state.failure = made.as_ref().err().cloned();
        state.demand = Some(want.demand.clone());
        state.pass = made.as_ref().ok().cloned();
        state.passes += 1;
        self.landed.fetch_add(1, Ordering::Release);
        made
    }
}

impl State {
    /// Forgets all that was found out with other credentials than these.
    fn adopt(&mut self, candidates: &[Credential]) {
        if self.candidates != candidates {
            *self = Self {
                candidates: candidates.to_vec(),
                passes: self.passes,
                ..Self::default()
            };
        }
    }
}

impl Pass {
    fn is_current(&self) -> bool {
        self.expires.is_none_or(|expires| Instant::now() < expires)
    }
}

/// Makes a pass of the first candidate that is not refused, from `want.turn` on. Where there is none
/// at all, anonymously.
async fn make(means: &Means<'_>, want: &Want<'_>, number: u64) -> Result<Pass, Fault> {
    let pass = |header, turn, expires, renewable| Pass {
        header,
        number,
        turn,
        expires,
        renewable,
        scope: want.scope.clone(),
    };
    let activity = &means.repository.activity;
    let mut refusal = None;
    let candidates: Vec<_> = match means.lookup.credentials().await? {
        [] => vec![None],
        some => some.iter().map(Some).collect(),
    };
    for (turn, candidate) in candidates.into_iter().enumerate().skip(want.turn) {
        match (want.demand, candidate) {
            (Demand::Bearer(_), Some(Credential::Registry(bearer))) => {
                if let Some(header) = token::bearer(bearer.expose()) {
                    return Ok(pass(header, turn, None, false));
                }
            }
            (Demand::Bearer(realm), candidate) => {
                match token::fetch(means.wire, means.site, realm, candidate, &want.scope, activity).await {
                    Ok(token) => return Ok(pass(token.header, turn, Some(token.expires), true)),
                    Err(Denied::Credentials(fault)) => refusal = refusal.or(Some(fault)),
                    Err(Denied::Other(fault)) => return Err(fault),
                }
            }
            (Demand::Basic, Some(Credential::Login { username, password })) => {
                return Ok(pass(token::basic(username, password.expose()), turn, None, false));
            }
            // A token is no password.
            (Demand::Basic, _) => {}
        }
    }
    Err(refusal.unwrap_or_else(|| nothing_fits(means, want)))
}

fn nothing_fits(means: &Means<'_>, want: &Want<'_>) -> Fault {
    let Site { registry, whose, .. } = means.site;
    let how = match want.demand {
        Demand::Basic => "a user name and a password",
        Demand::Bearer(_) => "a token",
    };
    Fault::new(
        Reason::Unauthorized,
        format!("{registry}/{}", means.repository.path),
        format!("{registry} asks for {how}, and {whose} have none for it"),
        format!("add a user name and a password for {registry} to {whose}"),
    )
}

/// The scope that a pull needs. What the registry names in its challenge may be a placeholder.
pub(super) fn pull_scope(repository: &Repository) -> String {
    format!("repository:{}:pull", repository.path)
}

/// The scope that a challenge asks for, if that is not what the refused token had.
fn wider_scope(challenges: &[Challenge], had: &str) -> Option<String> {
    let challenge = challenges.iter().find(|challenge| challenge.scheme == "bearer")?;
    let scope = challenge
        .parameter("scope")
        .filter(|scope| !scope.is_empty() && *scope != had)?;
    let said = challenge.parameter("error");
    let told = matches!(said, Some("insufficient_scope" | "invalid_scope"));
    (told || said.is_none()).then(|| scope.to_owned())
}

#[cfg(test)]
mod tests;
