//! One Image with what is planned for it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::{
    domain::{Claim, Digest, Phase},
    machine::{
        ClaimRequest, Effect, Image, Job, JobNo, Now, Progress, Settings,
        clock::{after, before},
        room::Lacked,
    },
};

/// An Image and all that the machine knows of it and does not show.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) image: Image,
    /// The job that runs.
    pub(super) job: Option<Running>,
    /// When the next job begins, if somebody claims the Image then. None: nothing is to be done.
    pub(super) due: Option<Duration>,
    /// Failed jobs since the last success: the attempt's number minus one.
    pub(super) streak: u32,
    /// Failed jobs since the last one that brought layer bytes: what the back-off grows by, so that a
    /// bad line which keeps bringing bytes is not waited for ever longer.
    pub(super) stalled: u32,
    /// The layers that the unfinished pull lists.
    pub(super) blobs: Vec<Digest>,
    /// The content that the running job may be about to publish.
    pub(super) publishing: Option<String>,
    /// Content that newer content replaced, and when.
    pub(super) superseded: Vec<(Duration, String)>,
    /// What the reference stood for when the content was made.
    pub(super) content_for: Option<Digest>,
    /// What the reference stood for when the phase became `Failed`.
    pub(super) failed: Option<Digest>,
    /// The room that its last attempts lacked.
    pub(super) lacked: Option<Lacked>,
    /// When the machine wants to look at this entry again; it stands so in the machine's index.
    pub(super) wake: Option<Duration>,
    /// A check that is running began too early for somebody; one that began after this would do.
    fresh_since: Option<Timestamp>,
    unclaimed: Option<Duration>,
    /// It goes before its grace period is over.
    given_up: bool,
    /// When claims end, by the monotonic clock.
    expiries: BTreeMap<String, Duration>,
    told: Vec<Effect>,
    /// Nobody has been told of it: its first phase is an event of its own too.
    new: bool,
    dirty: bool,
    save: bool,
    /// Something may have become superfluous.
    collect: bool,
}

/// A job that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) no: JobNo,
    pub(super) began: Now,
    /// The scope's credentials it began with.
    pub(super) generation: u64,
    /// The rules it began with, by the number of their change.
    pub(super) rules: u64,
    /// It has brought layer bytes over the network.
    pub(super) bytes: u64,
    /// It is to bring content; before that is known, it is a check.
    pub(super) pulls: bool,
}

impl Entry {
    pub(super) fn new(image: Image, now: Now) -> Self {
        Self {
            image,
            job: None,
            due: Some(now.mono),
            streak: 0,
            stalled: 0,
            blobs: Vec::new(),
            publishing: None,
            superseded: Vec::new(),
            content_for: None,
            failed: None,
            lacked: None,
            wake: None,
            fresh_since: None,
            unclaimed: Some(now.mono),
            given_up: false,
            expiries: BTreeMap::new(),
            told: Vec::new(),
            new: true,
            dirty: true,
            save: true,
            collect: false,
        }
    }

    // === Claims ===

    pub(super) fn claim(&mut self, request: ClaimRequest, now: Now) {
        let ClaimRequest {
            claimant,
            ttl,
            in_use,
            max_age: _,
        } = request;
        match ttl {
            Some(ttl) => self
                .expiries
                .insert(claimant.clone(), now.mono.saturating_add(ttl)),
            None => self.expiries.remove(&claimant),
        };
        let claim = Claim {
            renewed: now.wall,
            expires: ttl.map(|ttl| after(now.wall, ttl)),
            in_use,
        };
        let old = self.image.claims.insert(claimant, claim.clone());
        if let Some(old) = &old {
            self.let_go(&old.in_use, &claim.in_use);
        }
        // A mere renewal is not told: a claimant that fetches whenever it is told of a change would
        // be told of its own fetch, for ever. It is not saved either, since after a start nothing
        // ends before claimants have had the time to come back.
        if old
            .is_none_or(|old| old.in_use != claim.in_use || old.expires.is_some() != claim.expires.is_some())
        {
            self.changed();
        }
        if self.unclaimed.take().is_some() {
            self.image.unclaimed_since = None;
            self.changed();
        }
    }

    /// A claim as the record had it.
    pub(super) fn restore_expiry(&mut self, claimant: &str, at: Duration) {
        self.expiries.insert(claimant.to_owned(), at);
    }

    pub(super) fn release(&mut self, claimant: &str, now: Now) {
        self.expiries.remove(claimant);
        if let Some(claim) = self.image.claims.remove(claimant) {
            self.let_go(&claim.in_use, &[]);
            self.changed();
            if self.image.claims.is_empty() {
                self.unclaimed = Some(now.mono);
                self.image.unclaimed_since = Some(now.wall);
            }
        }
    }

    /// A claimant no longer reads what it has read: it may have been the last.
    fn let_go(&mut self, read: &[Digest], still: &[Digest]) {
        self.collect |= read.iter().any(|digest| !still.contains(digest));
    }

    fn is_claimed(&self) -> bool {
        self.unclaimed.is_none()
    }

    pub(super) fn set_unclaimed(&mut self, at: Option<Duration>) {
        self.unclaimed = at;
    }

    /// Since when nobody claims it, by the monotonic clock; `None`: somebody does.
    pub(super) fn unclaimed_since(&self) -> Option<Duration> {
        self.unclaimed
    }

    /// Nobody claims it, and its room is needed.
    pub(super) fn give_up(&mut self) {
        self.given_up = self.unclaimed.is_some();
    }

    /// Whether nobody has wanted it for the grace period, or it was given up.
    pub(super) fn is_over(&self, settings: &Settings, now: Now) -> bool {
        let over = |at: Duration| at.saturating_add(settings.grace_period) <= now.mono;
        self.given_up || self.unclaimed.is_some_and(over)
    }

    // === Time ===

    /// Ends what has run out: claims, the pull that nobody wants, superseded content.
    pub(super) fn expire(&mut self, settings: &Settings, now: Now, effects: &mut Vec<Effect>) {
        let over: Vec<_> = self
            .expiries
            .iter()
            .filter(|(_, at)| **at <= now.mono)
            .map(|(c, _)| c.clone())
            .collect();
        for claimant in over {
            self.release(&claimant, now);
        }
        if self
            .unclaimed
            .is_some_and(|at| at.saturating_add(settings.cancel_delay) <= now.mono)
        {
            self.cancel(now, effects);
        }
        let kept = self.superseded.len();
        self.superseded
            .retain(|(at, _)| at.saturating_add(settings.grace_period) > now.mono);
        self.collect |= self.superseded.len() < kept;
    }

    /// The job has ended and has published nothing: what it kept on the volume, of whomever, may be nobody's now.
    pub(super) fn publishes_nothing(&mut self) {
        self.collect |= self.publishing.take().is_some();
    }

    fn cancel(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(job) = self.job.take() else { return };
        effects.push(Effect::Cancel { job: job.no });
        self.due = Some(now.mono);
        self.publishes_nothing();
        if matches!(self.image.phase, Phase::Pulling | Phase::Unpacking) {
            let phase = if self.image.content.is_some() {
                Phase::Unpacked
            } else {
                Phase::Initiated
            };
            self.enter(phase, now);
        }
    }

    /// When this entry wants to be looked at next.
    pub(super) fn next_wake(&self, settings: &Settings, has_credentials: bool) -> Option<Duration> {
        let due = self
            .due
            .filter(|_| self.job.is_none() && self.is_claimed() && has_credentials);
        let cancel = self
            .unclaimed
            .filter(|_| self.job.is_some())
            .map(|at| at.saturating_add(settings.cancel_delay));
        let delete = self.unclaimed.map(|at| at.saturating_add(settings.grace_period));
        let superseded = self
            .superseded
            .iter()
            .map(|(at, _)| at.saturating_add(settings.grace_period))
            .min();
        let expiry = self.expiries.values().min().copied();
        [due, cancel, delete, superseded, expiry]
            .into_iter()
            .flatten()
            .min()
    }

    // === Freshness ===

    /// Somebody wants the tag to have been checked no longer ago than `max_age`.
    pub(super) fn want_fresh(&mut self, max_age: Duration, now: Now) {
        let since = before(now.wall, max_age);
        match &self.job {
            Some(job) if job.began.wall >= since => {}
            Some(_) => self.fresh_since = self.fresh_since.max(Some(since)),
            // What is planned already, after a failure or for the first time, asks the registry anyway.
            None if self.due.is_some() && self.image.phase != Phase::Failed => {}
            None => {
                let checked = self
                    .image
                    .resolution
                    .as_ref()
                    .map(|resolution| resolution.checked);
                if checked.is_none_or(|checked| now.is_older(checked, max_age)) {
                    self.due = Some(now.mono);
                }
            }
        }
    }

    // === Jobs ===

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.job.is_none() && self.is_claimed() && self.due.is_some_and(|at| at <= now.mono)
    }

    pub(super) fn start(&mut self, no: JobNo, generation: u64, rules: u64, now: Now) -> Job {
        self.due = None;
        self.image.next_retry = None;
        // Otherwise it is a check, which shows nothing of itself unless it fails or finds a new digest.
        let pulls = !matches!(self.image.phase, Phase::Unpacked | Phase::Failed);
        self.job = Some(Running {
            no,
            began: now,
            generation,
            rules,
            bytes: 0,
            pulls,
        });
        if pulls {
            self.begin_attempt(now);
        }
        self.changed();
        Job {
            no,
            id: self.image.id.clone(),
            wish: self.image.wish.clone(),
            check: self.image.phase == Phase::Unpacked,
        }
    }

    pub(super) fn begin_attempt(&mut self, now: Now) {
        self.image.attempt = self.streak.saturating_add(1);
        self.image.progress = Some(Progress::begin(now.wall));
    }

    /// A job has ended well.
    pub(super) fn succeeded(&mut self, job: &Running, now: Now) {
        self.streak = 0;
        self.stalled = 0;
        self.failed = None;
        self.image.last_error = None;
        self.image.next_retry = None;
        // What an earlier job has kept of another digest, before the tag moved back.
        self.collect |= !self.blobs.is_empty();
        self.blobs.clear();
        let too_early = self
            .fresh_since
            .take()
            .is_some_and(|since| job.began.wall < since);
        self.due = too_early.then_some(now.mono);
        self.save();
    }

    // === Telling ===

    /// Enters a phase, and tells so: each entry into a phase is an event of its own.
    pub(super) fn enter(&mut self, phase: Phase, now: Now) {
        self.image.phase = phase;
        self.image.phase_since = now.wall;
        if let Some(progress) = &mut self.image.progress {
            let since = match phase {
                Phase::Pulling => &mut progress.pulling_since,
                Phase::Unpacking => &mut progress.unpacking_since,
                Phase::Unpacked => &mut progress.unpacked_at,
                Phase::Initiated | Phase::Retrying | Phase::Failed => &mut None,
            };
            since.get_or_insert(now.wall);
            if !matches!(phase, Phase::Pulling | Phase::Unpacking) {
                progress.waiting_for.clear();
            }
        }
        self.told.push(Effect::Tell {
            image: Box::new(self.image.clone()),
            phase: true,
        });
        self.dirty = false;
        self.save = true;
    }

    /// Something that is shown has changed, and is worth a record.
    pub(super) fn changed(&mut self) {
        self.dirty = true;
        self.save = true;
    }

    /// Something that is shown has changed; a record of it would be stale at once.
    pub(super) fn moved(&mut self) {
        self.dirty = true;
    }

    pub(super) fn save(&mut self) {
        self.save = true;
    }

    /// Hands out what there is to tell and to save.
    pub(super) fn flush(&mut self, effects: &mut Vec<Effect>) {
        if std::mem::take(&mut self.dirty) {
            let phase = std::mem::take(&mut self.new);
            let image = Box::new(self.image.clone());
            self.told.push(Effect::Tell { image, phase });
        }
        effects.append(&mut self.told);
        if std::mem::take(&mut self.save) {
            effects.push(Effect::Save {
                id: self.image.id.clone(),
            });
        }
        if std::mem::take(&mut self.collect) {
            effects.push(Effect::Collect);
        }
    }
}
