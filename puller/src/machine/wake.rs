//! What changes outside and ends a wait: credentials, and what an administrator allows.

use crate::{
    domain::{Phase, Reason, Scope},
    error::Fault,
    machine::{
        Machine, Now,
        entry::{Entry, Running},
    },
};

impl Machine {
    /// New secret values are there for a scope: whatever waits for them, or in back-off, begins now.
    pub fn credentials(&mut self, scope: &Scope, now: Now) {
        *self.scopes.entry(scope.clone()).or_default() += 1;
        let of_scope = |entry: &Entry| entry.image.wish.scope == *scope;
        self.wake(of_scope, Entry::end_back_off, now);
    }

    /// The daemon's own credential files have changed: whatever of the daemon's scope may have been
    /// refused for its credentials, and waits in back-off, begins now. What waits for another reason goes on
    /// waiting, since credentials don't help it.
    pub fn own_credentials_changed(&mut self, now: Now) {
        // What runs with the old ones, and fails, is tried again at once.
        *self.scopes.entry(Scope::default()).or_default() += 1;
        let refused = |entry: &Entry| {
            let of_credentials = entry.image.reason().is_some_and(Reason::may_be_of_credentials);
            entry.image.wish.scope.is_daemon() && of_credentials
        };
        self.wake(refused, Entry::end_back_off, now);
    }

    /// What an administrator allows has changed (registries.conf, the verification policy): what failed by
    /// the old rules is tried again. What is unpacked stays, and what is being pulled goes on.
    pub fn rules_changed(&mut self, now: Now) {
        self.rules += 1;
        let failed = |entry: &Entry| {
            entry.image.phase == Phase::Failed && entry.image.reason().is_some_and(Reason::is_of_rules)
        };
        self.wake(failed, Entry::try_again, now);
    }

    /// After a job that began before the rules changed, and failed by those that it had read.
    pub(super) fn try_by_newer_rules(&self, entry: &mut Entry, running: &Running, fault: &Fault, now: Now) {
        if fault.reason.is_of_rules() && running.rules != self.rules {
            entry.try_again(now);
        }
    }

    pub(super) fn wake(
        &mut self,
        which: impl Fn(&Entry) -> bool,
        change: impl Fn(&mut Entry, Now),
        now: Now,
    ) {
        let ids: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| which(entry))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            self.with(&id, now, |entry, machine| {
                change(entry, now);
                machine.start_if_due(entry, now);
            });
        }
    }
}

impl Entry {
    /// What waits for its next attempt begins it.
    pub(super) fn end_back_off(&mut self, now: Now) {
        if self.image.phase != Phase::Failed && self.due.is_some() {
            self.due = Some(now.mono);
        }
        self.changed();
    }

    /// The digest that failed may be pulled after all, also by a check that is under way.
    fn try_again(&mut self, now: Now) {
        self.failed = None;
        self.due = Some(now.mono);
        self.image.next_retry = None;
        self.changed();
    }
}
