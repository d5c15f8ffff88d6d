//! A verification policy that changes while Images rest because of it.

use crate::{
    domain::{Phase, Reason},
    error::Fault,
    machine::{
        Machine, Now,
        entry::{Entry, Running},
    },
};

impl Machine {
    /// The verification policy has changed: what failed by the old one is tried again. What is unpacked
    /// stays, and what is being pulled goes on.
    pub fn policy_changed(&mut self, now: Now) {
        self.policies += 1;
        let failed = |entry: &Entry| {
            let of_policy = entry.image.reason().is_some_and(Reason::is_of_policy);
            entry.image.phase == Phase::Failed && of_policy
        };
        let failed: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| failed(entry))
            .map(|(id, _)| id.clone())
            .collect();
        for id in failed {
            self.with(&id, now, |entry, machine| {
                entry.try_again(now);
                machine.start_if_due(entry, now);
            });
        }
    }

    /// After a job that began before the policy changed, and failed by the policy that it had read.
    pub(super) fn try_by_newer_policy(&self, entry: &mut Entry, running: &Running, fault: &Fault, now: Now) {
        if fault.reason.is_of_policy() && running.policies != self.policies {
            entry.try_again(now);
        }
    }
}

impl Entry {
    fn try_again(&mut self, now: Now) {
        // The same digest is worth a pull again, also to a check that is under way.
        self.failed = None;
        self.due = Some(now.mono);
        self.image.next_retry = None;
        self.changed();
    }
}
