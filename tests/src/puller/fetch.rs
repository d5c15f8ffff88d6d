//! A Fetch, built up like its sentence.

use std::{future::IntoFuture, pin::Pin, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use puller_api::v1::{
    Credentials, FetchRequest, Image, Platform, Selection, UnpackOptions, Wish, puller_client::PullerClient,
    selection::Kind,
};
use serde_json::json;
use tonic::{Status, transport::Channel};

/// Who fetches unless the scenario names somebody.
const CLAIMANT: &str = "scenario";

/// A Fetch about to be sent: `.await` it, or [`send`](Fetch::send) it where it may be refused.
#[derive(Debug, Clone)]
#[must_use = "await it"]
pub struct Fetch {
    client: PullerClient<Channel>,
    request: FetchRequest,
}

impl Fetch {
    pub(crate) fn new(client: PullerClient<Channel>, reference: &str) -> Self {
        let request = FetchRequest {
            wish: Some(Wish {
                reference: reference.to_owned(),
                ..Wish::default()
            }),
            claimant: CLAIMANT.to_owned(),
            ..FetchRequest::default()
        };
        Self { client, request }
    }

    fn wish(&mut self) -> &mut Wish {
        self.request.wish.get_or_insert_default()
    }

    /// Asks in this claimant's name.
    pub fn claimant(mut self, claimant: &str) -> Self {
        self.request.claimant = claimant.to_owned();
        self
    }

    /// Sends user and password for a registry.
    pub fn login(self, host: &str, user: &str, password: &str) -> Self {
        let auth = BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.dockerconfigjson(&json!({ "auths": { host: { "auth": auth } } }).to_string())
    }

    /// Sends credentials, in the form of a dockerconfigjson.
    pub fn dockerconfigjson(mut self, dockerconfigjson: &str) -> Self {
        self.request.credentials = Some(Credentials {
            dockerconfigjson: dockerconfigjson.as_bytes().to_vec(),
        });
        self
    }

    /// Names the credential scope.
    pub fn scope(mut self, scope: &str) -> Self {
        self.wish().credential_scope = Some(scope.to_owned());
        self
    }

    /// Wants the tag checked if that was longer ago.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.request.max_age = Some(age.try_into().expect("a duration that fits"));
        self
    }

    /// Lets the claim end by itself.
    pub fn claim_ttl(mut self, ttl: Duration) -> Self {
        self.request.claim_ttl = Some(ttl.try_into().expect("a duration that fits"));
        self
    }

    /// Still reads the content of this manifest.
    pub fn in_use(mut self, digest: &str) -> Self {
        self.request.in_use.push(digest.to_owned());
        self
    }

    /// Wants another platform than this machine's.
    pub fn platform(mut self, os: &str, architecture: &str) -> Self {
        self.wish().platform = Some(Platform {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: String::new(),
        });
        self
    }

    /// Wants only this path of the image.
    pub fn path(mut self, path: &str) -> Self {
        self.wish().selection = Some(Selection {
            kind: Some(Kind::Path(path.to_owned())),
        });
        self
    }

    /// Wants only the path that this label names.
    pub fn path_of_label(mut self, label: &str) -> Self {
        self.wish().selection = Some(Selection {
            kind: Some(Kind::Label(label.to_owned())),
        });
        self
    }

    /// Wants no links that lead out of the tree.
    pub fn refuse_escaping_links(mut self) -> Self {
        self.wish().unpack = Some(UnpackOptions {
            refuse_escaping_links: true,
        });
        self
    }

    /// Sends it.
    ///
    /// # Errors
    /// The puller refuses it.
    pub async fn send(mut self) -> Result<Image, Status> {
        let answer = self.client.fetch(self.request).await?.into_inner();
        Ok(answer.image.expect("an answer has an Image"))
    }

    /// Sends it where it is to be refused, and returns how it was.
    ///
    /// # Panics
    /// The puller accepts it.
    pub async fn refused(self) -> Status {
        let reference = self
            .request
            .wish
            .as_ref()
            .map(|wish| wish.reference.clone())
            .unwrap_or_default();
        match self.send().await {
            Err(status) => status,
            Ok(image) => panic!("Fetch {reference:?} was accepted: {image:#?}"),
        }
    }
}

impl IntoFuture for Fetch {
    type Output = Image;
    type IntoFuture = Pin<Box<dyn Future<Output = Image> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            self.send()
                .await
                .unwrap_or_else(|status| panic!("Fetch: {status}"))
        })
    }
}
