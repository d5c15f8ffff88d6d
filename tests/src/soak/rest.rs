//! What must be so once nothing happens any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use puller_api::v1::{Image, Phase, selection::Kind};
use puller_client::{Client, Informer};
use tokio::time::{Instant, sleep};

use super::{Ground, lock, watcher::Known};

/// A back-off may have come to five minutes; then a pull follows.
const PATIENCE: Duration = Duration::from_secs(7 * 60);

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often it says what it waits for.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// Everybody who must agree at rest.
#[derive(Debug)]
pub struct Everybody {
    /// The puller.
    pub client: Client,
    /// Each claimant with the numbers of the subjects that it claims.
    pub claimants: Vec<(String, Arc<Mutex<BTreeSet<usize>>>)>,
    /// Each with the claimant whose Images it is for.
    pub informers: Vec<(String, Informer)>,
    /// The same.
    pub followers: Vec<(String, Arc<Mutex<Known>>)>,
}

impl Everybody {
    /// Waits until all is as it must be.
    ///
    /// # Errors
    /// It does not come to that; the message says what was wrong last.
    pub async fn rests(&self, ground: &Ground) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut told = Instant::now();
        loop {
            let problem = match self.look(ground).await {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            if Instant::now() > told + TELL_EVERY {
                told = Instant::now();
                println!("not at rest yet: {:.300}", problem.to_string());
            }
            if Instant::now() > deadline {
                return Err(problem.context("it does not come to rest"));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self, ground: &Ground) -> anyhow::Result<()> {
        let listed = self.client.list("").await?.images;
        let mut claims = self.claims(ground);
        for image in &listed {
            let expected = claims.remove(&wish(image)).unwrap_or_default();
            let claimants: BTreeSet<&str> =
                image.claims.iter().map(|claim| claim.claimant.as_str()).collect();
            ensure!(
                !expected.is_empty() && claimants == expected,
                "is claimed by {expected:?}: {image:#?}"
            );
        }
        ensure!(claims.is_empty(), "not listed: {claims:?}");
        for image in &listed {
            let subject = ground
                .pool
                .subjects
                .iter()
                .find(|subject| wish(image).0 == subject.reference)
                .with_context(|| format!("of no subject: {image:#?}"))?;
            let digest = ground.pool.digest_of(subject);
            let content = image.content.as_ref();
            ensure!(
                image.phase() == Phase::Unpacked
                    && content.is_some_and(|content| content.manifest_digest == digest),
                "is not unpacked as {digest}: {image:#?}"
            );
        }
        self.stores(&listed).await?;
        volume(&ground.volume, &listed)
    }

    /// By reference and selection: who claims it.
    fn claims(&self, ground: &Ground) -> BTreeMap<(String, String), BTreeSet<&str>> {
        let mut claims: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for (claimant, numbers) in &self.claimants {
            for number in &*lock(numbers) {
                let subject = &ground.pool.subjects[*number];
                let wish = (
                    subject.reference.clone(),
                    subject.selection.unwrap_or_default().to_owned(),
                );
                claims.entry(wish).or_default().insert(claimant);
            }
        }
        claims
    }

    async fn stores(&self, listed: &[Image]) -> anyhow::Result<()> {
        let of = |claimant: &str| -> BTreeMap<String, Image> {
            let is_of =
                |image: &&Image| claimant.is_empty() || image.claims.iter().any(|it| it.claimant == claimant);
            listed
                .iter()
                .filter(is_of)
                .map(|image| (image.id.clone(), image.clone()))
                .collect()
        };
        for (number, (claimant, informer)) in self.informers.iter().enumerate() {
            let stored: BTreeMap<_, _> = informer
                .list()
                .into_iter()
                .map(|(id, image)| (id, (*image).clone()))
                .collect();
            same(
                &format!("informer {number} of {claimant:?}"),
                &stored,
                &of(claimant),
            )?;
        }
        for (number, (claimant, known)) in self.followers.iter().enumerate() {
            let stored = lock(known).images().clone();
            same(
                &format!("follower {number} of {claimant:?}"),
                &stored,
                &of(claimant),
            )?;
        }
        Ok(())
    }
}

fn same(who: &str, stored: &BTreeMap<String, Image>, listed: &BTreeMap<String, Image>) -> anyhow::Result<()> {
    let ids: BTreeSet<_> = stored.keys().chain(listed.keys()).collect();
    for id in ids {
        let (stored, listed) = (stored.get(id), listed.get(id));
        ensure!(
            stored == listed,
            "{who} has {stored:#?}, and listed is {listed:#?}"
        );
    }
    Ok(())
}

fn wish(image: &Image) -> (String, String) {
    let wish = image.wish.clone().unwrap_or_default();
    let selection = match wish.selection.and_then(|selection| selection.kind) {
        Some(Kind::Path(path)) => path.trim_start_matches('/').to_owned(),
        Some(Kind::Label(label)) => label,
        None => String::new(),
    };
    (wish.reference, selection)
}

/// The volume holds what is listed, and nothing else.
fn volume(volume: &Path, listed: &[Image]) -> anyhow::Result<()> {
    let contents = listed.iter().filter_map(|image| image.content.as_ref());
    let contents: BTreeSet<String> = contents
        .map(|content| content.path.trim_start_matches("content/").to_owned())
        .collect();
    let records = |names: &BTreeSet<String>| names.iter().map(|name| format!("{name}.json")).collect();
    let ids: BTreeSet<String> = listed.iter().map(|image| image.id.clone()).collect();
    let expected: [(&str, BTreeSet<String>); 7] = [
        ("content", contents.clone()),
        ("private/records/contents", records(&contents)),
        ("private/records/images", records(&ids)),
        ("private/blobs", BTreeSet::new()),
        ("private/trees", BTreeSet::new()),
        ("private/trash", BTreeSet::new()),
        ("private/set-aside", BTreeSet::new()),
    ];
    for (directory, expected) in expected {
        let found = names(&volume.join(directory))?;
        ensure!(
            found == expected,
            "{directory} holds {found:?}, and expected is {expected:?}"
        );
    }
    Ok(())
}

fn names(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    if !directory.exists() {
        return Ok(BTreeSet::new());
    }
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}
