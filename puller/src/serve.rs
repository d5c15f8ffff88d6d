//! `puller serve`: start, wait, end.

use std::{sync::Arc, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{self, Private, Settings},
    daemon::{self, Daemon},
    error::Error,
    layer, machine,
    metrics::Metrics,
    policy,
    pull::{Engine, Origins, Slots},
    registry::{self, AllowPrivate, CredentialProviders, Keyring, Router, Routes, Transport},
    server::Listeners,
    store::{Volume, VolumeOptions},
};

/// How long calls and pulls get to end after the first signal; Kubernetes kills after 30 s.
const DRAIN: Duration = Duration::from_secs(20);

/// Serves until SIGTERM or SIGINT, then ends in order. A second signal ends at once. SIGHUP calls
/// `reload`, which reads the settings again and takes over what can change while it runs.
///
/// # Errors
/// What keeps it from starting, or a listener that fails.
pub async fn serve(settings: &Settings, reload: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    let mut signals = Signals::new()?;
    let daemon = open(settings)?;
    let listeners = Listeners::bind(settings).await?;
    listeners.announce();

    let stop = CancellationToken::new();
    let working = daemon.run();
    let serving = listeners.serve(&daemon, stop.clone());
    tokio::pin!(working, serving);
    loop {
        tokio::select! {
            served = &mut serving => return served,
            () = &mut working => return Ok(()),
            asked = signals.next() => match asked {
                Asked::ToReload => match reload() {
                    Ok(()) => tracing::info!("the log filter was read again; other settings need a restart"),
                    Err(error) => tracing::error!(%error, "the settings could not be read again; the old ones stay"),
                },
                Asked::ToEnd => {
                    tracing::info!("stops: calls and pulls end, their bytes are kept");
                    break;
                }
            },
        }
    }
    stop.cancel();
    daemon.stop();
    let ended = async { tokio::join!(serving, working).0 };
    tokio::select! {
        ended = tokio::time::timeout(DRAIN, ended) => match ended {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!("some calls or pulls have not ended in time; left alone");
                Ok(())
            }
        },
        () = signals.end() => {
            tracing::warn!("a second signal: ends at once");
            Ok(())
        }
    }
}

/// Opens the volume and makes the daemon that goes on from what is on it.
///
/// # Errors
/// The volume, or what the registries' transport is made of, can't be used.
pub fn open(settings: &Settings) -> Result<Arc<Daemon>, Error> {
    raise_file_limit();
    let options = VolumeOptions {
        reserve_percent: settings.reserve_percent,
        quota: settings.quota,
        marks: settings.marks,
    };
    let (volume, recovered) = Volume::open(&settings.volume, options)?;
    let providers = settings.credential_providers.as_ref();
    let providers = providers
        .map(|files| CredentialProviders::read(&files.config, &files.bin_dir))
        .transpose()
        .map_err(|error| Error::Config(error.to_string()))?;
    let keyring = Arc::new(Keyring::with_providers(
        settings.docker_configs.clone(),
        providers,
    ));
    let transport = Transport::new(&registry_settings(settings), Arc::clone(&keyring))?;
    let routes = Routes::read(&settings.registries_conf).map_err(|error| Error::Config(error.to_string()))?;
    let routes = Arc::new(routes);
    let engine = Engine {
        registry: Arc::new(Router::new(Arc::new(transport), Arc::clone(&routes))),
        volume,
        policy: Arc::new(policy::Source::open(settings.policy.clone())),
        slots: Slots::new(settings.max_pulls, settings.max_pulls_per_registry),
        limits: limits(&settings.limits),
        layers_at_a_time: settings.layers_per_pull,
        origins: Origins::default(),
    };
    let machine = machine::Settings {
        grace_period: settings.grace_period,
        cancel_delay: settings.cancel_delay,
        ..machine::Settings::default()
    };
    let metrics = Metrics::new(recovered.set_aside);
    let saved = daemon::restored(recovered);
    Ok(Daemon::new(machine, engine, keyring, routes, metrics, saved))
}

fn registry_settings(settings: &Settings) -> registry::Settings {
    registry::Settings {
        plain_http: settings.plain_http.clone(),
        ca_files: settings.ca_files.clone(),
        certs_dirs: settings.certs_dirs.clone(),
        allow_private: match &settings.allow_private {
            Private::All => AllowPrivate::All,
            Private::Only(hosts) => AllowPrivate::Hosts(hosts.clone()),
        },
        idle_timeout: settings.idle_timeout,
        connect_timeout: settings.connect_timeout,
        ..registry::Settings::default()
    }
}

fn limits(limits: &config::Limits) -> layer::Limits {
    let config::Limits {
        max_image_size,
        max_entries,
        max_depth,
        max_ratio,
    } = *limits;
    layer::Limits {
        max_bytes: max_image_size,
        max_entries,
        max_depth,
        max_ratio,
        ..layer::Limits::default()
    }
}

/// Ten thousand images may wait for as many registries, and each holds a connection: the soft limit is
/// for programs that use select(2), which this one does not.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    if let Err(error) = raised {
        tracing::warn!(%error, current = ?limit.current, "the limit of open files could not be raised");
    }
}

/// What a signal asks for.
#[derive(PartialEq, Eq)]
enum Asked {
    ToEnd,
    ToReload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl Signals {
    fn new() -> Result<Self, Error> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::ToEnd,
            _ = self.interrupt.recv() => Asked::ToEnd,
            _ = self.reload.recv() => Asked::ToReload,
        }
    }

    async fn end(&mut self) {
        while self.next().await != Asked::ToEnd {}
    }
}
