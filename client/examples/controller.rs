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
    runtime::{
        Controller,
        controller::Action,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use puller_client::{Client, DEFAULT_ENDPOINT, Error, Filter, Informer, api};

const IMAGE: &str = "puller.example.com/image";
const STATE: &str = "puller.example.com/state";
/// Claims are renewed at this pace, and end by themselves some time after their ConfigMap is gone.
const RENEW: Duration = Duration::from_secs(5 * 60);
const CLAIM_TTL_SECONDS: i64 = 15 * 60;

struct Context {
    configmaps: Api<ConfigMap>,
    puller: Client,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let endpoint = env::var("PULLER_ENDPOINT").unwrap_or_else(|_| DEFAULT_ENDPOINT.to_owned());
    let puller = Client::connect(&endpoint)?;
    let configmaps = Api::default_namespaced(kube::Client::try_default().await?);
    let controller = Controller::new(configmaps.clone(), watcher::Config::default());

    let informer = Informer::start(puller.clone(), Filter::default());
    let (triggers, store) = (informer.triggers(), controller.store());
    let triggers = triggers.flat_map(move |id| stream::iter(concerned(&store, informer.get(&id).as_deref())));
    let context = Arc::new(Context { configmaps, puller });
    let reconciled = controller.reconcile_on(triggers).run(reconcile, retry, context);
    reconciled
        .for_each(|result| async move {
            if let Err(error) = result {
                eprintln!("{error}");
            }
        })
        .await;
    Ok(())
}

/// A claimant for each ConfigMap, so that an Image says whom it concerns.
fn claimant(configmap: &ConfigMap) -> String {
    format!(
        "{}/{}",
        configmap.namespace().unwrap_or_default(),
        configmap.name_any()
    )
}

/// The ConfigMaps that claim an Image. One that is gone may have concerned any of them.
fn concerned(store: &Store<ConfigMap>, image: Option<&api::Image>) -> Vec<ObjectRef<ConfigMap>> {
    let claims = |image: &api::Image, by: String| image.claims.iter().any(|claim| claim.claimant == by);
    let concerned =
        store.state_filter(|configmap| image.is_none_or(|image| claims(image, claimant(configmap))));
    concerned
        .iter()
        .map(|configmap| ObjectRef::from_obj(&**configmap))
        .collect()
}

async fn reconcile(configmap: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let Some(reference) = configmap.annotations().get(IMAGE) else {
        return Ok(Action::await_change());
    };
    let request = api::FetchRequest {
        wish: Some(api::Wish {
            reference: reference.clone(),
            ..Default::default()
        }),
        claimant: claimant(&configmap),
        claim_ttl: Some(prost_types::Duration {
            seconds: CLAIM_TTL_SECONDS,
            nanos: 0,
        }),
        ..Default::default()
    };
    let fetched = context.puller.fetch(request).await;
    let state = match &fetched {
        Ok(api::Image {
            content: Some(content),
            ..
        }) => format!("here: {}", content.path),
        Ok(image) => format!("{}: {}", image.phase().as_str_name(), image.message),
        Err(error) => error.to_string(),
    };
    // Only what is news is written: a write calls for another reconcile.
    if configmap.annotations().get(STATE) != Some(&state) {
        let patch = serde_json::json!({ "metadata": { "annotations": { STATE: state } } });
        let name = configmap.name_any();
        context
            .configmaps
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    Ok(match fetched {
        // What is wrong with the reference is not better later.
        Err(Error::InvalidArgument(_)) => Action::await_change(),
        Err(_) => Action::requeue(Duration::from_secs(5)),
        Ok(_) => Action::requeue(RENEW),
    })
}

fn retry(_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(5))
}
