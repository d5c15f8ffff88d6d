//! What survives a restart, and how the machine begins again from it.

use std::collections::BTreeSet;

use crate::{
    domain::{Content, Digest, ImageId, Phase},
    machine::{Image, Job, Machine, Now, entry::Entry},
};

/// An Image as its record has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// What is shown of it.
    pub image: Image,
    /// Failed jobs since the last success.
    pub streak: u32,
    /// The layers that its unfinished pull lists.
    pub blobs: Vec<Digest>,
    /// What the reference stood for when the content was made.
    pub content_for: Option<Digest>,
}

impl Saved {
    fn of(entry: &Entry) -> Self {
        Self {
            image: entry.image.clone(),
            streak: entry.streak,
            blobs: entry.blobs.clone(),
            content_for: entry.content_for.clone(),
        }
    }
}

impl Machine {
    /// An Image for its record.
    pub fn saved(&self, id: &ImageId) -> Option<Saved> {
        self.entries.get(id).map(Saved::of)
    }

    /// The record that must be durable before [`Machine::published`] announces the content; none if
    /// the job no longer runs.
    pub fn saved_as_published(&self, job: &Job, content: &Content) -> Option<Saved> {
        let entry = self.entries.get(&job.id)?;
        entry.job.as_ref().filter(|running| running.no == job.no)?;
        let mut saved = Saved::of(entry);
        saved.content_for = entry
            .image
            .resolution
            .as_ref()
            .map(|resolution| resolution.digest.clone());
        saved.image.content = Some(content.clone());
        saved.image.phase = Phase::Unpacked;
        saved.image.last_error = None;
        saved.streak = 0;
        saved.blobs.clear();
        Some(saved)
    }

    /// Takes the Images of an earlier run, and starts what they lack. No claim ends, and nothing is
    /// deleted, before what is left of its time has run from now on; what was unclaimed gets a whole
    /// grace period, since its claimants may only be restarting too.
    pub fn restore(&mut self, saved: Vec<Saved>, now: Now) {
        let mut ids = BTreeSet::new();
        for Saved {
            image,
            streak,
            blobs,
            content_for,
        } in saved
        {
            let id = image.id.clone();
            let expiries: Vec<_> = image
                .claims
                .iter()
                .filter_map(|(c, claim)| Some((c.clone(), claim.expires?)))
                .collect();
            let claimed = !image.claims.is_empty();
            let mut entry = Entry::new(image, now);
            entry.set_unclaimed((!claimed).then_some(now.mono));
            for (claimant, expires) in expiries {
                let at = now
                    .mono_at(expires)
                    .max(now.mono.saturating_add(self.settings.grace_period));
                entry.restore_expiry(&claimant, at);
            }
            entry.streak = streak;
            entry.stalled = streak;
            entry.blobs = blobs;
            entry.content_for = content_for.filter(|_| entry.image.content.is_some());
            entry.resume(now);
            self.entries.insert(id.clone(), entry);
            ids.insert(id);
        }
        for id in ids {
            self.with(&id, now, |entry, machine| machine.start_if_due(entry, now));
        }
    }
}

impl Entry {
    /// Decides what a restored Image does next.
    fn resume(&mut self, now: Now) {
        let resolved = self
            .image
            .resolution
            .as_ref()
            .map(|resolution| &resolution.digest);
        let current = self.image.content.is_some() && self.content_for.as_ref() == resolved;
        let retry = self.image.next_retry.take();
        // A time that lies further ahead than any back-off was written by a clock that was wrong.
        let retry = retry.map(|at| now.mono_at(at).min(now.mono + LONGEST_WAIT));
        match self.image.phase {
            Phase::Unpacked | Phase::Initiated | Phase::Pulling | Phase::Unpacking if current => {
                self.image.phase = Phase::Unpacked;
                self.due = retry.filter(|_| self.image.last_error.is_some());
            }
            Phase::Retrying => self.due = retry.or(Some(now.mono)),
            // A restart may have brought another limit or policy: it is tried once more.
            Phase::Failed => self.due = Some(now.mono),
            Phase::Initiated | Phase::Pulling | Phase::Unpacking | Phase::Unpacked => {
                self.image.phase = Phase::Initiated;
                self.image.phase_since = now.wall;
                self.due = Some(now.mono);
            }
        }
        self.image.next_retry = self.due.filter(|at| *at > now.mono).map(|at| now.wall_at(at));
    }
}

/// The longest a back-off can be: a registry's own wish for a pause, followed up to one hour.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(60 * 60);
