//! The questions for the puller, as its API has them.

use std::{collections::HashSet, sync::Arc};

use puller_client::{
    Client, Error, Filter, Informer, Key, Triggers,
    api::{Credentials, FetchRequest, Image, Selection, UnpackOptions, Wish, selection},
};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::{
    decision::{Answer, Ask, Claim, Claimed},
    secrets::PullSecrets,
};

/// The label of a catalog image's config that names the path of the catalog in it.
const CATALOG_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// The scope of the credentials that come from pull secrets; without any, the puller uses its own.
const SCOPE: &str = "pull-secrets";
/// Longest name of a claimant, in bytes.
const LONGEST_CLAIMANT: usize = 253;

impl Claim {
    const ALL: [Self; 2] = [Self::Wanted, Self::Resolved];

    /// What the names of claimants begin with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Wanted => "clustercatalog/",
            Self::Resolved => "clustercatalog-resolved/",
        }
    }

    /// The claimant of a catalog.
    fn claimant(self, name: &str) -> String {
        let prefix = self.prefix();
        match prefix.len() + name.len() <= LONGEST_CLAIMANT {
            true => format!("{prefix}{name}"),
            false => format!("{prefix}{}", hex::encode(Sha256::digest(name))),
        }
    }
}

/// Asks the puller on behalf of catalogs.
#[derive(Debug, Clone)]
pub struct Puller {
    client: Client,
    informer: Informer,
    secrets: watch::Receiver<PullSecrets>,
}

impl Puller {
    /// Must be called within the runtime; begins to watch.
    pub fn new(client: Client, secrets: watch::Receiver<PullSecrets>) -> Self {
        Self {
            informer: Informer::start(client.clone(), Filter::default()),
            client,
            secrets,
        }
    }

    /// Which Images to look at again.
    pub fn triggers(&self) -> Triggers {
        self.informer.triggers()
    }

    /// An Image that a trigger named; none: it is gone.
    pub fn image(&self, id: &str) -> Option<Arc<Image>> {
        self.informer.get(id)
    }

    /// Waits until it is known what the puller has.
    pub async fn synced(&self) {
        self.informer.synced().await;
    }

    /// Asks, which is a request too. It waits for neither network nor disk.
    pub async fn ask(&self, name: &str, ask: &Ask) -> Answer {
        match self.client.fetch(self.request(name, ask)).await {
            Ok(image) => Answer::Image(Box::new(image)),
            Err(Error::InvalidArgument(message)) => Answer::Refused(message),
            Err(error) => Answer::None(error.to_string()),
        }
    }

    fn request(&self, name: &str, ask: &Ask) -> FetchRequest {
        let config = self.secrets.borrow().config().cloned();
        FetchRequest {
            wish: Some(Wish {
                reference: ask.reference.clone(),
                platform: None,
                selection: Some(Selection {
                    kind: Some(selection::Kind::Label(CATALOG_LABEL.to_owned())),
                }),
                unpack: Some(UnpackOptions {
                    refuse_escaping_links: true,
                }),
                credential_scope: Some(config.as_ref().map_or("", |_| SCOPE).to_owned()),
            }),
            claimant: ask.claim.claimant(name),
            credentials: config.map(|dockerconfigjson| Credentials {
                dockerconfigjson: dockerconfigjson.to_vec(),
            }),
            // No age that anybody sets is longer than what protobuf can say.
            max_age: ask.max_age.and_then(|age| age.try_into().ok()),
            claim_ttl: None,
            in_use: Vec::new(),
        }
    }

    /// Gives a claim up.
    ///
    /// # Errors
    /// The puller can't be reached. The claim stays, and is found again later.
    pub async fn release(&self, name: &str, claim: Claim, id: &str) -> Result<(), Error> {
        self.client
            .release(Key::Id(id.to_owned()), &claim.claimant(name))
            .await
    }

    /// What a catalog claims, as far as it is known here.
    pub fn claimed(&self, name: &str) -> Vec<Claimed> {
        let claimants = Claim::ALL.map(|claim| (claim, claim.claimant(name)));
        let mut claimed = Vec::new();
        for (id, image) in self.informer.list() {
            for (claim, claimant) in &claimants {
                if claims(&image, claimant) {
                    claimed.push(Claimed {
                        claim: *claim,
                        id: id.clone(),
                        reference: image
                            .wish
                            .as_ref()
                            .map_or_else(String::new, |wish| wish.reference.clone()),
                    });
                }
            }
        }
        claimed
    }

    /// Gives up what catalogs claim that there are no more. `catalogs` gives all that there are; it is called after
    /// the claims were looked at, so that none is taken for an orphan that was made meanwhile.
    ///
    /// # Errors
    /// The puller can't be reached.
    pub async fn release_orphans(&self, catalogs: impl FnOnce() -> Vec<String>) -> Result<(), Error> {
        let claims: Vec<_> = self.informer.list().into_iter().flat_map(ours).collect();
        if claims.is_empty() {
            return Ok(());
        }
        let known: HashSet<String> = catalogs()
            .iter()
            .flat_map(|name| Claim::ALL.map(|claim| claim.claimant(name)))
            .collect();
        for (id, claimant) in claims {
            if known.contains(&claimant) {
                continue;
            }
            tracing::info!(%claimant, image = %id, "releasing what no catalog claims any more");
            self.client.release(Key::Id(id), &claimant).await?;
        }
        Ok(())
    }
}

/// The claims on an Image that catalogs made, with its id.
fn ours((id, image): (String, Arc<Image>)) -> Vec<(String, String)> {
    let claimants = image.claims.iter().map(|claim| claim.claimant.clone());
    let ours = claimants.filter(|claimant| {
        Claim::ALL
            .iter()
            .any(|claim| claimant.starts_with(claim.prefix()))
    });
    ours.map(|claimant| (id.clone(), claimant)).collect()
}

/// Whether an Image is of interest to a catalog. One that is gone may have been of interest to any.
pub fn concerns(image: Option<&Image>, name: &str) -> bool {
    image.is_none_or(|image| {
        Claim::ALL
            .iter()
            .any(|claim| claims(image, &claim.claimant(name)))
    })
}

fn claims(image: &Image, claimant: &str) -> bool {
    image.claims.iter().any(|claim| claim.claimant == claimant)
}

#[cfg(test)]
mod tests {
    use puller_client::api;

    use super::*;

    #[test]
    fn the_claimant_of_any_name_is_one_that_the_puller_takes_and_its_own() {
        let long = |last: char| format!("{}{last}", "a".repeat(252));
        let names = ["a".to_owned(), long('a'), long('b')];
        let claimants: std::collections::HashSet<String> = names
            .iter()
            .flat_map(|name| Claim::ALL.map(|claim| claim.claimant(name)))
            .collect();
        assert_eq!(claimants.len(), 6);
        assert!(
            claimants
                .iter()
                .all(|claimant| claimant.len() <= LONGEST_CLAIMANT)
        );
    }

    #[test]
    fn an_image_concerns_those_that_claim_it_and_one_that_is_gone_everybody() {
        let image = Image {
            claims: vec![api::Claim {
                claimant: Claim::Resolved.claimant("a"),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert!(concerns(Some(&image), "a") && !concerns(Some(&image), "b") && concerns(None, "b"));
    }
}
