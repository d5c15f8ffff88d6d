//! What jobs report. Each report names its job; one from a job that was cancelled is ignored.

use std::time::Duration;

use crate::{
    domain::{AttemptRecord, Content, Digest, Phase, Reason, Resolution},
    error::Fault,
    machine::{
        Effect, Job, Machine, Now,
        entry::{Entry, Running},
    },
};

/// What a pull is going to do, once the manifest is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Layers of the image, by position.
    pub layers: u32,
    /// Compressed bytes of all different layers.
    pub bytes: u64,
    /// The different layers.
    pub blobs: Vec<Digest>,
    /// The content it may publish.
    pub content: String,
}

/// A job's counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the proto file documents each field, in `Progress`")]
pub struct Sample {
    pub layers_done: u32,
    pub bytes_done: u64,
    /// Compressed bytes that came over the network.
    pub bytes_fetched: u64,
    pub unpacked_bytes: u64,
    pub unpacked_entries: u64,
    pub waiting_for: String,
}

/// Whether a job goes on after it has resolved its reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Bring the content.
    Pull,
    /// There is nothing to do, or nobody who wants it: the job has ended.
    Stop,
}

impl Machine {
    /// The job has got its turn and asks the registry now.
    pub fn asking(&mut self, job: &Job, now: Now) {
        self.report(job, now, |entry, _| {
            if entry.image.phase == Phase::Initiated {
                entry.enter(Phase::Pulling, now);
            }
        });
    }

    /// The reference stands for this digest.
    pub fn resolved(&mut self, job: &Job, digest: &Digest, now: Now) -> Verdict {
        let mut verdict = Verdict::Stop;
        self.report(job, now, |entry, machine| {
            let Some(running) = entry.job.take() else { return };
            let since = entry.image.resolution.take().filter(|old| old.digest == *digest);
            entry.image.resolution = Some(Resolution {
                digest: digest.clone(),
                resolved: since.map_or(now.wall, |old| old.resolved),
                checked: running.began.wall,
            });
            entry.changed();
            if entry.image.content.is_some() && entry.content_for.as_ref() == Some(digest) {
                entry.succeeded(&running, now);
                if entry.image.phase != Phase::Unpacked {
                    // The tag has moved back to what is unpacked still.
                    entry.enter(Phase::Unpacked, now);
                }
                machine.start_if_due(entry, now);
            } else if entry.image.phase == Phase::Failed && entry.failed.as_ref() == Some(digest) {
                machine.rest(entry, now);
            } else {
                verdict = Verdict::Pull;
                if !running.pulls {
                    entry.begin_attempt(now);
                }
                entry.job = Some(Running {
                    pulls: true,
                    ..running
                });
                if matches!(entry.image.phase, Phase::Unpacked | Phase::Initiated) {
                    entry.enter(Phase::Pulling, now);
                }
            }
        });
        verdict
    }

    /// The manifest is known.
    pub fn planned(&mut self, job: &Job, plan: Plan, now: Now) {
        self.report(job, now, |entry, _| {
            entry.blobs = plan.blobs;
            entry.publishing = Some(plan.content);
            if let Some(progress) = &mut entry.image.progress {
                progress.layers_total = Some(plan.layers);
                progress.bytes_total = Some(plan.bytes);
            }
            entry.changed();
        });
    }

    /// The job's counters now. They are merged so that none falls.
    pub fn sample(&mut self, job: &Job, sample: Sample, now: Now) {
        self.report(job, now, |entry, _| entry.take_sample(sample, now));
    }

    /// Every compressed byte is here and verified.
    pub fn downloaded(&mut self, job: &Job, sample: Sample, now: Now) {
        self.report(job, now, |entry, _| {
            entry.take_sample(sample, now);
            if entry.image.phase != Phase::Pulling {
                // All of it was kept from earlier attempts.
                entry.enter(Phase::Pulling, now);
            }
            entry.enter(Phase::Unpacking, now);
        });
    }

    /// The content is published, and its record and the Image's ([`Machine::saved_as_published`]) are
    /// durable.
    pub fn published(&mut self, job: &Job, content: Content, sample: Sample, now: Now) {
        self.report(job, now, |entry, machine| {
            entry.take_sample(sample, now);
            let Some(running) = entry.job.take() else { return };
            entry.set_content(content, now);
            let record = AttemptRecord {
                attempt: entry.image.attempt,
                started: running.began.wall,
                ended: now.wall,
                reason: None,
                message: String::new(),
                bytes: running.bytes,
            };
            entry.image.remember(record);
            entry.succeeded(&running, now);
            entry.enter(Phase::Unpacked, now);
            machine.effects.push(Effect::Collect);
            machine.start_if_due(entry, now);
        });
    }

    /// The job has failed.
    pub fn failed(&mut self, job: &Job, fault: &Fault, sample: Sample, now: Now) {
        self.report(job, now, |entry, machine| {
            if fault.reason == Reason::NoSpace {
                entry.lack(&sample);
            }
            entry.take_sample(sample, now);
            let Some(running) = entry.job.take() else { return };
            entry.publishes_nothing();
            if !running.pulls && entry.image.phase == Phase::Failed {
                // The tag could not be looked at; why it can't be unpacked is still the better thing to show,
                // unless other rules have something else to say.
                if fault.reason.is_of_rules() {
                    entry.image.set_error(fault, now.wall);
                }
                machine.rest(entry, now);
                machine.try_by_newer_rules(entry, &running, fault, now);
                machine.start_if_due(entry, now);
                return;
            }
            entry.streak = entry.streak.saturating_add(1);
            entry.stalled = if running.bytes > 0 {
                1
            } else {
                entry.stalled.saturating_add(1)
            };
            entry.image.attempt = entry.streak;
            entry.image.set_error(fault, now.wall);
            entry.image.remember(AttemptRecord {
                attempt: entry.image.attempt,
                started: running.began.wall,
                ended: now.wall,
                reason: Some(fault.reason),
                message: fault.to_string(),
                bytes: running.bytes,
            });
            if fault.reason == Reason::NoSpace && machine.others_want_room() {
                entry.blobs.clear();
            }
            if fault.reason.is_retried() || !running.pulls {
                let delay = machine.delay(entry, &running, fault);
                entry.plan(now.mono.saturating_add(delay), now);
                if running.pulls {
                    entry.enter(Phase::Retrying, now);
                }
            } else {
                entry.failed = entry
                    .image
                    .resolution
                    .as_ref()
                    .filter(|_| !fault.reason.may_come_right())
                    .map(|resolution| resolution.digest.clone());
                entry.blobs.clear();
                machine.effects.push(Effect::Collect);
                machine.rest(entry, now);
                machine.try_by_newer_rules(entry, &running, fault, now);
                entry.enter(Phase::Failed, now);
            }
            entry.changed();
            machine.start_if_due(entry, now);
        });
    }

    fn delay(&mut self, entry: &Entry, running: &Running, fault: &Fault) -> Duration {
        let generation = self
            .scopes
            .get(&entry.image.wish.scope)
            .copied()
            .unwrap_or_default();
        // New files are no reason to hurry with what they don't help.
        let helps = !entry.image.wish.scope.is_daemon() || fault.reason.may_be_of_credentials();
        if generation != running.generation && helps {
            // It failed with credentials that have been replaced since.
            return Duration::ZERO;
        }
        self.jitter.delay(entry.stalled, fault.retry_after)
    }

    /// What can't be unpacked rests; a tag is looked at again, in case it stands for something else, and so is
    /// an image whose signature may have been pushed since.
    fn rest(&mut self, entry: &mut Entry, now: Now) {
        let may_come_right = entry.image.reason().is_some_and(Reason::may_come_right);
        if entry.image.wish.reference.is_pinned() && !may_come_right {
            entry.due = None;
            entry.image.next_retry = None;
        } else {
            entry.plan(now.mono.saturating_add(self.settings.failed_tag_interval), now);
        }
        entry.changed();
    }

    fn report(&mut self, job: &Job, now: Now, change: impl FnOnce(&mut Entry, &mut Self)) {
        let runs = self.entries.get(&job.id).and_then(|entry| entry.job.as_ref());
        if runs.is_some_and(|running| running.no == job.no) {
            self.with(&job.id, now, change);
        }
    }
}

impl Entry {
    fn plan(&mut self, at: Duration, now: Now) {
        self.due = Some(at);
        self.image.next_retry = Some(now.wall_at(at));
    }

    pub(super) fn set_content(&mut self, content: Content, now: Now) {
        self.superseded.retain(|(_, name)| *name != content.name());
        if let Some(old) = self
            .image
            .content
            .take()
            .filter(|old| old.name() != content.name())
        {
            self.superseded.push((now.mono, old.name()));
        }
        self.image.content = Some(content);
        self.content_for = self
            .image
            .resolution
            .as_ref()
            .map(|resolution| resolution.digest.clone());
        self.blobs.clear();
        self.publishing = None;
        self.lacked = None;
    }

    fn take_sample(&mut self, sample: Sample, now: Now) {
        let Sample {
            layers_done,
            bytes_done,
            bytes_fetched,
            unpacked_bytes,
            unpacked_entries,
            waiting_for,
        } = sample;
        let Some(running) = self.job.as_mut().filter(|running| running.pulls) else {
            return;
        };
        let first_bytes = running.bytes == 0 && bytes_fetched > 0;
        running.bytes = running.bytes.max(bytes_fetched);
        let Some(progress) = &mut self.image.progress else {
            return;
        };
        let old = progress.clone();
        progress.layers_done = progress.layers_done.max(layers_done);
        progress.bytes_done = progress.bytes_done.max(bytes_done);
        progress.unpacked_bytes = progress.unpacked_bytes.max(unpacked_bytes);
        progress.unpacked_entries = progress.unpacked_entries.max(unpacked_entries);
        // Whoever moves does not wait, whatever one of its layers is waiting for.
        let moved = progress.bytes_done > old.bytes_done || progress.unpacked_bytes > old.unpacked_bytes;
        progress.waiting_for = if moved { String::new() } else { waiting_for };
        if *progress != old {
            self.moved();
        }
        if first_bytes && matches!(self.image.phase, Phase::Retrying | Phase::Failed) {
            self.enter(Phase::Pulling, now);
        }
    }
}
