//! Short of room (decision 12): who goes first, and who goes on.
//!
//! What nobody claims goes before its grace period is over, that which was claimed last goes last. Claimed
//! content never goes. A pull that failed for want of room comes back as soon as somebody else has given some.

use crate::{
    domain::{Phase, Reason},
    machine::{Machine, Now, entry::Entry},
};

impl Machine {
    /// Forgets Images that nobody claims, the longest unclaimed first, until their content comes to so many
    /// bytes or there are none left. Says to how many it came.
    ///
    /// As with all that is collected, nothing is forgotten before a grace period after the start: claims of
    /// the last seconds may have been lost.
    pub fn make_room(&mut self, bytes: u64, now: Now) -> u64 {
        if now.mono < self.settings.grace_period {
            return 0;
        }
        let mut unclaimed: Vec<_> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| Some((entry.unclaimed_since()?, id.clone())))
            .collect();
        unclaimed.sort();
        let mut freed: u64 = 0;
        for (_, id) in unclaimed {
            if freed >= bytes {
                break;
            }
            freed = freed.saturating_add(self.entries.get(&id).map_or(0, Entry::content_bytes));
            self.with(&id, now, |entry, _| entry.give_up());
        }
        freed
    }

    /// Room has been given back: whatever failed for want of it is tried again now.
    pub fn room_made(&mut self, now: Now) {
        self.wake(Entry::waits_for_room, Entry::end_back_off, now);
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

    fn waits_for_room(&self) -> bool {
        self.image.phase == Phase::Retrying && self.image.reason() == Some(Reason::NoSpace)
    }
}
