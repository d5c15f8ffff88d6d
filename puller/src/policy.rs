//! Which images may be pulled: `policy.json` of the containers ecosystem, as
//! containers-policy.json(5) describes it.
//!
//! Bytes in, decisions out. [`Policy::parse`] reads the file, [`Policy::ask`] says what an image needs, and
//! the [`Check`] that it answers with is shown signatures until all that is needed is there. Nobody here
//! speaks to a registry; [`source`] alone reads files.
//!
//! | file | what it does |
//! |---|---|
//! | `file`, `object` | the JSON, strictly |
//! | `scope` | which requirements count for a reference |
//! | `identity` | what a signature must say of the image's name |
//! | `key` | public keys, and whether a signature is theirs |
//! | `attached`, `payload` | cosign's signatures as a registry has them |
//! | `check` | requirements against signatures, and the message when they do not fit |
//! | `source` | the file and its keys on disk, read again as they change |
//!
//! The signatures are verified with aws-lc-rs, which TLS brings already. The sigstore crate does the same
//! and far more; it was measured at 440 crates in its closure, which would add minutes to each build for the
//! parts (Fulcio, Rekor, TUF) that are not supported here.

mod attached;
mod check;
mod file;
mod identity;
mod key;
mod object;
pub(crate) mod payload;
mod scope;
pub mod source;

use std::{collections::BTreeMap, path::Path, sync::Arc};

pub use attached::{Attached, AttachedSignature, MAX_SIGNATURES, signature_tag};
pub use check::Check;
pub use source::Source;

use crate::{
    domain::{Reason, Reference},
    error::Fault,
};
use identity::SignedIdentity;
use key::Key;

/// A parsed policy, its keys with it.
#[derive(Debug)]
pub struct Policy {
    /// The file, for messages.
    path: String,
    default: Vec<Requirement>,
    /// The scopes of the transport `docker`; the empty one is the transport's default.
    scopes: BTreeMap<String, Vec<Requirement>>,
}

/// One requirement. All of a scope have to hold.
#[derive(Debug)]
enum Requirement {
    /// `insecureAcceptAnything`.
    Accept,
    /// `reject`.
    Reject,
    /// `sigstoreSigned` with public keys.
    Signed(Arc<Signed>),
    /// One that can't be verified here, and what it is.
    Unsupported(String),
}

/// A signature by any of these keys, for this identity.
#[derive(Debug)]
struct Signed {
    keys: Vec<Key>,
    identity: SignedIdentity,
}

/// Reads a key's file; an error says why that can't be done.
pub type ReadKey<'a> = &'a mut dyn FnMut(&Path) -> Result<Vec<u8>, String>;

impl Policy {
    /// Parses the file. `path` is its name in messages. A key that can't be used does no harm before it is
    /// needed.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn parse(path: &Path, json: &[u8], read_key: ReadKey<'_>) -> Result<Self, String> {
        let file::Parsed { default, scopes } = file::parse(json, read_key)?;
        Ok(Self {
            path: path.display().to_string(),
            default,
            scopes,
        })
    }

    /// What the policy wants of an image. Needs no network, so that what is rejected is never asked for.
    ///
    /// # Errors
    /// `blocked by policy`: it is rejected, or can't be accepted by this puller.
    pub fn ask(&self, reference: &Reference) -> Result<Check, Fault> {
        let (scope, requirements) = self.requirements(reference);
        let asked = format!("the policy {}, {scope}, asked for {reference}", self.path);
        let blocked = |happened: String, remedy: &str| {
            Err(Fault::new(Reason::BlockedByPolicy, &asked, happened, remedy))
        };
        let mut wanted = Vec::new();
        for requirement in requirements {
            match requirement {
                Requirement::Accept => {}
                Requirement::Reject => {
                    return blocked(
                        "rejects it".to_owned(),
                        "pull another image, or let the policy accept this one",
                    );
                }
                Requirement::Unsupported(what) => {
                    return blocked(
                        format!("needs {what}, which this puller can't verify"),
                        "require sigstoreSigned with a public key instead",
                    );
                }
                Requirement::Signed(signed) => {
                    if let Some(problem) = signed.keys.iter().find_map(Key::problem) {
                        return blocked(
                            format!("needs a key that can't be used: {problem}"),
                            "give it a public key in PEM, as cosign.pub is",
                        );
                    }
                    wanted.push(Arc::clone(signed));
                }
            }
        }
        Ok(Check::new(asked, reference.clone(), wanted))
    }

    /// The requirements of the most specific scope, and what it is called.
    fn requirements(&self, reference: &Reference) -> (String, &[Requirement]) {
        scope::candidates(reference)
            .find_map(|scope| {
                let requirements = self.scopes.get(&scope)?;
                let name = match scope.as_str() {
                    "" => "the default of docker".to_owned(),
                    scope => format!("scope {scope:?}"),
                };
                Some((name, requirements.as_slice()))
            })
            .unwrap_or_else(|| ("the global default".to_owned(), &self.default))
    }
}

#[cfg(test)]
mod tests;
