//! The state machine in the middle: which Images there are, what each is doing, and what is to be done
//! next. Decisions 1 to 6 of the product live here.
//!
//! It knows nothing of gRPC, HTTP or files, and reads no clock: each input carries the time
//! ([`Now`]), and each returns [`Effect`]s for the daemon to carry out. So every rule is tested with a
//! virtual clock.
//!
//! ```text
//!        fetch, release, credentials, rules            tick
//!                        |                              |
//!   Initiated -> Pulling -> Unpacking -> Unpacked       |   job events: asking, resolved, planned,
//!        ^          |           |           |           |   flowing, downloaded, published,
//!        |          +-----+-----+     (tag moved:       |   failed
//!   cancelled             |            Pulling)         |
//!                 Retrying / Failed  <------------------+
//! ```
//!
//! One *job* at most runs for an Image. It begins with asking what the tag stands for; where that is
//! what is known already, it was a *check* and ends there without a change of phase; otherwise it is a
//! *pull*.

pub mod backoff;
pub mod claim;
pub mod clock;
pub mod effect;
pub mod entry;
pub mod image;
mod jobs;
pub mod message;
mod restore;
mod room;
#[cfg(test)]
mod tests;
mod wake;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

pub use backoff::Jitter;
pub use claim::ClaimRequest;
pub use clock::Now;
pub use effect::{Effect, Job, JobNo};
use entry::Entry;
pub use image::{Image, Progress};
pub use jobs::{Plan, Sample, Verdict};
pub use restore::Saved;
pub use room::Need;

use crate::domain::{Content, Digest, ImageId, Scope, Wish};

/// The machine's own settings; all have the product's defaults.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long an Image without claims, and superseded content, is kept.
    pub grace_period: Duration,
    /// How long a pull without claims goes on before it is cancelled: a claimant that restarts should
    /// not cost a pull.
    pub cancel_delay: Duration,
    /// How often a tag whose digest can't be unpacked is looked at again.
    pub failed_tag_interval: Duration,
    /// Most Images at a time; with them memory, records and a List stay bounded.
    pub max_images: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace_period: Duration::from_secs(10 * 60),
            cancel_delay: Duration::from_secs(10),
            failed_tag_interval: Duration::from_secs(5 * 60),
            max_images: 10_000,
        }
    }
}

/// Largest wish, in bytes of its texts: the reference, the selection and the scope.
pub const MAX_WISH: usize = 64 * 1024;

/// A `max_age` below this counts as this, so that no client can make the puller hammer a registry.
pub const MIN_MAX_AGE: Duration = Duration::from_secs(10);

/// Why a Fetch was refused. (Whatever else may be wrong with a wish was found when it was parsed.)
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are as many Images as there may be.
    #[error("there are {0} Images already, as many as there may be; release some that are not needed")]
    TooManyImages(usize),
    /// The wish is too large.
    #[error("the wish has {0} bytes; {MAX_WISH} are allowed")]
    WishTooLarge(usize),
}

/// All Images and what is to be done for them.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    jitter: Jitter,
    entries: BTreeMap<ImageId, Entry>,
    /// When each entry wants to be looked at, so that a tick costs only what is due.
    wakes: BTreeSet<(Duration, ImageId)>,
    /// The scopes whose credentials are here, with the number of changes so far.
    scopes: HashMap<Scope, u64>,
    /// Changes of what an administrator allows, so far.
    rules: u64,
    next_job: JobNo,
    effects: Vec<Effect>,
}

/// Content that has to stay.
#[derive(Debug, Default)]
pub struct NeededContents {
    names: HashSet<String>,
    digests: HashSet<Digest>,
}

impl NeededContents {
    /// Whether this content has to stay.
    pub fn has(&self, name: &str, manifest: &Digest) -> bool {
        self.names.contains(name) || self.digests.contains(manifest)
    }
}

impl Machine {
    /// No Images yet.
    pub fn new(settings: Settings, jitter: Jitter) -> Self {
        Self {
            settings,
            jitter,
            entries: BTreeMap::new(),
            wakes: BTreeSet::new(),
            scopes: HashMap::new(),
            rules: 0,
            next_job: JobNo::default(),
            effects: Vec::new(),
        }
    }

    /// Records that `claimant` wants this image, and starts what follows from it.
    ///
    /// New credentials must have been told with [`Machine::credentials`] before.
    ///
    /// # Errors
    /// [`Refused`]: nothing was recorded.
    pub fn fetch(&mut self, wish: Wish, request: ClaimRequest, now: Now) -> Result<ImageId, Refused> {
        if wish.size() > MAX_WISH {
            return Err(Refused::WishTooLarge(wish.size()));
        }
        let id = wish.id();
        if !self.entries.contains_key(&id) {
            if self.entries.len() >= self.settings.max_images {
                return Err(Refused::TooManyImages(self.entries.len()));
            }
            self.entries.insert(
                id.clone(),
                Entry::new(Image::new(id.clone(), wish, now.wall), now),
            );
        }
        let max_age = request.max_age;
        self.with(&id, now, |entry, machine| {
            entry.claim(request, now);
            if let Some(max_age) = max_age.filter(|_| !entry.image.wish.reference.is_pinned()) {
                entry.want_fresh(max_age.max(MIN_MAX_AGE), now);
            }
            machine.start_if_due(entry, now);
        });
        Ok(id)
    }

    /// Ends a claim. An Image or claim that is not there is a success.
    pub fn release(&mut self, id: &ImageId, claimant: &str, now: Now) {
        self.with(id, now, |entry, _| entry.release(claimant, now));
    }

    /// Does what is due. To be called at [`Machine::next_wake`], or any time.
    pub fn tick(&mut self, now: Now) {
        while let Some((at, id)) = self.wakes.first().cloned() {
            if at > now.mono {
                break;
            }
            self.wakes.remove(&(at, id.clone()));
            self.with(&id, now, |entry, machine| {
                entry.expire(&machine.settings, now, &mut machine.effects);
                machine.start_if_due(entry, now);
            });
        }
    }

    /// When [`Machine::tick`] has something to do next, by the monotonic clock.
    pub fn next_wake(&self) -> Option<Duration> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// One Image.
    pub fn image(&self, id: &ImageId) -> Option<&Image> {
        self.entries.get(id).map(|entry| &entry.image)
    }

    /// All Images, by id.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.entries.values().map(|entry| &entry.image)
    }

    /// What is to be done, in this order; empty afterwards.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The content that has to stay: what is current, what is about to be, what was superseded less
    /// than a grace period ago, and (by manifest digest) what a claimant says it still reads.
    pub fn needed_contents(&self) -> NeededContents {
        let mut needed = NeededContents::default();
        for entry in self.entries.values() {
            needed
                .names
                .extend(entry.image.content.as_ref().map(Content::name));
            needed.names.extend(entry.publishing.clone());
            needed
                .names
                .extend(entry.superseded.iter().map(|(_, name)| name.clone()));
            needed.digests.extend(
                entry
                    .image
                    .claims
                    .values()
                    .flat_map(|claim| claim.in_use.iter().cloned()),
            );
        }
        needed
    }

    /// The layers that some unfinished pull lists.
    pub fn needed_blobs(&self) -> HashSet<Digest> {
        self.entries
            .values()
            .flat_map(|entry| entry.blobs.iter().cloned())
            .collect()
    }

    /// Forgets the scopes that no Image has any more, and says which they were.
    pub fn forget_unused_scopes(&mut self) -> Vec<Scope> {
        let used: HashSet<_> = self
            .entries
            .values()
            .map(|entry| entry.image.wish.scope.clone())
            .collect();
        self.scopes
            .extract_if(|scope, _| !used.contains(scope))
            .map(|(scope, _)| scope)
            .collect()
    }

    /// Whether attempts for this scope can begin at all.
    fn has_credentials(&self, scope: &Scope) -> bool {
        scope.is_daemon() || self.scopes.contains_key(scope)
    }

    /// Changes one entry; afterwards tells its watchers, has it saved, plans its next look, or forgets
    /// it.
    fn with(&mut self, id: &ImageId, now: Now, change: impl FnOnce(&mut Entry, &mut Self)) {
        // Taken out for the change, so that it and the machine can both be borrowed.
        let Some(mut entry) = self.entries.remove(id) else {
            return;
        };
        if let Some(wake) = entry.wake.take() {
            self.wakes.remove(&(wake, id.clone()));
        }
        change(&mut entry, self);
        if entry.is_over(&self.settings, now) {
            if let Some(job) = entry.job.take() {
                self.effects.push(Effect::Cancel { job: job.no });
            }
            self.effects.push(Effect::Delete { id: id.clone() });
            return;
        }
        entry.image.awaits_credentials = !self.has_credentials(&entry.image.wish.scope);
        entry.flush(&mut self.effects);
        entry.wake = entry.next_wake(&self.settings, self.has_credentials(&entry.image.wish.scope));
        if let Some(wake) = entry.wake {
            self.wakes.insert((wake, id.clone()));
        }
        self.entries.insert(id.clone(), entry);
    }

    fn start_if_due(&mut self, entry: &mut Entry, now: Now) {
        if !self.has_credentials(&entry.image.wish.scope) || !entry.is_due(now) {
            return;
        }
        let no = self.next_job.advance();
        let generation = self
            .scopes
            .get(&entry.image.wish.scope)
            .copied()
            .unwrap_or_default();
        let job = entry.start(no, generation, self.rules, now);
        self.effects.push(Effect::Start(Box::new(job)));
    }
}
