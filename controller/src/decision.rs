//! What is to be done about one catalog: a pure function of what is the case.
//!
//! [`decide`] knows no client, clock or file. Whoever carries out its [`Decision`] looks at the result and asks
//! again, until there is nothing more to do; so each step rests on what is the case, and none on what was
//! planned before.

mod poll;
mod saying;

use std::time::Duration;

use jiff::Timestamp;
use puller_client::api::{Image, Phase};

use crate::{
    api::{AvailabilityMode, ClusterCatalog, ClusterCatalogStatus},
    status::{Urgency, urgency},
};

/// How often a catalog is looked at although nobody says that anything changed: a claim that a crash of the
/// puller lost is made again then.
const LOOK_EVERY: Duration = Duration::from_secs(5 * 60);
/// When a puller that can't be reached is asked again. Its Watch tells of its return sooner.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Whether this replica is the one that resolves tags and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is.
    Leader,
    /// It only keeps what the status names at hand.
    Follower,
}

/// For what a catalog claims an Image of the puller. Each is a claimant of its own, so that neither claim is
/// taken for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// What the spec asks for.
    Wanted,
    /// What the status says is served, by digest.
    Resolved,
}

/// A question for the puller, which is a request too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// For what.
    pub claim: Claim,
    /// The image.
    pub reference: String,
    /// How old the answer of the registry may be.
    pub max_age: Option<Duration>,
}

/// What the puller says to an [`Ask`].
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The state of the Image.
    Image(Box<Image>),
    /// It can't be asked for; the text says what is right.
    Refused(String),
    /// There was no answer; the text says why.
    None(String),
}

/// An Image that this catalog claims already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// For what.
    pub claim: Claim,
    /// The Image's id.
    pub id: String,
    /// The reference as it was asked for.
    pub reference: String,
}

/// What is stored here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The reference by digest.
    pub reference: String,
    /// The tree that it was made of, as the puller names it.
    pub tree: String,
    /// When it was stored first.
    pub unpacked: Timestamp,
}

/// Content that could not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailure {
    /// The tree that it was to be made of.
    pub tree: String,
    /// Why.
    pub message: String,
    /// When it is tried again.
    pub again: Timestamp,
}

/// All that a decision rests on.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The object as the API server has it.
    pub catalog: &'a ClusterCatalog,
    /// Whether this replica leads.
    pub role: Role,
    /// What the puller said to [`Claim::Wanted`]; none: it was not asked yet.
    pub wanted: Option<Answer>,
    /// What the puller said to [`Claim::Resolved`]; none: it was not asked yet.
    pub resolved: Option<Answer>,
    /// What this catalog claims.
    pub claimed: &'a [Claimed],
    /// What is stored here.
    pub stored: Option<&'a Stored>,
    /// What could not be stored.
    pub failure: Option<&'a StoreFailure>,
    /// Where a catalog's content is served.
    pub base_url: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// What to do with the stored content.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// It stays as it is, also if there is none.
    Keep,
    /// This Image's content takes its place, under this reference.
    Store {
        /// The Image; it has content.
        image: Box<Image>,
        /// By digest.
        reference: String,
    },
    /// It goes.
    Drop,
}

/// What is to be done now, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Ask the puller this, and decide again.
    pub ask: Option<Ask>,
    /// What to do with the stored content; after a store, decide again.
    pub content: Content,
    /// Images to release, by claim and id.
    pub release: Vec<(Claim, String)>,
    /// Whether the object is to have our finalizer; none: as it is.
    pub finalizer: Option<bool>,
    /// The status that the object is to have; none: as it is.
    pub status: Option<ClusterCatalogStatus>,
    /// How urgent that is.
    pub urgency: Urgency,
    /// When to look again at the latest.
    pub again: Option<Duration>,
}

impl Decision {
    fn new(content: Content) -> Self {
        Self {
            ask: None,
            content,
            release: Vec::new(),
            finalizer: None,
            status: None,
            urgency: Urgency::Progress,
            again: None,
        }
    }
}

/// What is to be done.
pub fn decide(observed: &Observed<'_>) -> Decision {
    let catalog = observed.catalog;
    let unavailable = catalog.spec.availability_mode == AvailabilityMode::Unavailable;
    if catalog.is_deleting() || unavailable {
        return observed.give_up();
    }
    let mut decision = Decision::new(Content::Keep);
    decision.ask = observed.ask();
    if decision.ask.is_some() {
        return decision;
    }
    decision.content = observed.content();
    if decision.content != Content::Keep {
        return decision;
    }
    decision.release = observed.superfluous();
    decision.again = Some(observed.look_again());
    if observed.role == Role::Leader {
        decision.finalizer = Some(true);
        observed.tell(&mut decision);
    }
    decision
}

/// What the puller names the tree of an Image's content.
pub fn tree(image: &Image) -> Option<&str> {
    Some(image.content.as_ref()?.path.as_str())
}

/// The reference by digest of what an Image's content is. Only an Image that is unpacked has the content of
/// what it resolved last.
fn resolved_reference(reference: &str, image: &Image) -> Option<String> {
    if image.phase() != Phase::Unpacked || image.content.is_none() {
        return None;
    }
    let digest = &image.resolution.as_ref()?.digest;
    Some(format!(
        "{}@{digest}",
        repository(&image.normalized_reference, reference)
    ))
}

/// A reference without tag and digest, in its full form where the puller gave one.
fn repository<'a>(normalized: &'a str, asked: &'a str) -> &'a str {
    let full = if normalized.is_empty() { asked } else { normalized };
    let full = full.split_once('@').map_or(full, |(before, _)| before);
    match full.rsplit_once(':') {
        // A colon before the last slash is the port's.
        Some((before, tag)) if !tag.contains('/') => before,
        _ => full,
    }
}

impl Observed<'_> {
    fn reference(&self) -> &str {
        let image = self.catalog.spec.source.image.as_ref();
        image.map_or("", |image| image.reference.as_str())
    }

    /// What the object's status says is served, where that is not what is stored here. While nothing is stored
    /// the puller's claim remembers what the status no longer says.
    fn missing(&self) -> Option<&str> {
        let claimed = || {
            let mut claimed = self
                .claimed
                .iter()
                .filter(|claimed| claimed.claim == Claim::Resolved);
            claimed
                .next()
                .filter(|_| self.stored.is_none())
                .map(|claimed| claimed.reference.as_str())
        };
        let resolved = self.catalog.resolved().or_else(claimed)?;
        Some(resolved).filter(|resolved| self.stored.is_none_or(|stored| stored.reference != *resolved))
    }

    fn ask(&self) -> Option<Ask> {
        if self.role == Role::Leader && self.wanted.is_none() {
            return Some(Ask {
                claim: Claim::Wanted,
                reference: self.reference().to_owned(),
                max_age: poll::max_age(self.catalog),
            });
        }
        let here = self
            .image(Claim::Wanted)
            .is_some_and(|image| image.phase() == Phase::Unpacked);
        let missing = self.missing().filter(|_| self.resolved.is_none() && !here)?;
        Some(Ask {
            claim: Claim::Resolved,
            reference: missing.to_owned(),
            max_age: None,
        })
    }

    fn image(&self, claim: Claim) -> Option<&Image> {
        let answer = match claim {
            Claim::Wanted => &self.wanted,
            Claim::Resolved => &self.resolved,
        };
        match answer {
            Some(Answer::Image(image)) => Some(image),
            _ => None,
        }
    }

    /// The content that is to be stored, if it is not.
    fn content(&self) -> Content {
        let wanted = self
            .image(Claim::Wanted)
            .and_then(|image| Some((image, resolved_reference(self.reference(), image)?)));
        let missing = || {
            let (reference, image) = (self.missing()?, self.image(Claim::Resolved)?);
            resolved_reference(reference, image)?;
            Some((image, reference.to_owned()))
        };
        let Some((image, reference)) = wanted.or_else(missing) else {
            return Content::Keep;
        };
        let is_stored = self
            .stored
            .is_some_and(|stored| stored.reference == reference && Some(stored.tree.as_str()) == tree(image));
        let is_late = self
            .failure
            .is_some_and(|failure| Some(failure.tree.as_str()) == tree(image) && failure.again > self.now);
        match is_stored || is_late {
            true => Content::Keep,
            false => Content::Store {
                image: Box::new(image.clone()),
                reference,
            },
        }
    }

    /// Claims on other Images than those asked for. A follower keeps what the leader it was, or may become,
    /// asked for.
    fn superfluous(&self) -> Vec<(Claim, String)> {
        let needed = |claimed: &&Claimed| match claimed.claim {
            Claim::Wanted => match (self.role, self.image(Claim::Wanted)) {
                (Role::Leader, Some(image)) => image.id == claimed.id,
                // Its reference was refused: what was claimed before is another one.
                (Role::Leader, None) => !matches!(self.wanted, Some(Answer::Refused(_))),
                (Role::Follower, _) => true,
            },
            Claim::Resolved => match (self.role, self.image(Claim::Resolved)) {
                (_, Some(image)) => image.id == claimed.id,
                (Role::Leader, None) => self.missing() == Some(&claimed.reference) && self.resolved.is_some(),
                (Role::Follower, None) => self.catalog.resolved() == Some(&claimed.reference),
            },
        };
        let others = self.claimed.iter().filter(|claimed| !needed(claimed));
        others
            .map(|claimed| (claimed.claim, claimed.id.clone()))
            .collect()
    }

    fn look_again(&self) -> Duration {
        let unanswered = [&self.wanted, &self.resolved]
            .into_iter()
            .any(|answer| matches!(answer, Some(Answer::None(_))));
        let poll = self
            .image(Claim::Wanted)
            .and_then(|image| poll::due(self.catalog, image, self.now));
        let failure = self.failure.map(|failure| until(failure.again, self.now));
        let ask = unanswered.then_some(ASK_AGAIN);
        [Some(LOOK_EVERY), poll, failure, ask]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LOOK_EVERY)
    }

    /// The catalog is not to be served any more.
    fn give_up(&self) -> Decision {
        let mut decision = Decision::new(match self.stored {
            Some(_) => Content::Drop,
            None => Content::Keep,
        });
        decision.release = self
            .claimed
            .iter()
            .map(|claimed| (claimed.claim, claimed.id.clone()))
            .collect();
        if self.role == Role::Leader {
            decision.finalizer = Some(false);
            self.tell(&mut decision);
        }
        decision
    }

    fn tell(&self, decision: &mut Decision) {
        let empty = ClusterCatalogStatus::default();
        let old = self.catalog.status.as_ref().unwrap_or(&empty);
        let new = self.says().status(old, self.catalog.generation(), self.now);
        decision.urgency = urgency(old, &new);
        decision.status = (new != *old).then_some(new);
    }
}

/// The time that is left; none is less than a moment.
fn until(then: Timestamp, now: Timestamp) -> Duration {
    /// So that a time that has come is not looked at in a loop.
    const MOMENT: Duration = Duration::from_millis(100);
    Duration::try_from(then.duration_since(now))
        .unwrap_or_default()
        .max(MOMENT)
}

#[cfg(test)]
mod tests;
