//! Rules: which requests, how often, and what then.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::{Behaviour, Matcher, Request, Shared};

/// A rule in the making: [`ScriptedRegistry::on`](super::ScriptedRegistry::on).
#[derive(Debug)]
#[must_use = "say what then"]
pub struct RuleBuilder<'a> {
    shared: &'a Shared,
    matcher: Matcher,
    skip: usize,
    times: Option<usize>,
}

/// A rule in force. Dropping this changes nothing.
#[derive(Debug, Clone)]
pub struct Rule(Arc<RuleState>);

#[derive(Debug)]
pub(crate) struct RuleState {
    matcher: Matcher,
    /// Requests that match are let through so often first.
    skip: usize,
    times: Option<usize>,
    inner: Mutex<Inner>,
    released: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    behaviours: Vec<Behaviour>,
    matched: usize,
}

impl<'a> RuleBuilder<'a> {
    pub(crate) fn new(shared: &'a Shared, matcher: Matcher) -> Self {
        Self {
            shared,
            matcher,
            skip: 0,
            times: None,
        }
    }

    /// Holds for so many requests, then no more.
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets so many requests through first.
    pub fn after(mut self, requests: usize) -> Self {
        self.skip = requests;
        self
    }

    /// Does this, and puts the rule in force.
    pub fn then(self, behaviour: impl Into<Vec<Behaviour>>) -> Rule {
        let state = Arc::new(RuleState {
            matcher: self.matcher,
            skip: self.skip,
            times: self.times,
            inner: Mutex::new(Inner {
                behaviours: behaviour.into(),
                matched: 0,
            }),
            released: watch::Sender::new(false),
        });
        self.shared.state().rules.push(state.clone());
        Rule(state)
    }
}

impl Rule {
    /// Does this as well.
    pub fn and(self, behaviour: impl Into<Vec<Behaviour>>) -> Self {
        self.0
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .behaviours
            .extend(behaviour.into());
        self
    }

    /// Lets stalled requests go on, and later ones of this rule not stall.
    pub fn release(&self) {
        self.0.release();
    }

    /// How many requests it was in force for.
    pub fn taken(&self) -> usize {
        let matched = self
            .0
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .matched;
        let in_turn = matched.saturating_sub(self.0.skip);
        self.0.times.map_or(in_turn, |times| in_turn.min(times))
    }
}

impl RuleState {
    /// What to do with this request, if the rule is about it; counts it then.
    pub(crate) fn take(&self, request: &Request) -> Option<Vec<Behaviour>> {
        if !self.matcher.matches(request) {
            return None;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = inner.matched.checked_sub(self.skip);
        inner.matched += 1;
        let in_force = turn.is_some_and(|turn| self.times.is_none_or(|times| turn < times));
        in_force.then(|| inner.behaviours.clone())
    }

    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    /// Resolves when the rule is released.
    pub(crate) async fn released(&self) {
        // An error means that the sender is gone, and it is a field of self.
        self.released
            .subscribe()
            .wait_for(|&released| released)
            .await
            .ok();
    }
}
