//! What decision 6 of the product says of claims, and no more.

use super::*;

/// A published tree, as far as claims matter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tree {
    pub(super) manifest: Digest,
    pub(super) selected: &'static str,
}

impl Tree {
    pub(super) fn of(wish: &Wish, manifest: &Digest) -> Self {
        let selected = if wish.selection == Selection::All {
            ""
        } else {
            "configs"
        };
        Self {
            manifest: manifest.clone(),
            selected,
        }
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        let trees = |n| wishes().map(|wish| Self::of(&wish, &numbered(n)));
        (0..DIGESTS).flat_map(trees)
    }

    pub(super) fn name(&self) -> String {
        self.content().name()
    }

    pub(super) fn content(&self) -> Content {
        Content {
            selected: self.selected.to_owned(),
            ..content(&self.manifest)
        }
    }

    /// Its only layer.
    pub(super) fn blob(&self) -> Digest {
        digest(&format!("layer of {}", self.manifest))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Claimed {
    pub(super) until: Option<Duration>,
    pub(super) in_use: Vec<Digest>,
}

/// An Image as decision 6 has it.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) claims: BTreeMap<&'static str, Claimed>,
    pub(super) unclaimed: Option<Duration>,
    pub(super) current: Option<Tree>,
    pub(super) superseded: Vec<(Duration, Tree)>,
    pub(super) job: Option<JobNo>,
    pub(super) publishing: Option<Tree>,
    pub(super) blob: Option<Digest>,
}

impl Model {
    /// What has run out by then. `None`: the Image itself.
    pub(super) fn at(mut self, now: Duration, settings: &Settings) -> Option<Self> {
        let over = |claim: &Claimed| claim.until.is_some_and(|until| until <= now);
        let last = self.claims.values().filter_map(|claim| claim.until).max();
        let claimed = !self.claims.is_empty();
        self.claims.retain(|_, claim| !over(claim));
        if claimed && self.claims.is_empty() {
            self.unclaimed = last;
        }
        let passed = |since: Duration, time: Duration| since + time <= now;
        if self.unclaimed.is_some_and(|at| passed(at, settings.grace_period)) {
            return None;
        }
        if self.unclaimed.is_some_and(|at| passed(at, settings.cancel_delay)) {
            self.end_job();
        }
        self.superseded
            .retain(|(at, _)| !passed(*at, settings.grace_period));
        Some(self)
    }

    pub(super) fn end_job(&mut self) {
        (self.job, self.publishing) = (None, None);
    }

    pub(super) fn needs(&self, tree: &Tree) -> bool {
        let reads = |claim: &Claimed| claim.in_use.contains(&tree.manifest);
        self.current.as_ref() == Some(tree)
            || self.publishing.as_ref() == Some(tree)
            || self.superseded.iter().any(|(_, old)| old == tree)
            || self.claims.values().any(reads)
    }
}
