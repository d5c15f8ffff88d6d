//! The rules of decisions 1 to 6, by a virtual clock.

mod claimed;
mod claims;
mod freshness;
mod life;
mod random;
mod restart;
mod retry;
mod room;
mod rules;

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::{
    domain::{Content, Phase, Reason, Selection, Skipped, UnpackOptions},
    error::Fault,
};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// A machine, its clock, and what it wanted done since it was last asked.
struct World {
    machine: Machine,
    mono: Duration,
    wall: Timestamp,
    jobs: Vec<Job>,
    cancelled: Vec<JobNo>,
    phases: Vec<Phase>,
    told: Vec<Image>,
    deleted: Vec<ImageId>,
    collections: usize,
}

impl World {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        // Without jitter, so that a test can say when something happens.
        Self {
            machine: Machine::new(settings, Jitter::by(|ceiling| ceiling)),
            mono: Duration::from_secs(1000),
            wall: "2026-01-01T00:00:00Z".parse().unwrap(),
            jobs: vec![],
            cancelled: vec![],
            phases: vec![],
            told: vec![],
            deleted: vec![],
            collections: 0,
        }
    }

    fn now(&self) -> Now {
        Now {
            mono: self.mono,
            wall: self.wall,
        }
    }

    fn look(&mut self) {
        for effect in self.machine.take_effects() {
            match effect {
                Effect::Start(job) => self.jobs.push(*job),
                Effect::Cancel { job } => self.cancelled.push(job),
                Effect::Tell { image, phase } => {
                    if phase {
                        self.phases.push(image.phase);
                    }
                    self.told.push(*image);
                }
                Effect::Delete { id } => self.deleted.push(id),
                Effect::Collect => self.collections += 1,
                Effect::Save { .. } => {}
            }
        }
    }

    /// Lets time pass, and the machine do at each moment what is due then.
    fn pass(&mut self, duration: Duration) {
        let end = self.mono + duration;
        while let Some(at) = self.machine.next_wake().filter(|at| *at <= end) {
            let step = at.saturating_sub(self.mono);
            self.advance(step);
            self.machine.tick(self.now());
            self.look();
        }
        self.advance(end - self.mono);
    }

    fn advance(&mut self, step: Duration) {
        self.mono += step;
        self.wall = clock::after(self.wall, step);
    }

    fn fetch(&mut self, wish: &Wish, claimant: &str) -> ImageId {
        self.fetch_with(
            wish,
            ClaimRequest {
                claimant: claimant.into(),
                ..ClaimRequest::default()
            },
        )
    }

    fn fetch_fresh(&mut self, wish: &Wish, max_age: Duration) -> ImageId {
        self.fetch_with(
            wish,
            ClaimRequest {
                claimant: "me".into(),
                max_age: Some(max_age),
                ..ClaimRequest::default()
            },
        )
    }

    fn fetch_with(&mut self, wish: &Wish, request: ClaimRequest) -> ImageId {
        let id = self.machine.fetch(wish.clone(), request, self.now()).unwrap();
        self.look();
        id
    }

    fn release(&mut self, id: &ImageId, claimant: &str) {
        self.machine.release(id, claimant, self.now());
        self.look();
    }

    /// The one job that was started since the last call.
    fn job(&mut self) -> Job {
        assert_eq!(self.jobs.len(), 1, "one job was to be started");
        self.jobs.remove(0)
    }

    fn resolve(&mut self, job: &Job, digest: &Digest) -> Verdict {
        self.machine.asking(job, self.now());
        let verdict = self.machine.resolved(job, digest, self.now());
        self.look();
        verdict
    }

    fn bytes(&mut self, job: &Job, bytes: u64) {
        let sample = Sample {
            bytes_done: bytes,
            bytes_fetched: bytes,
            ..Sample::default()
        };
        self.machine.sample(job, sample, self.now());
        self.look();
    }

    fn publish(&mut self, job: &Job, digest: &Digest) {
        self.machine.downloaded(job, Sample::default(), self.now());
        self.machine
            .published(job, content(digest), Sample::default(), self.now());
        self.look();
    }

    fn fail(&mut self, job: &Job, reason: Reason) {
        self.fail_with(job, &Fault::new(reason, "asked", "happened", ""));
    }

    fn fail_with(&mut self, job: &Job, fault: &Fault) {
        self.machine.failed(job, fault, Sample::default(), self.now());
        self.look();
    }

    fn rules_changed(&mut self) {
        self.machine.rules_changed(self.now());
        self.look();
    }

    /// From a wish to its content.
    fn unpacked(&mut self, wish: &Wish, digest: &Digest) -> ImageId {
        let id = self.fetch(wish, "me");
        let job = self.job();
        assert_eq!(self.resolve(&job, digest), Verdict::Pull);
        self.publish(&job, digest);
        assert_eq!(self.image(&id).phase, Phase::Unpacked);
        self.phases.clear();
        id
    }

    fn image(&self, id: &ImageId) -> &Image {
        self.machine.image(id).unwrap()
    }

    /// The machine as a new process has it after a crash, the clock running on.
    fn restart(&mut self) {
        let ids: Vec<_> = self.machine.images().map(|image| image.id.clone()).collect();
        let saved = ids.iter().filter_map(|id| self.machine.saved(id)).collect();
        self.restart_with(saved);
    }

    fn restart_with(&mut self, saved: Vec<Saved>) {
        self.machine = Machine::new(self.machine.settings.clone(), Jitter::by(|ceiling| ceiling));
        self.mono = Duration::from_secs(5);
        self.jobs.clear();
        self.machine.restore(saved, self.now());
        self.look();
    }
}

fn wish(reference: &str) -> Wish {
    Wish {
        asked: reference.to_owned(),
        reference: reference.parse().unwrap(),
        platform: "linux/amd64".parse().unwrap(),
        selection: Selection::All,
        unpack: UnpackOptions::default(),
        scope: Scope::default(),
    }
}

fn tag() -> Wish {
    wish("example.com/catalog:latest")
}

fn digest(text: &str) -> Digest {
    Digest::sha256(text.as_bytes())
}

fn content(digest: &Digest) -> Content {
    Content {
        manifest_digest: digest.clone(),
        selected: String::new(),
        unpack: UnpackOptions::default(),
        size: 1,
        files: 1,
        escaping_links: 0,
        skipped: Skipped::default(),
        published: Timestamp::UNIX_EPOCH,
        sync: Duration::ZERO,
    }
}
