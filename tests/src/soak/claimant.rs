//! Who fetches, renews and releases, at random.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use puller_api::v1::{FetchRequest, Image, Selection, Wish, selection::Kind};
use puller_client::{Client, Error, Key};
use rand::{RngExt as _, rngs::StdRng};
use tokio::time::{Instant, sleep};

use super::{
    Ground,
    holding::{Holding, Renewed},
    lock,
};

/// Claims are renewed this often: several times in a grace period and in the shortest time to live.
const RENEW: Duration = Duration::from_secs(1);

/// Tags are looked at again when what is known is older. The shortest that counts.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The times to live that claims have, in seconds, if they have one.
const TTL: std::ops::Range<u64> = 8..20;

/// Between two steps, in milliseconds.
const PAUSE: std::ops::Range<u64> = 20..300;

/// Most that one claimant holds: with fewer, all would be claimed at all times.
const MOST: usize = 5;

/// One claimant.
#[derive(Debug)]
pub struct Claimant {
    name: String,
    ground: Arc<Ground>,
    client: Client,
    random: StdRng,
    claims: BTreeMap<usize, Claim>,
    told: Arc<Mutex<BTreeSet<usize>>>,
}

#[derive(Debug, Default)]
struct Claim {
    ttl: Option<Duration>,
    renewed: Option<Instant>,
    holding: Option<Arc<Holding>>,
}

impl Claimant {
    /// Claims nothing yet.
    pub fn new(name: String, ground: Arc<Ground>, client: Client, random: StdRng) -> Self {
        Self {
            name,
            ground,
            client,
            random,
            claims: BTreeMap::new(),
            told: Arc::default(),
        }
    }

    /// What it claims, by the subjects' numbers; kept up to date.
    pub fn claims(&self) -> Arc<Mutex<BTreeSet<usize>>> {
        Arc::clone(&self.told)
    }

    /// Goes on for ever.
    pub async fn run(mut self) {
        loop {
            if !self.ground.life().rests {
                self.step().await;
            }
            self.renew().await;
            *lock(&self.told) = self.claims.keys().copied().collect();
            sleep(Duration::from_millis(self.random.random_range(PAUSE))).await;
        }
    }

    async fn step(&mut self) {
        let subject = self.random.random_range(0..self.ground.pool.subjects.len());
        match self.random.random_range(0..10) {
            0..4 if self.claims.len() < MOST && !self.claims.contains_key(&subject) => {
                let ttl = self
                    .random
                    .random_bool(0.5)
                    .then(|| Duration::from_secs(self.random.random_range(TTL)));
                let claim = Claim {
                    ttl,
                    ..Claim::default()
                };
                self.claims.insert(subject, claim);
                self.fetch(subject).await;
            }
            4..7 => {
                let which = self.random.random_range(0..MOST);
                if let Some(subject) = self.claims.keys().nth(which).copied() {
                    self.release(subject).await;
                }
            }
            _ => {}
        }
    }

    async fn renew(&mut self) {
        let is_due = |claim: &Claim| claim.renewed.is_none_or(|renewed| renewed.elapsed() >= RENEW);
        let due = self.claims.iter().filter(|(_, claim)| is_due(claim));
        for subject in due.map(|(subject, _)| *subject).collect::<Vec<_>>() {
            self.fetch(subject).await;
        }
    }

    fn wish(&self, subject: usize) -> Wish {
        let subject = &self.ground.pool.subjects[subject];
        let select = |path: &str| Selection {
            kind: Some(Kind::Path(path.to_owned())),
        };
        Wish {
            reference: subject.reference.clone(),
            selection: subject.selection.map(select),
            ..Wish::default()
        }
    }

    async fn fetch(&mut self, subject: usize) {
        let Some(claim) = self.claims.get(&subject) else {
            return;
        };
        let seconds = |time: Duration| time.try_into().ok();
        // At rest the volume is to hold what is current, and nothing else.
        let read = claim.holding.iter().filter(|_| !self.ground.life().rests);
        let request = FetchRequest {
            wish: Some(self.wish(subject)),
            claimant: self.name.clone(),
            max_age: seconds(MAX_AGE),
            claim_ttl: claim.ttl.and_then(seconds),
            in_use: read.map(|holding| holding.digest.clone()).collect(),
            ..FetchRequest::default()
        };
        let renewed = Renewed {
            life: self.ground.life().number,
            at: Instant::now(),
        };
        match self.client.fetch(request).await {
            Ok(image) => {
                self.ground.counts.fetches.up();
                self.take(subject, &image, renewed);
            }
            Err(error) => self.missed("Fetch", &error),
        }
    }

    /// Holds what the Image has now, and lets go of what it had.
    fn take(&mut self, subject: usize, image: &Image, renewed: Renewed) {
        let Some(claim) = self.claims.get_mut(&subject) else {
            return;
        };
        claim.renewed = Some(renewed.at);
        let name = format!("{} of {}", image.normalized_reference, self.name);
        let old = claim.holding.take();
        if let (Some(old), Some(content)) = (&old, &image.content)
            && old.path.as_os_str() == content.path.as_str()
            && old.published == content.published
        {
            old.renew(renewed);
            claim.holding.clone_from(&Some(Arc::clone(old)));
            return;
        }
        if let Some(old) = old {
            if image.content.is_none() && old.is_assured(old.renewed(), self.ground.life()) {
                self.ground.broken(format!(
                    "{name} is claimed, had content, and has none: {image:#?}"
                ));
            }
            old.end();
        }
        let Some(content) = &image.content else {
            return;
        };
        let Some(tree) = self.ground.pool.subjects[subject].tree(&content.manifest_digest) else {
            self.ground.broken(format!(
                "{name} is of a manifest that its tag never stood for: {image:#?}"
            ));
            return;
        };
        let holding = Arc::new(Holding::new(name, content, tree, claim.ttl, renewed));
        // Its digest is named as in use at once, not only at the next turn.
        claim.renewed = None;
        self.ground.holdings.add(Arc::clone(&holding));
        claim.holding = Some(holding);
    }

    async fn release(&mut self, subject: usize) {
        if let Some(holding) = self
            .claims
            .get_mut(&subject)
            .and_then(|claim| claim.holding.take())
        {
            holding.end();
        }
        match self
            .client
            .release(Key::Wish(self.wish(subject)), &self.name)
            .await
        {
            Ok(()) => {
                self.ground.counts.releases.up();
                self.claims.remove(&subject);
            }
            // It may have been heard or not; the next renewal claims it again.
            Err(error) => self.missed("Release", &error),
        }
    }

    fn missed(&self, call: &str, error: &Error) {
        match error.is_transient() {
            true => self.ground.counts.unanswered.up(),
            false => self
                .ground
                .broken(format!("{call} of {} was refused: {error}", self.name)),
        }
    }
}
