//! Requests: each part checked, and named when it is wrong.

use std::time::Duration;

use puller_api::v1;
use tonic::Status;

use super::status::invalid;
use crate::{
    domain::{Digest, ImageId, Platform, Scope, Secret, Selection, UnpackOptions, Wish},
    machine::ClaimRequest,
    registry::Routes,
};

/// Longest name of a claimant or scope: what Kubernetes allows a name.
const MAX_NAME: usize = 253;

/// Digests that a claimant may say it still reads.
const MAX_IN_USE: usize = 1000;

/// A Fetch, checked.
pub(super) struct Fetch {
    pub(super) wish: Wish,
    pub(super) claim: ClaimRequest,
    pub(super) credentials: Option<Secret<Vec<u8>>>,
}

pub(super) fn fetch(routes: &Routes, request: v1::FetchRequest) -> Result<Fetch, Status> {
    let v1::FetchRequest {
        wish: asked,
        claimant,
        credentials,
        max_age,
        claim_ttl,
        in_use,
    } = request;
    let claimant = name("claimant", claimant)?;
    // Secrets that came without the name of a scope are the claimant's own.
    let default_scope = credentials
        .as_ref()
        .map_or_else(String::new, |_| claimant.clone());
    let wish = wish(routes, asked, default_scope)?;
    if in_use.len() > MAX_IN_USE {
        let problem = format!("it has {} digests; {MAX_IN_USE} are allowed", in_use.len());
        return Err(invalid("in_use", &problem));
    }
    let in_use = in_use
        .iter()
        .map(|digest| {
            digest
                .parse::<Digest>()
                .map_err(|error| invalid("in_use", &error))
        })
        .collect::<Result<_, _>>()?;
    if credentials.is_some() && wish.scope.is_daemon() {
        let problem =
            "the empty scope is the puller's own credentials, which can't be set by Fetch; name another";
        return Err(invalid("wish.credential_scope", &problem));
    }
    Ok(Fetch {
        claim: ClaimRequest {
            claimant,
            max_age: duration("max_age", max_age)?,
            ttl: duration("claim_ttl", claim_ttl)?,
            in_use,
        },
        credentials: credentials.map(|credentials| Secret::new(credentials.dockerconfigjson)),
        wish,
    })
}

pub(super) fn get(routes: &Routes, request: v1::GetRequest) -> Result<ImageId, Status> {
    match request.by {
        Some(v1::get_request::By::Id(id)) => by_id(&id),
        Some(v1::get_request::By::Wish(asked)) => Ok(wish(routes, Some(asked), String::new())?.id()),
        None => Err(neither()),
    }
}

pub(super) fn release(routes: &Routes, request: v1::ReleaseRequest) -> Result<(ImageId, String), Status> {
    let id = match request.by {
        Some(v1::release_request::By::Id(id)) => by_id(&id),
        Some(v1::release_request::By::Wish(asked)) => Ok(wish(routes, Some(asked), String::new())?.id()),
        None => Err(neither()),
    }?;
    Ok((id, name("claimant", request.claimant)?))
}

fn neither() -> Status {
    Status::invalid_argument("neither id nor wish is given; one is needed")
}

fn by_id(id: &str) -> Result<ImageId, Status> {
    id.parse().map_err(|error| invalid("id", &error))
}

fn wish(routes: &Routes, wish: Option<v1::Wish>, default_scope: String) -> Result<Wish, Status> {
    let Some(v1::Wish {
        reference,
        platform,
        selection,
        unpack,
        credential_scope,
    }) = wish
    else {
        return Err(Status::invalid_argument(
            "wish: it is missing; it needs at least a reference",
        ));
    };
    let parsed = routes
        .reference(&reference)
        .map_err(|problem| invalid("wish.reference", &problem))?;
    let platform = match platform {
        Some(v1::Platform {
            os,
            architecture,
            variant,
        }) => {
            Platform::new(&os, &architecture, &variant).map_err(|error| invalid("wish.platform", &error))?
        }
        None => Platform::of_this_machine(),
    };
    let selection = match selection.and_then(|selection| selection.kind) {
        Some(v1::selection::Kind::Path(path)) => {
            Selection::path(&path).map_err(|error| invalid("wish.selection.path", &error))?
        }
        Some(v1::selection::Kind::Label(label)) => {
            Selection::label(&label).map_err(|error| invalid("wish.selection.label", &error))?
        }
        None => Selection::All,
    };
    let v1::UnpackOptions {
        refuse_escaping_links,
    } = unpack.unwrap_or_default();
    let scope = match credential_scope {
        Some(scope) if scope.is_empty() => scope,
        Some(scope) => name("wish.credential_scope", scope)?,
        None => default_scope,
    };
    Ok(Wish {
        asked: reference,
        reference: parsed,
        platform,
        selection,
        unpack: UnpackOptions {
            refuse_escaping_links,
        },
        scope: Scope(scope),
    })
}

fn name(part: &str, name: String) -> Result<String, Status> {
    if name.is_empty() {
        return Err(invalid(part, &"it is missing"));
    }
    if name.len() > MAX_NAME || name.chars().any(char::is_control) {
        let problem = format!("it is longer than {MAX_NAME} bytes or holds a control character");
        return Err(invalid(part, &problem));
    }
    Ok(name)
}

fn duration(part: &str, duration: Option<prost_types::Duration>) -> Result<Option<Duration>, Status> {
    duration
        .map(|duration| {
            Duration::try_from(duration).map_err(|_| invalid(part, &"it is negative or out of range"))
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn request(reference: &str) -> v1::FetchRequest {
        v1::FetchRequest {
            wish: Some(v1::Wish {
                reference: reference.into(),
                ..v1::Wish::default()
            }),
            claimant: "me".into(),
            ..v1::FetchRequest::default()
        }
    }

    fn refusal(change: impl FnOnce(&mut v1::FetchRequest)) -> String {
        let mut request = request("example.com/a:1");
        change(&mut request);
        let status = fetch(&Routes::default(), request).err().unwrap();
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    }

    #[test]
    fn the_scope_of_credentials_is_the_claimant_unless_it_is_named() {
        let plain = fetch(&Routes::default(), request("example.com/a:1"))
            .ok()
            .unwrap();
        assert!(plain.wish.scope.is_daemon());
        let credentials = Some(v1::Credentials {
            dockerconfigjson: b"{}".to_vec(),
        });
        let own = fetch(
            &Routes::default(),
            v1::FetchRequest {
                credentials: credentials.clone(),
                ..request("example.com/a:1")
            },
        )
        .ok()
        .unwrap();
        assert_eq!(own.wish.scope, Scope("me".into()));
        let mut named = request("example.com/a:1");
        named.credentials = credentials;
        named.wish.as_mut().unwrap().credential_scope = Some("team".into());
        assert_eq!(
            fetch(&Routes::default(), named).ok().unwrap().wish.scope,
            Scope("team".into())
        );
    }

    #[test]
    fn a_refusal_names_the_part() {
        assert!(refusal(|r| r.wish = None).starts_with("wish: "));
        assert!(refusal(|r| r.claimant.clear()).starts_with("claimant: "));
        assert!(refusal(|r| r.claimant = "x".repeat(254)).starts_with("claimant: "));
        assert!(refusal(|r| r.in_use = vec!["nope".into()]).starts_with("in_use: "));
        let negative = prost_types::Duration {
            seconds: -1,
            nanos: 0,
        };
        assert!(refusal(|r| r.max_age = Some(negative)).starts_with("max_age: "));
        assert!(refusal(|r| r.claim_ttl = Some(negative)).starts_with("claim_ttl: "));
        assert!(refusal(|r| r.wish.as_mut().unwrap().reference.clear()).starts_with("wish.reference: "));
        let platform = v1::Platform {
            os: "linux".into(),
            ..v1::Platform::default()
        };
        assert!(
            refusal(|r| r.wish.as_mut().unwrap().platform = Some(platform)).starts_with("wish.platform: ")
        );
        let path = v1::Selection {
            kind: Some(v1::selection::Kind::Path("../x".into())),
        };
        assert!(
            refusal(|r| r.wish.as_mut().unwrap().selection = Some(path)).starts_with("wish.selection.path: ")
        );
        let text = refusal(|r| {
            r.credentials = Some(v1::Credentials {
                dockerconfigjson: b"{}".to_vec(),
            });
            r.wish.as_mut().unwrap().credential_scope = Some(String::new());
        });
        assert!(text.starts_with("wish.credential_scope: "));
    }
}
