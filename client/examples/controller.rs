//! A controller: it keeps the image that a ConfigMap names on the volume, and says how that is going.
//!
//! ```text
//! kubectl annotate configmap demo puller.example.com/image=docker.io/library/busybox:1.36
//! kubectl get configmap demo -o jsonpath='{.metadata.annotations.puller\.example\.com/state}'
//! ```
//!
//! It never waits for a pull: a reconcile fetches, writes down what is the case now, and ends; the
//! informer's triggers say when to look again. Nothing is kept between two reconciles.

use std::{env, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{Controller, controller::Action, reflector::ObjectRef, reflector::Store, watcher},
};
use puller_client::{Client, DEFAULT_ENDPOINT, Error, Filter, Informer, api};
use serde_json::json;

const IMAGE: &str = "puller.example.com/image";
const STATE: &str = "puller.example.com/state";
/// Claims are renewed at this pace, and end by themselves when their ConfigMap is long gone.
const RENEW_EVERY: Duration = Duration::from_secs(5 * 60);
const CLAIM_TTL: Duration = Duration::from_secs(15 * 60);
const RETRY_AFTER: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let endpoint = env::var("PULLER_ENDPOINT").unwrap_or_else(|_| DEFAULT_ENDPOINT.to_owned());
    let puller = Client::connect(&endpoint)?;
    let configmaps = Api::default_namespaced(kube::Client::try_default().await?);

    let controller = Controller::new(configmaps.clone(), watcher::Config::default());
    let informer = Informer::start(puller.clone(), Filter::default());
    let (triggers, store) = (informer.triggers(), controller.store());
    let triggers = triggers.flat_map(move |id| stream::iter(concerned(&store, informer.get(&id).as_deref())));
    controller
        .reconcile_on(triggers)
        .run(
            reconcile,
            |_, _, _| Action::requeue(RETRY_AFTER),
            Arc::new((puller, configmaps)),
        )
        .for_each(async |result| {
            result.map_err(|error| eprintln!("{error}")).ok();
        })
        .await;
    Ok(())
}

/// A claimant for each ConfigMap, so that an Image says whom it concerns.
fn claimant(configmap: &ConfigMap) -> String {
    let namespace = configmap.namespace().unwrap_or_default();
    format!("{namespace}/{}", configmap.name_any())
}

/// The ConfigMaps that claim an Image. One that is gone may have concerned any of them.
fn concerned(store: &Store<ConfigMap>, image: Option<&api::Image>) -> Vec<ObjectRef<ConfigMap>> {
    let claims = |image: &api::Image, name: &str| image.claims.iter().any(|claim| claim.claimant == name);
    let is_concerned = |configmap: &ConfigMap| image.is_none_or(|image| claims(image, &claimant(configmap)));
    let concerned = store.state_filter(is_concerned).into_iter();
    concerned
        .map(|configmap| ObjectRef::from_obj(&*configmap))
        .collect()
}

async fn reconcile(
    configmap: Arc<ConfigMap>,
    context: Arc<(Client, Api<ConfigMap>)>,
) -> Result<Action, kube::Error> {
    let (puller, configmaps) = &*context;
    let Some(reference) = configmap.annotations().get(IMAGE) else {
        return Ok(Action::await_change());
    };
    let wish = api::Wish {
        reference: reference.clone(),
        ..Default::default()
    };
    let request = api::FetchRequest {
        wish: Some(wish),
        claimant: claimant(&configmap),
        claim_ttl: CLAIM_TTL.try_into().ok(),
        ..Default::default()
    };
    let (state, action) = match puller.fetch(request).await {
        Ok(image) => (describe(&image), Action::requeue(RENEW_EVERY)),
        // The same request is as wrong later.
        Err(error @ Error::InvalidArgument(_)) => (error.to_string(), Action::await_change()),
        Err(error) => (error.to_string(), Action::requeue(RETRY_AFTER)),
    };
    // Only what is news is written, since a write calls for another reconcile.
    if configmap.annotations().get(STATE) != Some(&state) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { STATE: state } } }));
        let name = configmap.name_any();
        configmaps.patch(&name, &PatchParams::default(), &patch).await?;
    }
    Ok(action)
}

fn describe(image: &api::Image) -> String {
    match &image.content {
        Some(content) => format!("here: {}", content.path),
        None => format!("{}: {}", image.phase().as_str_name(), image.message),
    }
}
