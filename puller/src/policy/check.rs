//! Requirements against signatures.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{Signed, payload::Payload};
use crate::{
    domain::{Digest, Reason, Reference},
    error::Fault,
};

/// Misfits that a message tells. The rest is counted.
const MAX_TOLD: usize = 5;

/// What an image still needs: a signature for each requirement. Any of the digests that stand for the
/// image may carry it.
#[derive(Debug)]
pub struct Check {
    asked: String,
    reference: Reference,
    wanted: Vec<Arc<Signed>>,
    looked_at: Vec<Looked>,
    misfits: Vec<String>,
    signatures: usize,
}

/// A digest whose signatures were looked at.
#[derive(Debug)]
struct Looked {
    digest: Digest,
    left_out: usize,
}

impl Check {
    pub(super) fn new(asked: String, reference: Reference, wanted: Vec<Arc<Signed>>) -> Self {
        Self {
            asked,
            reference,
            wanted,
            looked_at: Vec::new(),
            misfits: Vec::new(),
            signatures: 0,
        }
    }

    /// Whether nothing is needed any more.
    pub fn is_met(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The signatures of this digest are shown from now on. `left_out` of them are not.
    pub fn look_at(&mut self, digest: &Digest, left_out: usize) {
        self.looked_at.push(Looked {
            digest: digest.clone(),
            left_out,
        });
    }

    /// Shows a signature of the digest that was named last: the payload's bytes and the signature in base64.
    pub fn show(&mut self, payload: &[u8], signature: &str) {
        let Some(digest) = self.looked_at.last().map(|looked| looked.digest.clone()) else {
            return;
        };
        let mut misfits = Vec::new();
        self.wanted.retain(
            |signed| match signed.fits(payload, signature, &self.reference, &digest) {
                Ok(()) => false,
                Err(misfit) => {
                    if !misfits.contains(&misfit) {
                        misfits.push(misfit);
                    }
                    true
                }
            },
        );
        self.count(&misfits);
    }

    /// A signature that can't be shown, and why.
    pub fn unusable(&mut self, why: &str) {
        self.count(&[why.to_owned()]);
    }

    /// What is attached is no list of signatures.
    pub fn malformed(&mut self, why: &str) {
        self.tell(format!("the list of signatures: {why}"));
    }

    fn count(&mut self, misfits: &[String]) {
        self.signatures += 1;
        if !misfits.is_empty() {
            self.tell(format!("signature {}: {}", self.signatures, misfits.join("; ")));
        }
    }

    fn tell(&mut self, misfit: String) {
        self.misfits.push(misfit);
    }

    /// Whether the image may be pulled, all its signatures having been shown.
    ///
    /// # Errors
    /// `verification failed`: which keys were tried, on how many signatures, and why each did not fit.
    pub fn verdict(self) -> Result<(), Fault> {
        if self.is_met() {
            return Ok(());
        }
        let keys: Vec<_> = self.wanted.iter().flat_map(|signed| &signed.keys).collect();
        let mut names: Vec<_> = keys.iter().map(|key| key.name()).collect();
        names.dedup();
        let left_out = names.len().saturating_sub(MAX_TOLD);
        names.truncate(MAX_TOLD);
        let mut keys = names.join(", ");
        if left_out > 0 {
            keys.push_str(&format!(" and {left_out} more"));
        }
        let digests: Vec<_> = self
            .looked_at
            .iter()
            .map(|looked| looked.digest.to_string())
            .collect();
        let digests = digests.join(" or ");
        let mut happened = match self.signatures {
            0 => format!("no signature is attached to {digests}; one by {keys} is needed"),
            n => format!("of {n} signatures attached to {digests} none fits (tried: {keys})"),
        };
        for misfit in self.misfits.iter().take(MAX_TOLD) {
            happened.push_str("; ");
            happened.push_str(misfit);
        }
        let more = self.misfits.len().saturating_sub(MAX_TOLD);
        if more > 0 {
            happened.push_str(&format!("; and {more} more"));
        }
        let not_shown: usize = self.looked_at.iter().map(|looked| looked.left_out).sum();
        if not_shown > 0 {
            happened.push_str(&format!("; {not_shown} more were not looked at"));
        }
        Err(Fault::new(
            Reason::VerificationFailed,
            self.asked,
            happened,
            "sign the image with the policy's key (cosign sign --key, and with cosign 3 \
             --new-bundle-format=false --use-signing-config=false), or correct the policy",
        ))
    }
}

impl Signed {
    /// Whether a signature is by one of the keys, and for this image.
    fn fits(
        &self,
        payload: &[u8],
        signature: &str,
        reference: &Reference,
        digest: &Digest,
    ) -> Result<(), String> {
        let signature = BASE64_STANDARD
            .decode(signature.trim())
            .map_err(|_| "it is not base64".to_owned())?;
        // Nothing of the payload is looked at before it is known to be by somebody who is trusted.
        if !self.keys.iter().any(|key| key.made(&signature, payload)) {
            return Err("it was made by none of the keys".to_owned());
        }
        let payload = Payload::parse(payload)?;
        if payload.digest != *digest {
            return Err(format!("it is for the digest {}", payload.digest));
        }
        self.identity.accepts(reference, &payload.reference)
    }
}
