//! The controller's life: what is started in which order, and what ends when.

mod known;
mod metrics;
mod readiness;
mod serving;
mod sweep;

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, future::OptionFuture, stream};
use kube::{
    Api, Client, Config, ResourceExt as _,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        Controller, WatchStreamExt as _,
        controller::Action,
        reflector::{self, ObjectRef},
        watcher,
    },
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, mpsc},
    task::JoinSet,
};
use tokio_stream::wrappers::{UnboundedReceiverStream, WatchStream};
use tokio_util::sync::CancellationToken;

use self::{known::Known, metrics::Metrics, readiness::Readiness, serving::Serving, sweep::Sweep};
use crate::{
    api::ClusterCatalog,
    error::Error,
    flags::Flags,
    leader::{Election, Leadership, Timing},
    puller::{Puller, concerns},
    reconcile::{Objects, Reconciler, Settings},
    secrets::{self, Sources},
    server,
    store::{CacheDirectory, Store},
    tls::{Profile, ProfileFlags, ServerTls},
};

/// The Lease's name: catalogd's, so that the two never lead side by side.
pub(crate) const LEASE: &str = "catalogd-operator-lock";
/// Longest that reconciles which are under way at the end are waited for. What they leave undone is done by the
/// next leader.
const LAST_RECONCILES: Duration = Duration::from_secs(5);

/// Runs until it is told to end.
///
/// # Errors
/// Something can't be started: an address, a file, the cache directory or a flag is not right. Once it runs,
/// neither an API server nor a puller that is away ends it.
pub async fn run(flags: &Flags) -> Result<(), Error> {
    for (flag, told) in flags.obsolete.told() {
        tracing::warn!(flag, "this flag means nothing here: {told}");
    }
    if flags.feature_gates.graphql {
        tracing::warn!("the feature gate GraphQLCatalogQueries is on, but there is no GraphQL yet");
    }
    let stop = stopped_by_signals()?;
    let tls = tls(flags).await?;
    let directory = CacheDirectory::take(&flags.cache_dir)?;
    let store = Arc::new(Store::open(&directory)?);
    let client = client(flags).await?;

    let election = flags
        .leader_elect
        .then(|| election(flags, &client, directory.identity()));
    let leadership = election
        .as_ref()
        .map_or_else(Leadership::alone, Election::leadership);
    let (reader, writer) = reflector::store();
    let objects = Known(reader.clone());
    let metrics = Metrics::new(objects.clone(), leadership.clone());

    // Servers first: probes are answered, and clients told why there is nothing yet, also without an API server.
    let mut servers = JoinSet::new();
    let servers_stop = CancellationToken::new();
    let serving = Serving {
        store: Arc::clone(&store),
        leadership: leadership.clone(),
        objects: objects.clone(),
    };
    let router = server::catalogs(Arc::new(serving), flags.feature_gates.metas, &metrics.requests);
    let listener = listen(flags.catalogs_server_addr)?;
    spawn_https(&mut servers, listener, router, &tls, &servers_stop);
    if let Some(address) = flags.metrics_bind_address.0 {
        let rendered = metrics.clone();
        let router = server::metrics(client.clone(), move || rendered.render());
        spawn_https(&mut servers, listen(address)?, router, &tls, &servers_stop);
    }
    let readiness = Readiness::new(objects.clone(), Arc::clone(&store));
    let (listener, end) = (
        listen(flags.health_probe_bind_address)?,
        servers_stop.clone().cancelled_owned(),
    );
    servers.spawn(server::http(
        listener,
        server::probes(move || readiness.check()),
        end,
    ));
    let (followed, end) = (tls, servers_stop.clone().cancelled_owned());
    tokio::spawn(async move { followed.follow(end).await });

    let account = Sources::account_of(&flags.service_account_token);
    if account.is_none() {
        tracing::info!(
            token = %flags.service_account_token.display(),
            "this token names no ServiceAccount: no imagePullSecrets are read"
        );
    }
    let sources = Sources {
        global: flags.global_pull_secret.clone(),
        account,
    };
    let secrets = secrets::watch(client.clone(), sources).await;
    let connection = puller_client::Client::connect(&flags.puller_endpoint)
        .map_err(|error| Error::Config(format!("--puller-endpoint: {error}")))?;
    let puller = Puller::new(connection, secrets.clone());

    let reconciler = Arc::new(Reconciler::new(
        Objects::new(client.clone(), directory.identity()),
        puller.clone(),
        Arc::clone(&store),
        leadership.clone(),
        Settings {
            volume: flags.puller_volume.clone(),
            external_url: format!("https://{}", flags.external_address),
            progress_interval: flags.progress_interval,
        },
    ));
    let sweep_wanted = Arc::new(Notify::new());
    let (again, to_look_at) = mpsc::unbounded_channel();
    let sweep = Sweep {
        objects: objects.clone(),
        store,
        puller: puller.clone(),
        reconciler: Arc::clone(&reconciler),
        interval: flags.gc_interval,
        wanted: Arc::clone(&sweep_wanted),
        again,
    };
    let sweep = tokio::spawn(sweep.run(stop.clone()));
    let election_stop = CancellationToken::new();
    let election = election.map(|election| tokio::spawn(election.run(election_stop.clone())));

    let changes = watcher(Api::<ClusterCatalog>::all(client), watcher::Config::default())
        .default_backoff()
        .modify(slim)
        .reflect(writer)
        .inspect(move |event| {
            if matches!(event, Ok(watcher::Event::Delete(_) | watcher::Event::InitDone)) {
                sweep_wanted.notify_one();
            }
        })
        .applied_objects();
    let triggers = puller.triggers();
    let of_images = triggers.flat_map(move |id| {
        let image = puller.image(&id);
        let concerned = reader.state().into_iter();
        let concerned = concerned.filter(move |catalog| concerns(image.as_deref(), &catalog.name()));
        stream::iter(
            concerned
                .map(|catalog| ObjectRef::from_obj(&*catalog))
                .collect::<Vec<_>>(),
        )
    });
    let all = stream::select(
        WatchStream::from_changes(leadership.changes()).map(drop),
        WatchStream::from_changes(secrets).map(drop),
    );
    let controller = Controller::for_stream(changes, objects.0.clone())
        .reconcile_on(of_images)
        .reconcile_on(UnboundedReceiverStream::new(to_look_at).map(|name| ObjectRef::new(&name)))
        .reconcile_all_on(all)
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(
            reconcile,
            |_, error, _| Action::requeue(error.retry_after()),
            Arc::new(Context { reconciler, metrics }),
        )
        .for_each(async |_| {});

    let ended = {
        let mut controller = std::pin::pin!(controller);
        tokio::select! {
            () = &mut controller => Ok(()),
            server = servers.join_next() => server_ended(server),
            () = stop.cancelled() => {
                tracing::info!("ending: reconciles that are under way come to their end");
                if tokio::time::timeout(LAST_RECONCILES, controller).await.is_err() {
                    tracing::warn!("not all reconciles came to their end; the next leader goes on with what they did");
                }
                Ok(())
            }
        }
    };
    // Nothing writes any more: another one may lead. Then this one's clients are told to go there.
    stop.cancel();
    election_stop.cancel();
    for (what, task) in [("election", election), ("sweep", Some(sweep))] {
        if let Some(Err(error)) = OptionFuture::from(task).await {
            tracing::warn!(what, %error, "a task ended before its time");
        }
    }
    servers_stop.cancel();
    while let Some(server) = servers.join_next().await {
        if let Ok(Err(error)) = server {
            tracing::warn!(%error, "a server ended with an error");
        }
    }
    tracing::info!("ended");
    ended
}

/// What a reconcile is handed.
struct Context {
    reconciler: Arc<Reconciler>,
    metrics: Metrics,
}

async fn reconcile(catalog: Arc<ClusterCatalog>, context: Arc<Context>) -> Result<Action, Error> {
    let began = Instant::now();
    context.metrics.begins();
    // On the heap: it holds a whole catalog's state.
    let result = Box::pin(context.reconciler.reconcile(&catalog)).await;
    let ended = match &result {
        Ok(action) if *action == Action::await_change() => "success",
        Ok(_) => "requeue_after",
        Err(error) if error.is_conflict() => {
            tracing::debug!(catalog = catalog.name(), %error, "somebody else wrote; it is looked at again");
            "requeue_after"
        }
        Err(error) => {
            tracing::warn!(
                catalog = catalog.name(),
                %error,
                again = ?error.retry_after(),
                "reconcile ending with an error; it is tried again"
            );
            "error"
        }
    };
    context.metrics.ends(ended, began.elapsed());
    result
}

/// What nobody here reads of an object is not kept.
fn slim(catalog: &mut ClusterCatalog) {
    catalog.managed_fields_mut().clear();
    catalog
        .annotations_mut()
        .remove("kubectl.kubernetes.io/last-applied-configuration");
}

fn stopped_by_signals() -> Result<CancellationToken, Error> {
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stopped.cancel();
    });
    Ok(stop)
}

async fn tls(flags: &Flags) -> Result<ServerTls, Error> {
    let (Some(cert), Some(key)) = (&flags.tls_cert, &flags.tls_key) else {
        return Err(Error::Config(
            "--tls-cert and --tls-key are needed: content is served by HTTPS only".into(),
        ));
    };
    let profile = Profile::new(&ProfileFlags {
        profile: &flags.tls_profile,
        version: &flags.tls_custom_version,
        ciphers: &flags.tls_custom_ciphers,
        curves: &flags.tls_custom_curves,
    })
    .map_err(|error| Error::Config(error.to_string()))?;
    if let Some(warning) = profile.warning() {
        tracing::warn!("{warning}");
    }
    ServerTls::load(cert, key, profile)
        .await
        .map_err(|error| Error::Config(error.to_string()))
}

async fn client(flags: &Flags) -> Result<Client, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Config(format!("no way to the API server: {error}"));
    let config = match &flags.kubeconfig {
        Some(path) => by_file(path).await.map_err(|error| wrong(&error))?,
        None => Config::infer().await.map_err(|error| wrong(&error))?,
    };
    Client::try_from(config).map_err(|error| wrong(&error))
}

async fn by_file(path: &Path) -> Result<Config, kube::config::KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await
}

fn election(flags: &Flags, client: &Client, identity: &str) -> Election {
    let namespace = flags
        .system_namespace
        .as_deref()
        .unwrap_or(client.default_namespace());
    Election::new(
        client.clone(),
        namespace,
        LEASE,
        identity,
        Timing {
            duration: flags.leader_elect_lease_duration,
            renew: flags.leader_elect_renew_deadline,
            retry: flags.leader_elect_retry_period,
        },
    )
}

fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).map_err(|source| Error::Listen {
        address: address.to_string(),
        source,
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn spawn_https(
    servers: &mut JoinSet<std::io::Result<()>>,
    listener: TcpListener,
    router: axum::Router,
    tls: &ServerTls,
    stop: &CancellationToken,
) {
    let (tls, stop) = (tls.clone(), stop.clone().cancelled_owned());
    servers.spawn(async move { server::https(listener, router, &tls, stop).await });
}

fn server_ended(server: Option<Result<std::io::Result<()>, tokio::task::JoinError>>) -> Result<(), Error> {
    match server {
        Some(Ok(Err(error))) => Err(error.into()),
        Some(Err(error)) => Err(std::io::Error::other(error).into()),
        Some(Ok(Ok(()))) | None => Ok(()),
    }
}
