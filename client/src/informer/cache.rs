//! What an informer knows, changed by one event at a time; without any connection.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use puller_api::v1::{self as api, watch_event::Event};

/// The copy.
#[derive(Debug, Default)]
pub(super) struct Cache {
    images: BTreeMap<String, Arc<api::Image>>,
    /// Where to resume. Empty: nowhere, all states have to be told again.
    version: String,
    /// The ids told since the states are told again; `None`: they are not. What is not among them when
    /// they are complete is gone.
    told: Option<BTreeSet<String>>,
    synced: bool,
}

impl Cache {
    pub(super) fn images(&self) -> &BTreeMap<String, Arc<api::Image>> {
        &self.images
    }

    /// Whether it was complete once.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// A connection begins; gives the version to watch from. If the last one broke while the states were
    /// told again, that begins anew: nobody knows which of them the puller would tell a second time.
    pub(super) fn begin(&mut self) -> String {
        if self.told.is_some() {
            self.version.clear();
        }
        self.told = self.version.is_empty().then(BTreeSet::new);
        self.version.clone()
    }

    /// The puller does not know the version. False: there was none, so that is not what it refused.
    pub(super) fn forget_version(&mut self) -> bool {
        !std::mem::take(&mut self.version).is_empty()
    }

    /// Takes an event, and gives the ids whose state it changed.
    pub(super) fn apply(&mut self, event: api::WatchEvent) -> Vec<String> {
        match event.event {
            Some(Event::Put(image)) => {
                let id = image.id.clone();
                self.version.clone_from(&image.version);
                if let Some(told) = &mut self.told {
                    told.insert(id.clone());
                }
                match self.images.get(&id) {
                    Some(known) if **known == image => Vec::new(),
                    _ => {
                        self.images.insert(id.clone(), Arc::new(image));
                        vec![id]
                    }
                }
            }
            Some(Event::Deleted(api::Deleted { id, version })) => {
                self.version = version;
                if let Some(told) = &mut self.told {
                    told.remove(&id);
                }
                self.images.remove(&id).map(|_| id).into_iter().collect()
            }
            Some(Event::Bookmark(api::Bookmark { version, synced })) => {
                self.version = version;
                if synced { self.complete() } else { Vec::new() }
            }
            Some(Event::Reset(api::Reset {})) => {
                self.told = Some(BTreeSet::new());
                Vec::new()
            }
            // An event of a later version of the API: its version is not known, so nothing is lost.
            None => Vec::new(),
        }
    }

    fn complete(&mut self) -> Vec<String> {
        self.synced = true;
        let Some(told) = self.told.take() else {
            return Vec::new();
        };
        let gone: Vec<_> = self
            .images
            .keys()
            .filter(|id| !told.contains(*id))
            .cloned()
            .collect();
        for id in &gone {
            self.images.remove(id);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(id: &str, version: u64) -> api::WatchEvent {
        let image = api::Image {
            id: id.into(),
            version: version.to_string(),
            ..Default::default()
        };
        api::WatchEvent {
            event: Some(Event::Put(image)),
        }
    }

    fn deleted(id: &str, version: u64) -> api::WatchEvent {
        let deleted = api::Deleted {
            id: id.into(),
            version: version.to_string(),
        };
        api::WatchEvent {
            event: Some(Event::Deleted(deleted)),
        }
    }

    fn bookmark(version: u64) -> api::WatchEvent {
        let bookmark = api::Bookmark {
            version: version.to_string(),
            synced: true,
        };
        api::WatchEvent {
            event: Some(Event::Bookmark(bookmark)),
        }
    }

    fn reset() -> api::WatchEvent {
        api::WatchEvent {
            event: Some(Event::Reset(api::Reset {})),
        }
    }

    fn ids(cache: &Cache) -> Vec<&str> {
        cache.images().keys().map(String::as_str).collect()
    }

    #[test]
    fn it_is_synced_at_the_bookmark_and_resumes_from_the_last_version() {
        let mut cache = Cache::default();
        assert_eq!(cache.begin(), "");
        assert_eq!(cache.apply(put("a", 1)), ["a"]);
        assert!(!cache.is_synced());
        assert!(cache.apply(bookmark(2)).is_empty() && cache.is_synced());
        assert_eq!(cache.apply(put("a", 3)), ["a"]);
        assert_eq!(cache.begin(), "3");
        // Told again, and nothing new.
        assert!(cache.apply(put("a", 3)).is_empty());
        assert_eq!(cache.apply(deleted("a", 4)), ["a"]);
        assert!(cache.apply(deleted("a", 4)).is_empty());
        assert_eq!(cache.begin(), "4");
    }

    #[test]
    fn after_a_reset_what_is_not_told_is_gone() {
        let mut cache = Cache::default();
        cache.begin();
        for event in [put("a", 1), put("b", 2), bookmark(2)] {
            cache.apply(event);
        }
        cache.begin();
        cache.apply(reset());
        assert_eq!(cache.apply(put("b", 12)), ["b"]);
        // Until it is complete, what was known stays.
        assert_eq!(ids(&cache), ["a", "b"]);
        assert_eq!(cache.apply(bookmark(13)), ["a"]);
        assert_eq!(ids(&cache), ["b"]);
    }

    #[test]
    fn a_connection_that_breaks_before_all_is_told_begins_anew() {
        let mut cache = Cache::default();
        cache.begin();
        cache.apply(put("a", 1));
        assert_eq!(cache.begin(), "");
        cache.apply(put("b", 2));
        assert_eq!(cache.apply(bookmark(2)), ["a"]);
        assert!(cache.forget_version() && !cache.forget_version());
        assert_eq!(cache.begin(), "");
    }

    /// A puller with a history, of which it remembers the deletions after `horizon`.
    #[derive(Debug, Default)]
    struct Model {
        history: Vec<(String, bool)>,
        horizon: usize,
    }

    impl Model {
        fn state(&self) -> BTreeMap<&str, u64> {
            let mut state = BTreeMap::new();
            for (n, (id, there)) in self.history.iter().enumerate() {
                match there {
                    true => state.insert(id.as_str(), n as u64 + 1),
                    false => state.remove(id.as_str()),
                };
            }
            state
        }

        /// What a watch from `version` tells.
        fn watch(&self, version: &str) -> Vec<api::WatchEvent> {
            let from: usize = version.parse().unwrap_or_default();
            let mut events = Vec::new();
            let all = from < self.horizon || version.is_empty();
            if all && !version.is_empty() {
                events.push(reset());
            }
            let state = self.state();
            let mut last: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
            for (n, (id, there)) in self.history.iter().enumerate() {
                last.insert(id, (n as u64 + 1, *there));
            }
            let mut changes: Vec<_> = last.into_iter().map(|(id, (n, there))| (n, id, there)).collect();
            changes.sort_unstable();
            for (n, id, there) in changes {
                match there {
                    true if all || n > from as u64 => events.push(put(id, state[id])),
                    false if !all && n > from as u64 => events.push(deleted(id, n)),
                    true | false => {}
                }
            }
            events.push(bookmark(self.history.len() as u64));
            events
        }
    }

    proptest! {
        /// Whatever changes, however connections break and memory is lost: once a watch has told all, the
        /// copy is the puller's state, and whoever follows the triggers has seen every difference.
        #[test]
        fn it_ends_equal_to_the_puller(
            rounds in prop::collection::vec(
                (prop::collection::vec(("[a-d]", any::<bool>()), 0..6), any::<bool>(), 0_usize..8),
                1..12,
            ),
        ) {
            let mut model = Model::default();
            let mut cache = Cache::default();
            let mut follower: BTreeMap<String, String> = BTreeMap::new();
            let rounds_and_rest = rounds.into_iter().chain([(Vec::new(), false, usize::MAX)]);
            for (changes, forget, delivered) in rounds_and_rest {
                model.history.extend(changes);
                if forget {
                    model.horizon = model.history.len();
                }
                let version = cache.begin();
                for event in model.watch(&version).into_iter().take(delivered) {
                    for id in cache.apply(event) {
                        match cache.images().get(&id) {
                            Some(image) => follower.insert(id, image.version.clone()),
                            None => follower.remove(&id),
                        };
                    }
                }
            }
            let expected: BTreeMap<_, _> = model.state().into_iter().map(|(id, n)| (id.to_owned(), n.to_string())).collect();
            let found: BTreeMap<_, _> = cache.images().iter().map(|(id, image)| (id.clone(), image.version.clone())).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(&follower, &expected);
            prop_assert!(cache.is_synced());
        }
    }
}
