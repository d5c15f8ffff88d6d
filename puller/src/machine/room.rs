//! Short of room (decision 12): who goes first, and who goes on.
//!
//! What nobody claims goes before its grace period is over, that which was claimed last goes last. Claimed
//! content never goes. A pull that failed for want of room comes back as soon as somebody else has given some.

use crate::{
    domain::{ImageId, Phase, Reason},
    machine::{Job, Machine, Now, entry::Entry, jobs::Sample},
};

/// Unpacked bytes that are reckoned for each compressed one, as long as nothing better is known.
const UNPACKED_PER_BYTE: u64 = 2;

/// What the tree of a pull had come to when room ran out: so much it needs at least. The next attempt asks for
/// it before its first byte, so that no two of them take room, and the network, from each other for nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Unpacked bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

impl Need {
    /// The room to ask for before so many compressed bytes are downloaded and unpacked: bytes and inodes.
    pub fn room(self, compressed: u64) -> (u64, u64) {
        let unpacked = compressed.saturating_mul(UNPACKED_PER_BYTE).max(self.bytes);
        (compressed.saturating_add(unpacked), self.inodes)
    }
}

/// [`Need`] and the content that has it.
#[derive(Debug)]
pub(super) struct Lacked {
    content: String,
    need: Need,
}

impl Machine {
    /// Forgets Images that nobody claims, the longest unclaimed first, until their content comes to so many
    /// bytes or there are none left. Says how many Images these were.
    ///
    /// As with all that is collected, nothing is forgotten before a grace period after the start: claims of
    /// the last seconds may have been lost.
    pub fn make_room(&mut self, bytes: u64, now: Now) -> usize {
        if now.mono < self.settings.grace_period {
            return 0;
        }
        let mut unclaimed: Vec<_> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| Some((entry.unclaimed_since()?, id.clone())))
            .collect();
        unclaimed.sort();
        let (mut freed, mut forgotten) = (0_u64, 0);
        for (_, id) in unclaimed {
            if freed >= bytes {
                break;
            }
            forgotten += 1;
            freed = freed.saturating_add(self.entries.get(&id).map_or(0, Entry::content_bytes));
            self.with(&id, now, |entry, _| entry.give_up());
        }
        forgotten
    }

    /// What is known of the room that this content needs.
    pub fn need(&self, job: &Job, content: &str) -> Need {
        let entry = self.entries.get(&job.id);
        let lacked = entry.and_then(|entry| entry.lacked.as_ref());
        lacked
            .filter(|lacked| lacked.content == content)
            .map_or_else(Need::default, |lacked| lacked.need)
    }

    /// The most bytes, and the most inodes, that a pull waits for; `None`: none waits for room.
    pub fn missing_room(&self) -> Option<(u64, u64)> {
        let waiting = self.entries.values().filter(|entry| entry.waits_for_room());
        waiting
            .map(Entry::room)
            .reduce(|most, room| (most.0.max(room.0), most.1.max(room.1)))
    }

    /// Room has been given back: whatever failed for want of it is tried again now, but for him who gave it.
    pub fn room_made(&mut self, giver: Option<&ImageId>, now: Now) {
        let others = |entry: &Entry| giver != Some(&entry.image.id) && entry.waits_for_room();
        self.wake(others, Entry::end_back_off, now);
    }

    /// Whether somebody other than the entry that is being changed could use room: then what it would go on
    /// from is given back too.
    pub(super) fn others_want_room(&self) -> bool {
        self.entries
            .values()
            .any(|entry| entry.job.is_some() || entry.waits_for_room())
    }
}

impl Entry {
    fn content_bytes(&self) -> u64 {
        self.image.content.as_ref().map_or(0, |content| content.size)
    }

    /// Its job has failed for want of room.
    pub(super) fn lack(&mut self, sample: &Sample) {
        let Some(content) = self.publishing.clone() else {
            return;
        };
        let before = self.lacked.take().filter(|lacked| lacked.content == content);
        let before = before.map_or_else(Need::default, |lacked| lacked.need);
        let need = Need {
            bytes: sample.unpacked_bytes.max(before.bytes),
            inodes: sample.unpacked_entries.max(before.inodes),
        };
        self.lacked = Some(Lacked { content, need });
    }

    fn room(&self) -> (u64, u64) {
        let compressed = self
            .image
            .progress
            .as_ref()
            .and_then(|progress| progress.bytes_total);
        let need = self
            .lacked
            .as_ref()
            .map_or_else(Need::default, |lacked| lacked.need);
        need.room(compressed.unwrap_or(0))
    }

    fn waits_for_room(&self) -> bool {
        self.image.phase == Phase::Retrying && self.image.reason() == Some(Reason::NoSpace)
    }
}
