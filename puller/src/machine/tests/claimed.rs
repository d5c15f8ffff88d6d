//! What is claimed stays and what nobody claims goes, whatever overlaps: the machine beside a plain model of
//! its claims, and a volume that is collected by what the machine says.

mod model;

use std::collections::BTreeSet;

use proptest::prelude::*;

use self::model::{Claimed, Model, Tree};
use super::*;

const CLAIMANTS: [&str; 3] = ["a", "b", "c"];
/// Few, so that references come to stand for the same.
const DIGESTS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Fetch(usize, usize, Request),
    Release(usize, usize),
    /// A job finds that its reference stands for this, and plans.
    Plan(usize, usize),
    /// A planned job publishes; whether a collection falls between the rename and the news.
    Publish(usize, bool),
    Fail(usize),
    Pass(u64),
    Collect,
    Restart,
}

#[derive(Debug, Clone)]
struct Request {
    ttl: Option<u64>,
    max_age: Option<u64>,
    in_use: Vec<usize>,
}

fn request() -> impl Strategy<Value = Request> {
    let ttl = proptest::option::of(1..900u64);
    let max_age = proptest::option::of(0..600u64);
    let in_use = proptest::sample::subsequence((0..DIGESTS).collect::<Vec<_>>(), 0..=2);
    (ttl, max_age, in_use).prop_map(|(ttl, max_age, in_use)| Request { ttl, max_age, in_use })
}

fn step() -> impl Strategy<Value = Step> {
    let (image, claimant) = (0..wishes().len(), 0..CLAIMANTS.len());
    prop_oneof![
        5 => (image.clone(), claimant.clone(), request()).prop_map(|(i, c, r)| Step::Fetch(i, c, r)),
        4 => (image, claimant).prop_map(|(i, c)| Step::Release(i, c)),
        6 => (0..4usize, 0..DIGESTS).prop_map(|(job, digest)| Step::Plan(job, digest)),
        6 => (0..4usize, any::<bool>()).prop_map(|(job, collect)| Step::Publish(job, collect)),
        1 => (0..4usize).prop_map(Step::Fail),
        3 => (0..15u64).prop_map(Step::Pass),
        3 => (0..700u64).prop_map(Step::Pass),
        2 => Just(Step::Collect),
        1 => Just(Step::Restart),
    ]
}

/// Two tags that may stand for the same, one of their digests, and a part of what the first stands for.
fn wishes() -> [Wish; 4] {
    let part = Wish {
        selection: Selection::Path("configs".into()),
        ..tag()
    };
    let pinned = wish(&format!("example.com/catalog@{}", numbered(0)));
    [tag(), wish("example.com/other:v1"), pinned, part]
}

fn numbered(n: usize) -> Digest {
    digest(&n.to_string())
}

/// The machine, the model, and the volume between them.
struct Both {
    world: World,
    settings: Settings,
    models: BTreeMap<ImageId, Model>,
    volume: BTreeSet<Tree>,
    /// Somebody has asked for a collection since the last one.
    asked: bool,
    /// None before a grace period after the start.
    collects_from: Duration,
}

impl Both {
    fn new() -> Self {
        Self {
            world: World::new(),
            settings: Settings::default(),
            models: BTreeMap::new(),
            volume: BTreeSet::new(),
            asked: false,
            collects_from: Duration::ZERO,
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Fetch(image, claimant, request) => {
                self.fetch(&wishes()[*image], CLAIMANTS[*claimant], request);
            }
            Step::Release(image, claimant) => self.release(&wishes()[*image].id(), CLAIMANTS[*claimant]),
            Step::Plan(job, digest) => self.on_job(*job, |both, job| both.plan(job, &numbered(*digest))),
            Step::Publish(job, collect) => self.on_job(*job, |both, job| both.publish(job, *collect)),
            Step::Fail(job) => self.on_job(*job, |both, job| {
                if let Some(model) = both.running(job) {
                    model.end_job();
                }
                both.world.fail(job, Reason::Network);
            }),
            Step::Pass(seconds) => self.pass(Duration::from_secs(*seconds)),
            Step::Collect => self.collect(),
            Step::Restart => self.restart(),
        }
        self.take_over();
        self.check();
    }

    fn fetch(&mut self, wish: &Wish, claimant: &'static str, request: &Request) {
        let id = wish.id();
        let before = self.world.machine.image(&id).cloned();
        let started = self.world.jobs.len();
        let ttl = request.ttl.map(Duration::from_secs);
        let in_use: Vec<_> = request.in_use.iter().map(|n| numbered(*n)).collect();
        let claim = ClaimRequest {
            claimant: claimant.to_owned(),
            max_age: request.max_age.map(Duration::from_secs),
            ttl,
            in_use: in_use.clone(),
        };
        assert_eq!(self.world.fetch_with(wish, claim), id);
        if let Some(image) =
            before.filter(|image| image.phase == Phase::Unpacked && image.last_error.is_none())
        {
            let after = self.world.image(&id);
            assert_eq!(after.content, image.content);
            assert_eq!(after.phase, Phase::Unpacked, "what is here is here at once");
            // Nor is a check, unless one is asked for, or was when it was cancelled.
            let pulls = self.world.jobs[started..].iter().any(|job| !job.check);
            assert!(!pulls, "{id} was revived by a new pull: {image:?}");
        }
        let until = ttl.map(|ttl| self.world.mono + ttl);
        let model = self.models.entry(id).or_default();
        model.claims.insert(claimant, Claimed { until, in_use });
        model.unclaimed = None;
    }

    fn release(&mut self, id: &ImageId, claimant: &str) {
        self.world.release(id, claimant);
        if let Some(model) = self.models.get_mut(id)
            && model.claims.remove(claimant).is_some()
            && model.claims.is_empty()
        {
            model.unclaimed = Some(self.world.mono);
        }
        let state = |world: &World| (world.machine.image(id).cloned(), world.machine.next_wake());
        let once = state(&self.world);
        self.world.machine.release(id, claimant, self.world.now());
        assert!(
            self.world.machine.effects.is_empty(),
            "a second Release does something"
        );
        assert_eq!(state(&self.world), once);
    }

    /// A job that was started at any time, cancelled or ended ones included.
    fn on_job(&mut self, at: usize, act: impl FnOnce(&mut Self, &Job)) {
        let jobs = &self.world.jobs;
        // The last ones: what they report still counts, mostly.
        let job = jobs
            .len()
            .checked_sub(1 + at % jobs.len().max(1))
            .map(|at| jobs[at].clone());
        if let Some(job) = job {
            act(self, &job);
        }
    }

    /// The Image of a job, if it still runs.
    fn running(&mut self, job: &Job) -> Option<&mut Model> {
        self.models
            .get_mut(&job.id)
            .filter(|model| model.job == Some(job.no))
    }

    fn plan(&mut self, job: &Job, found: &Digest) {
        if self.running(job).is_some_and(|model| model.publishing.is_some()) {
            // A job asks once.
            return;
        }
        let found = job.wish.reference.digest.as_ref().unwrap_or(found).clone();
        let verdict = self.world.resolve(job, &found);
        let tree = Tree::of(&job.wish, &found);
        let Some(model) = self.running(job) else {
            assert_eq!(verdict, Verdict::Stop, "a job that ended goes on");
            return;
        };
        if verdict == Verdict::Stop {
            assert_eq!(model.current.as_ref(), Some(&tree));
            model.end_job();
            model.blob = None;
            return;
        }
        model.publishing = Some(tree.clone());
        model.blob = Some(tree.blob());
        let plan = Plan {
            layers: 1,
            bytes: 1,
            blobs: vec![tree.blob()],
            content: tree.name(),
        };
        self.world.machine.planned(job, plan, self.world.now());
        self.world.look();
    }

    fn publish(&mut self, job: &Job, collect: bool) {
        let now = self.world.mono;
        // A job that was cancelled may publish still: it does not know yet.
        let Some(tree) = self.running(job).map(|model| model.publishing.clone()) else {
            let resolved = self
                .world
                .machine
                .image(&job.id)
                .and_then(|image| image.resolution.clone());
            if let Some(resolved) = resolved {
                self.volume.insert(Tree::of(&job.wish, &resolved.digest));
                self.asked = true;
                let content = Tree::of(&job.wish, &resolved.digest).content();
                self.world
                    .machine
                    .published(job, content, Sample::default(), self.world.now());
                self.world.look();
            }
            return;
        };
        let Some(tree) = tree else { return };
        self.volume.insert(tree.clone());
        if collect {
            self.collect();
            assert!(self.volume.contains(&tree), "collected while it is published");
        }
        self.world
            .machine
            .downloaded(job, Sample::default(), self.world.now());
        self.world
            .machine
            .published(job, tree.content(), Sample::default(), self.world.now());
        self.world.look();
        if let Some(model) = self.running(job) {
            model.end_job();
            model.blob = None;
            model.superseded.retain(|(_, old)| *old != tree);
            if let Some(old) = model.current.replace(tree.clone()).filter(|old| *old != tree) {
                model.superseded.push((now, old));
            }
        }
    }

    /// One moment at which something is due after the other, so that a job begins by the claims of then.
    fn pass(&mut self, time: Duration) {
        let end = self.world.mono + time;
        loop {
            let due = self.world.machine.next_wake().filter(|at| *at < end);
            self.world.pass(due.unwrap_or(end) - self.world.mono);
            let now = self.world.mono;
            let models = std::mem::take(&mut self.models).into_iter();
            self.models = models
                .filter_map(|(id, model)| Some((id, model.at(now, &self.settings)?)))
                .collect();
            self.take_over();
            if due.is_none() {
                return;
            }
        }
    }

    fn restart(&mut self) {
        let before = self.world.mono;
        self.world.restart();
        let now = self.world.mono;
        for model in self.models.values_mut() {
            model.end_job();
            model.superseded.clear();
            model.unclaimed = model.claims.is_empty().then_some(now);
            for until in model.claims.values_mut().filter_map(|claim| claim.until.as_mut()) {
                *until = (now + until.saturating_sub(before)).max(now + self.settings.grace_period);
            }
        }
        self.collects_from = now + self.settings.grace_period;
        self.asked = true;
    }

    /// As the daemon does it.
    fn collect(&mut self) {
        if self.asked && self.world.mono >= self.collects_from {
            let needed = self.world.machine.needed_contents();
            self.volume
                .retain(|tree| needed.has(&tree.name(), &tree.manifest));
            self.asked = false;
        }
    }

    /// What the machine has begun and asked for.
    fn take_over(&mut self) {
        self.asked |= self.world.collections > 0 || !self.world.deleted.is_empty();
        self.world.collections = 0;
        self.world.deleted.clear();
        for job in &self.world.jobs {
            let runs = self
                .world
                .machine
                .entries
                .get(&job.id)
                .and_then(|entry| entry.job.as_ref());
            if runs.is_some_and(|running| running.no == job.no) {
                let model = self
                    .models
                    .get_mut(&job.id)
                    .expect("a job of an Image that is over");
                if model.job != Some(job.no) {
                    assert!(model.job.is_none(), "two jobs at once");
                    assert!(!model.claims.is_empty(), "a job for nobody");
                    model.job = Some(job.no);
                }
            }
        }
    }

    fn check(&self) {
        let machine = &self.world.machine;
        assert!(
            machine.images().map(|image| &image.id).eq(self.models.keys()),
            "other Images"
        );
        for (id, model) in &self.models {
            let (image, entry) = (self.world.image(id), &machine.entries[id]);
            assert!(
                image.claims.keys().eq(model.claims.keys()),
                "other claims: {image:?}"
            );
            assert_eq!(image.unclaimed_since.is_some(), model.unclaimed.is_some());
            assert_eq!(
                entry.job.as_ref().map(|job| job.no),
                model.job,
                "another job runs"
            );
            let current = model.current.as_ref().map(Tree::name);
            assert_eq!(image.content.as_ref().map(Content::name), current);
        }
        let needed = machine.needed_contents();
        for tree in Tree::all() {
            let by = |model: &Model| model.needs(&tree);
            let wanted = self.models.values().any(by);
            assert_eq!(needed.has(&tree.name(), &tree.manifest), wanted, "{tree:?}");
            // Whoever can't be collected yet will be, without anything else happening.
            assert!(
                wanted || !self.volume.contains(&tree) || self.asked,
                "kept: {tree:?}"
            );
        }
        let blobs: HashSet<_> = self
            .models
            .values()
            .filter_map(|model| model.blob.clone())
            .collect();
        assert_eq!(machine.needed_blobs(), blobs);
        let current = self.models.values().filter_map(|model| model.current.as_ref());
        assert!(
            current.clone().all(|tree| self.volume.contains(tree)),
            "removed what is current"
        );
    }

    /// Long after the last step, only claims keep anything.
    fn at_rest(&mut self) {
        self.pass(40 * MINUTE);
        self.collect();
        self.check();
        let claimed = |tree: &Tree| self.models.values().any(|model| model.needs(tree));
        assert!(
            self.volume.iter().all(claimed),
            "kept for nobody: {:?}",
            self.volume
        );
        assert!(
            self.models
                .values()
                .all(|model| !model.claims.is_empty() && model.superseded.is_empty())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn what_is_claimed_stays_and_what_nobody_claims_goes(steps in proptest::collection::vec(step(), 1..80)) {
        let mut both = Both::new();
        for step in &steps {
            both.apply(step);
        }
        both.at_rest();
    }
}
