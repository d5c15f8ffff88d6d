//! Whatever happens, however slow watchers are and however often they come again: at rest each knows what is.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const PHASES: [Phase; 4] = [
    Phase::Initiated,
    Phase::Pulling,
    Phase::Unpacking,
    Phase::Unpacked,
];
const ME: &str = "me";

#[derive(Debug, Clone)]
enum Step {
    /// An Image, the phase it is in, whether it has just entered it, and whether I claim it.
    Put(usize, usize, bool, bool),
    Delete(usize),
    /// Seconds go by.
    Pass(u64),
    /// A watcher reads so many events.
    Read(usize, usize),
    /// A watcher's connection breaks.
    Reconnect(usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (name, watcher) = (0..NAMES.len(), 0..WATCHERS);
    prop_oneof![
        8 => (name.clone(), 0..PHASES.len(), any::<bool>(), any::<bool>())
            .prop_map(|(name, phase, entered, mine)| Step::Put(name, phase, entered, mine)),
        4 => name.prop_map(Step::Delete),
        2 => (1..=HORIZON.as_secs()).prop_map(Step::Pass),
        6 => (watcher.clone(), 0..6usize).prop_map(|(watcher, events)| Step::Read(watcher, events)),
        2 => watcher.prop_map(Step::Reconnect),
        1 => Just(Step::Restart),
    ]
}

/// The first two keep up, the others read only when they are told to; every other one has a filter.
const WATCHERS: usize = 6;
const KEEP_UP: usize = 2;

/// A client as the API's page tells it to be.
struct Client {
    hub: Arc<Hub>,
    /// What was there when its connection was made, and is still.
    there: BTreeSet<ImageId>,
    watcher: Watcher,
    filter: Filter,
    copy: BTreeMap<ImageId, Version>,
    last: Option<Version>,
    /// What was told since all states are told again.
    told: Option<BTreeSet<ImageId>>,
    /// Phases as they were entered, as far as it was told.
    phases: Vec<(ImageId, Phase)>,
}

impl Client {
    fn new(hub: &Arc<Hub>, filter: Filter) -> Self {
        Self {
            hub: Arc::clone(hub),
            there: ids(hub),
            watcher: hub.watch(None, filter.clone()).unwrap(),
            filter,
            copy: BTreeMap::new(),
            last: None,
            told: Some(BTreeSet::new()),
            phases: Vec::new(),
        }
    }

    fn reconnect(&mut self, hub: &Arc<Hub>) {
        // A list that broke off begins anew.
        let after = self.last.filter(|_| self.told.is_none());
        if after.is_none() {
            self.told = Some(BTreeSet::new());
            self.last = None;
        }
        self.hub = Arc::clone(hub);
        self.there = ids(hub);
        self.watcher = hub.watch(after, self.filter.clone()).unwrap();
    }

    fn read(&mut self, events: usize) {
        for _ in 0..events {
            let Some(event) = self.watcher.try_next() else {
                return;
            };
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Put(image, version) => {
                self.rise(version);
                if let Some(told) = &mut self.told {
                    told.insert(image.id.clone());
                }
                let known = self.copy.insert(image.id.clone(), version);
                assert!(
                    known.is_none_or(|known| known <= version),
                    "an Image's version falls"
                );
                self.phases.push((image.id.clone(), image.phase));
            }
            Event::Deleted(id, version) => {
                self.rise(version);
                self.copy.remove(&id);
                if let Some(told) = &mut self.told {
                    told.remove(&id);
                }
            }
            Event::Bookmark { version, synced } => {
                assert!(self.last.is_none_or(|last| last <= version), "a bookmark falls");
                self.last = Some(version);
                if let Some(told) = self.told.take_if(|_| synced) {
                    // What came, or entered the filter, only meanwhile may come later.
                    let all = self.filter.claimant.is_empty();
                    for (id, latest) in self.expected(&self.hub) {
                        let was_there = all && self.there.contains(&id);
                        let escaped = (was_there || latest <= version) && !told.contains(&id);
                        assert!(!escaped, "it is there, and was not told before the bookmark");
                    }
                    self.copy.retain(|id, _| told.contains(id));
                }
            }
            Event::Reset => {
                self.told = Some(BTreeSet::new());
                self.last = None;
            }
        }
    }

    fn rise(&mut self, version: Version) {
        assert!(self.last.is_none_or(|last| last < version), "a version falls");
        self.last = Some(version);
    }

    fn expected(&self, hub: &Hub) -> BTreeMap<ImageId, Version> {
        let images = hub.list().0.into_iter();
        images
            .filter(|(image, _)| self.filter.wants(image))
            .map(|(image, version)| (image.id.clone(), version))
            .collect()
    }
}

fn ids(hub: &Hub) -> BTreeSet<ImageId> {
    let images = hub.list().0.into_iter();
    images.map(|(image, _)| image.id.clone()).collect()
}

struct Run {
    hub: Arc<Hub>,
    now: Duration,
    clients: Vec<Client>,
    /// The phases that were entered since the last restart, in order.
    entered: Vec<(ImageId, Phase)>,
}

impl Run {
    fn new() -> Self {
        let hub = hub();
        let filter = |n: usize| Filter {
            claimant: [String::new(), ME.to_owned()][n % 2].clone(),
            ..Filter::default()
        };
        Self {
            clients: (0..WATCHERS).map(|n| Client::new(&hub, filter(n))).collect(),
            now: Duration::ZERO,
            entered: Vec::new(),
            hub,
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Put(name, phase, entered, mine) => {
                let image = Image {
                    phase: PHASES[phase],
                    ..claimed(NAMES[name], if mine { ME } else { "you" })
                };
                if entered {
                    self.entered.push((image.id.clone(), image.phase));
                }
                self.hub.put(image, entered);
            }
            Step::Delete(name) => {
                let id = image(NAMES[name], Phase::Initiated).id;
                self.hub.delete(&id, self.now);
                for client in &mut self.clients {
                    client.there.remove(&id);
                }
            }
            Step::Pass(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.hub.expire(self.now);
            }
            Step::Read(client, events) => self.clients[client].read(events),
            Step::Reconnect(client) => self.clients[client].reconnect(&self.hub),
            Step::Restart => self.restart(),
        }
        for client in &mut self.clients[..KEEP_UP] {
            client.read(usize::MAX);
        }
    }

    /// The same Images in a new process, which has forgotten all that was.
    fn restart(&mut self) {
        let (images, version) = self.hub.list();
        self.hub = Hub::new(version.epoch + 1);
        self.entered.clear();
        for (image, _) in images {
            self.hub.put((*image).clone(), true);
        }
        for client in &mut self.clients {
            client.reconnect(&self.hub);
            client.phases.clear();
        }
    }
}

/// Whether all of `some` are in `all`, in this order.
fn is_within<T: PartialEq>(some: &[T], all: &[T]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|one| rest.any(|other| other == one))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn at_rest_every_watcher_knows_what_is(steps in proptest::collection::vec(step(), 1..100)) {
        let mut run = Run::new();
        for step in &steps {
            run.apply(step);
        }
        for client in &mut run.clients {
            client.read(usize::MAX);
            prop_assert_eq!(&client.copy, &client.expected(&run.hub));
            prop_assert!(client.told.is_none(), "it was told that it has it all");
        }
        // Without a filter and without a pause, no phase is missed.
        prop_assert!(is_within(&run.entered, &run.clients[0].phases));
    }
}
