//! Asks the policy, and fetches the signatures that it needs, before any byte of the image is.

use std::{collections::HashMap, sync::Arc};

use super::{
    Engine,
    plan::{Chosen, choose},
};
use crate::{
    domain::{Digest, Reason, Reference, Wish},
    error::Fault,
    policy::{Attached, Check, signature_tag},
    registry::Repository,
};

impl Engine {
    /// What the policy wants of an image.
    pub(super) async fn ask_policy(&self, reference: &Reference) -> Result<Check, Fault> {
        let (policy, asked) = (Arc::clone(&self.policy), reference.clone());
        tokio::task::spawn_blocking(move || policy.ask(&asked))
            .await
            .unwrap_or_else(|panic| {
                Err(Fault::new(
                    Reason::Internal,
                    format!("the policy, asked for {reference}"),
                    panic.to_string(),
                    "this is a fault of the puller; report it",
                ))
            })
    }

    /// The manifest for the wish's platform, once the policy lets it pass. A signature of what the reference
    /// stands for will do, which is what cosign signs; where that is an index, so will one of the chosen
    /// manifest, which is what containers/image looks at.
    pub(super) async fn verified(
        &self,
        repository: &Repository,
        digest: &Digest,
        wish: &Wish,
    ) -> Result<Chosen, Fault> {
        let mut check = self.ask_policy(&wish.reference).await?;
        self.show_signatures(repository, digest, &mut check).await?;
        let chosen = choose(&*self.registry, repository, digest, wish).await?;
        if chosen.digest != *digest {
            self.show_signatures(repository, &chosen.digest, &mut check)
                .await?;
        }
        check.verdict()?;
        Ok(chosen)
    }

    /// Shows the signatures of a digest until no more are needed.
    async fn show_signatures(
        &self,
        repository: &Repository,
        digest: &Digest,
        check: &mut Check,
    ) -> Result<(), Fault> {
        if check.is_met() {
            return Ok(());
        }
        let Some(list) = found(self.registry.resolve(repository, &signature_tag(digest)).await)? else {
            check.look_at(digest, 0);
            return Ok(());
        };
        let list = self.registry.manifest(repository, &list).await?;
        let Attached { signatures, left_out } = match Attached::parse(&list.bytes) {
            Ok(attached) => attached,
            Err(why) => {
                check.look_at(digest, 0);
                check.malformed(&why);
                return Ok(());
            }
        };
        check.look_at(digest, left_out);
        // Signatures by several keys are often of the same bytes.
        let mut payloads = HashMap::new();
        for signature in signatures {
            let (digest, size) = (&signature.digest, signature.size);
            if !payloads.contains_key(digest) {
                let payload = found(self.registry.small_blob(repository, digest, size).await)?;
                payloads.insert(digest.clone(), payload);
            }
            match payloads.get(digest) {
                Some(Some(payload)) => check.show(payload, &signature.signature),
                _ => check.unusable("its payload is missing in the registry"),
            }
            if check.is_met() {
                break;
            }
        }
        Ok(())
    }
}

/// What is not there is no fault of the way to it.
fn found<T>(answer: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(fault) if fault.reason == Reason::NotFound => Ok(None),
        Err(fault) => Err(fault),
    }
}
