//! The Secrets, watched.

use std::{path::Path, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::{StreamExt as _, stream::select_all};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{WatchStreamExt as _, reflector, reflector::Store, watcher},
};
use tokio::sync::watch as channel;

use super::{PullSecrets, merge::merge};

/// How long the first answer of the API server is waited for before catalogs are pulled without it: a
/// controller that may not read Secrets works all the same.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Where credentials come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The namespace and name of a Secret.
    pub global: Option<(String, String)>,
    /// The namespace and name of the pod's ServiceAccount.
    pub account: Option<(String, String)>,
}

impl Sources {
    /// The ServiceAccount whose token this file holds, by the token's subject. The token is not verified: it
    /// says who we are to the API server, which does.
    pub fn account_of(token: &Path) -> Option<(String, String)> {
        #[derive(serde::Deserialize)]
        struct Claims {
            sub: String,
        }
        let token = std::fs::read_to_string(token).ok()?;
        let payload = token.trim().split('.').nth(1)?;
        let payload = BASE64_URL_SAFE_NO_PAD
            .decode(payload.trim_end_matches('='))
            .ok()?;
        let Claims { sub } = serde_json::from_slice(&payload).ok()?;
        let (namespace, name) = sub.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        Some((namespace.to_owned(), name.to_owned()))
    }
}

/// Watches for as long as the returned channel has receivers. The channel's first value is what the API server
/// has, or nothing where it does not say within seconds.
pub async fn watch(client: Client, sources: Sources) -> channel::Receiver<PullSecrets> {
    let (sender, receiver) = channel::channel(PullSecrets::default());
    if sources == Sources::default() {
        // The sender goes, and the receiver keeps what there is: nothing.
        return receiver;
    }
    let (first, first_said) = tokio::sync::oneshot::channel();
    tokio::spawn(run(client, sources, sender, first));
    let _ = tokio::time::timeout(FIRST_ANSWER, first_said).await;
    receiver
}

/// What is watched, and what it came to so far.
struct Watched {
    global: Option<Store<Secret>>,
    account: Option<Store<ServiceAccount>>,
    namespace: Option<Store<Secret>>,
}

async fn run(
    client: Client,
    sources: Sources,
    sender: channel::Sender<PullSecrets>,
    first: tokio::sync::oneshot::Sender<()>,
) {
    let mut changes = Vec::new();
    let mut watched = Watched {
        global: None,
        account: None,
        namespace: None,
    };
    if let Some((namespace, name)) = &sources.global {
        let (store, stream) = secrets(Api::namespaced(client.clone(), namespace), named(name));
        watched.global = Some(store);
        changes.push(stream);
    }
    if let Some((namespace, name)) = &sources.account {
        let (store, writer) = reflector::store();
        let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        let stream = watcher(api, named(name)).default_backoff().reflect(writer);
        watched.account = Some(store);
        changes.push(
            stream
                .filter_map(async |event| logged(event, "ServiceAccount"))
                .boxed(),
        );
        let (store, stream) = secrets(Api::namespaced(client, namespace), watcher::Config::default());
        watched.namespace = Some(store);
        changes.push(stream);
    }
    let mut first = Some(first);
    let mut changes = select_all(changes);
    while changes.next().await.is_some() {
        let Some(secrets) = watched.all() else { continue };
        sender.send_if_modified(|old| std::mem::replace(old, secrets.clone()) != secrets);
        if let Some(first) = first.take() {
            // Nobody waits any more, if it took long.
            let _ = first.send(());
        }
        if sender.is_closed() {
            return;
        }
    }
}

fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

type Changes = futures_util::stream::BoxStream<'static, ()>;

/// Secrets without what is no credential for a registry.
fn secrets(api: Api<Secret>, config: watcher::Config) -> (Store<Secret>, Changes) {
    let (store, writer) = reflector::store();
    let stream = watcher(api, config)
        .default_backoff()
        .modify(|secret: &mut Secret| {
            secret.managed_fields_mut().clear();
            secret.annotations_mut().clear();
            if let Some(data) = &mut secret.data {
                data.retain(|key, _| key.starts_with(".docker"));
            }
        });
    let stream = stream.reflect(writer);
    (
        store,
        stream.filter_map(async |event| logged(event, "Secret")).boxed(),
    )
}

fn logged<K>(event: watcher::Result<watcher::Event<K>>, what: &str) -> Option<()> {
    match event {
        // What is listed is not complete before the last one.
        Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => None,
        Ok(_) => Some(()),
        Err(error) => {
            tracing::warn!(%error, "cannot watch the {} with pull secrets; it is tried again", what);
            None
        }
    }
}

impl Watched {
    /// None: not all was listed yet.
    fn all(&self) -> Option<PullSecrets> {
        fn listed<K: kube::Resource<DynamicType = ()> + Clone + 'static>(
            store: Option<&Store<K>>,
        ) -> Option<Vec<Arc<K>>> {
            match store {
                None => Some(Vec::new()),
                Some(store) => {
                    use futures_util::FutureExt as _;
                    store.wait_until_ready().now_or_never()?.ok()?;
                    Some(store.state())
                }
            }
        }
        let mut secrets = listed(self.global.as_ref())?;
        let accounts = listed(self.account.as_ref())?;
        let own = listed(self.namespace.as_ref())?;
        let names = accounts
            .iter()
            .flat_map(|account| account.image_pull_secrets.iter().flatten());
        // In the account's order: of several that name a registry the last one counts.
        let own =
            names.filter_map(|named| own.iter().find(|secret| secret.name_any() == named.name).cloned());
        secrets.extend(own);
        Some(merge(secrets.iter().map(|secret| &**secret)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_the_subject_of_the_token() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (payload, account) in [
            (
                r#"{"sub":"system:serviceaccount:olm:catalogd"}"#,
                Some(("olm", "catalogd")),
            ),
            (r#"{"sub":"system:node:x"}"#, None),
            ("{}", None),
            ("no json", None),
        ] {
            let token = format!("e30.{}.sig\n", BASE64_URL_SAFE_NO_PAD.encode(payload));
            std::fs::write(file.path(), token).unwrap();
            let expected = account.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
            assert_eq!(Sources::account_of(file.path()), expected, "{payload}");
        }
        std::fs::write(file.path(), "nothing").unwrap();
        assert_eq!(Sources::account_of(file.path()), None);
        assert_eq!(Sources::account_of(Path::new("/nowhere")), None);
    }
}
