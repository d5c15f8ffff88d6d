//! What the layer at hand has made, and what of it is still on its way to the disk.
//!
//! Whiteouts hide only what lower layers put there, wherever in the layer they stand, so every name that a
//! layer makes must be known until its end. Names are kept as keyed hashes: 9 bytes each instead of a
//! hundred. The key is random, so nobody can make two names collide; by chance it happens in one of thirty
//! million layers of a million entries, and then one whiteout may not be honoured.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
};

use super::dirs::DirId;

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

#[derive(Default)]
pub(super) struct Made {
    hasher: RandomState,
    names: HashSet<Key>,
    directories: HashSet<Key>,
    /// Files that were handed to the writer, by the number of their job.
    pending: HashMap<Key, u64>,
    order: VecDeque<(u64, Key)>,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made")
            .field("names", &self.names.len())
            .finish_non_exhaustive()
    }
}

impl Made {
    pub(super) fn key(&self, dir: DirId, name: &[u8]) -> Key {
        Key(self.hasher.hash_one((dir, name)))
    }

    pub(super) fn add(&mut self, key: Key) {
        self.names.insert(key);
    }

    /// The name is of a directory that did not exist before this layer.
    pub(super) fn add_directory(&mut self, key: Key) {
        self.names.insert(key);
        self.directories.insert(key);
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        self.names.contains(&key)
    }

    pub(super) fn is_new_directory(&self, key: Key) -> bool {
        self.directories.contains(&key)
    }

    /// The file is written by the writer's job `job`; all jobs up to `done` are done.
    pub(super) fn add_pending(&mut self, key: Key, job: u64, done: u64) {
        while let Some(&(job, key)) = self.order.front()
            && job <= done
        {
            self.order.pop_front();
            if self.pending.get(&key) == Some(&job) {
                self.pending.remove(&key);
            }
        }
        self.pending.insert(key, job);
        self.order.push_back((job, key));
    }

    /// The job that writes the file, if there is one; it may be done already.
    pub(super) fn pending(&self, key: Key) -> Option<u64> {
        self.pending.get(&key).copied()
    }

    /// A new layer begins; no job is left.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The paths of special files, which are left out, so that links to them can be told from links to nothing.
/// Hashed as above; a path stays although something else takes its place, and is then not looked for here.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    hasher: RandomState,
    paths: HashSet<u64>,
}

impl LeftOut {
    pub(super) fn add(&mut self, path: &[u8]) {
        self.paths.insert(self.hasher.hash_one(path));
    }

    pub(super) fn contains(&self, path: &[u8]) -> bool {
        self.paths.contains(&self.hasher.hash_one(path))
    }
}
