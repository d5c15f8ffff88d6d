//! The objects, as the API server has them: read, marked, and told how they are.

use std::time::Duration;

use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::{Value, json};

use crate::{
    api::{ClusterCatalog, ClusterCatalogStatus, FINALIZER, NAME_LABEL},
    error::Error,
    status::{MAX_MESSAGE, happenings, shorten},
};

/// Longest that one request may take. A leader that ceases to lead has more time than this before another one
/// can begin to.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest note of an Event, in bytes, by the API server's validation.
const LONGEST_NOTE: usize = 1_000;
/// Longest value of a label, by the API server's validation.
const LONGEST_LABEL: usize = 63;

/// Whose name Events carry: that of catalogd's controller.
const CONTROLLER: &str = "catalogd-clustercatalog-controller";

/// The objects of one API server.
pub struct Objects {
    api: Api<ClusterCatalog>,
    recorder: Recorder,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    /// `identity`: who Events say they come from.
    pub fn new(client: Client, identity: &str) -> Self {
        let reporter = Reporter {
            controller: CONTROLLER.to_owned(),
            instance: Some(identity.to_owned()),
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            api: Api::all(client),
        }
    }

    /// The object as it is now; none: it is gone.
    ///
    /// # Errors
    /// The API server refused.
    pub async fn read(&self, name: &str) -> Result<Option<ClusterCatalog>, Error> {
        timed("read the ClusterCatalog", self.api.get_opt(name)).await
    }

    /// Gives the object our finalizer, or takes it, and its name as a label. None: it was so already.
    ///
    /// # Errors
    /// The API server refused, or somebody changed the object meanwhile.
    pub async fn mark(&self, catalog: &ClusterCatalog, hold: bool) -> Result<Option<ClusterCatalog>, Error> {
        let Some(patch) = mark(catalog, hold) else {
            return Ok(None);
        };
        let patch = Patch::Merge(json!({ "metadata": patch }));
        let (name, params) = (catalog.name(), PatchParams::default());
        match timed("mark the ClusterCatalog", self.api.patch(&name, &params, &patch)).await {
            Ok(catalog) => Ok(Some(catalog)),
            // Without the finalizer it goes at once.
            Err(Error::Api { source, .. }) if !hold && is_gone(&source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the status, and tells in Events what has changed.
    ///
    /// # Errors
    /// The API server refused, or somebody changed the object meanwhile.
    pub async fn write_status(
        &self,
        catalog: &ClusterCatalog,
        status: &ClusterCatalogStatus,
    ) -> Result<ClusterCatalog, Error> {
        let patch = json!({
            "metadata": { "resourceVersion": catalog.metadata.resource_version },
            "status": whole(status),
        });
        let name = catalog.name();
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let written = timed("write the status", self.api.patch_status(&name, &params, &patch)).await?;
        let old = catalog.status.clone().unwrap_or_default();
        for happening in happenings(&old, status) {
            let event = Event {
                type_: match happening.is_warning {
                    true => EventType::Warning,
                    false => EventType::Normal,
                },
                reason: happening.reason.to_owned(),
                note: Some(shorten_bytes(&happening.note, LONGEST_NOTE)),
                action: "Reconcile".to_owned(),
                secondary: None,
            };
            // What an Event says stands in the status too: one that is lost is no reason to fail.
            let subject = catalog.event_subject();
            let published = self.recorder.publish(&event, &subject);
            match tokio::time::timeout(PATIENCE, published).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::info!(catalog = %name, %error, "an Event is lost"),
                Err(_) => tracing::info!(catalog = %name, "an Event is lost: the API server did not answer"),
            }
        }
        Ok(written)
    }
}

impl ClusterCatalog {
    /// Whether it is the same object with the same spec.
    pub(super) fn is_as_it_was(&self, before: &Self) -> bool {
        self.metadata.uid == before.metadata.uid
            && self.generation() == before.generation()
            && self.is_deleting() == before.is_deleting()
    }
}

/// The metadata that is to be changed; none: nothing.
fn mark(catalog: &ClusterCatalog, hold: bool) -> Option<Value> {
    let name = catalog.name();
    let mut metadata = json!({ "resourceVersion": catalog.metadata.resource_version });
    let mut changes = false;
    if catalog.has_finalizer() != hold && !(hold && catalog.is_deleting()) {
        let mut finalizers: Vec<&String> = catalog
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .collect();
        let ours = FINALIZER.to_owned();
        if hold {
            finalizers.push(&ours);
        }
        metadata["finalizers"] = json!(finalizers);
        changes = true;
    }
    let label = catalog.labels().get(NAME_LABEL);
    // A longer name can't be a label's value.
    if label != Some(&name) && name.len() <= LONGEST_LABEL && !catalog.is_deleting() {
        metadata["labels"] = json!({ NAME_LABEL: name });
        changes = true;
    }
    changes.then_some(metadata)
}

/// As a merge patch: what is not there any more is null.
fn whole(status: &ClusterCatalogStatus) -> Value {
    let mut value = json!({ "resolvedSource": null, "urls": null, "lastUnpacked": null, "conditions": null });
    if let (Value::Object(all), Ok(Value::Object(set))) = (&mut value, serde_json::to_value(status)) {
        all.extend(set);
    }
    value
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

async fn timed<T>(what: &'static str, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(Error::api(what)),
        Err(_) => Err(Error::Silence {
            what,
            patience: PATIENCE,
        }),
    }
}

fn shorten_bytes(text: &str, longest: usize) -> String {
    let mut text = shorten(text, longest.min(MAX_MESSAGE));
    while text.len() > longest {
        text.pop();
    }
    text
}
