//! From what was typed to what is meant.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use tracing_subscriber::EnvFilter;

use super::{
    args::Given,
    settings::{Environment, Limits, LogFormat, Private, ProviderFiles, ServerTls, Settings, TcpListen},
    value::{self, Setting, Typed, problem, shown},
};
use crate::store::Marks;

/// Turns an optional setting off, also where a place of lower rank has set it.
pub(super) const OFF: &str = "off";
/// The same for a list.
pub(crate) const NONE: &str = "none";

/// Where the containers ecosystem has its registries, and its verification policy.
pub(crate) const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";
pub(crate) const POLICY: &str = "/etc/containers/policy.json";
/// Where Podman and Docker look for certificates of single registries.
const CERTS_DIRS: [&str; 2] = ["/etc/containers/certs.d", "/etc/docker/certs.d"];

/// Most pulls, and layers of a pull, at the same time: beyond it only sockets and memory are used up.
const MAX_PARALLEL: u64 = 1000;
/// Walks of a tree take a stack frame and an open directory for each level: at about 700 levels they would
/// end the daemon.
const MAX_DEPTH: u64 = 256;
/// A wait shorter than this ends every attempt over a healthy network.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The settings that are meant, and all that is wrong with what was typed.
pub(super) fn settings(given: Given, environment: Environment<'_>) -> (Settings, Vec<String>) {
    // Exhaustive, so that a new setting that nobody reads does not compile.
    let Given {
        config,
        volume,
        max_image_size,
        max_entries,
        max_depth,
        max_ratio,
        reserve_percent,
        quota,
        high_water,
        low_water,
        grace_period,
        cancel_delay,
        socket,
        socket_group,
        listen,
        insecure_listen,
        tls_cert,
        tls_key,
        tls_client_ca,
        health_address,
        metrics_address,
        plain_http,
        ca_file,
        certs_dir,
        docker_config,
        credential_provider_config,
        credential_provider_bin_dir,
        registries_conf,
        allow_private,
        policy,
        idle_timeout,
        connect_timeout,
        max_pulls,
        max_pulls_per_registry,
        layers_per_pull,
        log,
        log_format,
    } = given;
    let mut read = Reader::default();
    let parallel = value::number(1, MAX_PARALLEL);
    let wait = value::duration(Duration::ZERO);
    let timeout = value::duration(LEAST_TIMEOUT);
    let count = value::number(1, u64::from(u32::MAX));

    // Read where the file is; here only for whether it was given twice.
    read.optional(&config, value::path);
    let listen = Listen {
        address: read.optional_with_origin(&listen, address),
        insecure: read.one(&insecure_listen, false, truth),
        cert: read.optional_with_origin(&tls_cert, value::path),
        key: read.optional_with_origin(&tls_key, value::path),
        client_ca: read.optional_with_origin(&tls_client_ca, value::path),
    };
    let high = read.optional_with_origin(&high_water, value::number(1, 100));
    let low = read.optional_with_origin(&low_water, value::number(0, 99));
    let marks = marks(high, low, &mut read.problems);
    let providers = Providers {
        config: read.optional_with_origin(&credential_provider_config, value::path),
        bin_dir: read.optional_with_origin(&credential_provider_bin_dir, value::path),
    };
    let settings = Settings {
        volume: read.one(&volume, "/var/lib/puller".into(), value::path),
        limits: Limits {
            max_image_size: read.one(&max_image_size, 10 << 30, value::size),
            max_entries: read.one(&max_entries, 1_000_000, &count),
            max_depth: as_usize(read.one(&max_depth, 128, value::number(1, MAX_DEPTH))),
            max_ratio: read.one(&max_ratio, 200, &count),
        },
        reserve_percent: u8::try_from(read.one(&reserve_percent, 10, value::number(0, 90)))
            .unwrap_or(u8::MAX),
        quota: read.optional(&quota, value::size),
        marks,
        grace_period: read.one(&grace_period, Duration::from_secs(600), &wait),
        cancel_delay: read.one(&cancel_delay, Duration::from_secs(10), &wait),
        socket: read.one(&socket, "/run/puller/puller.sock".into(), value::path),
        socket_group: read.optional(&socket_group, group),
        listen: listen.meant(&mut read.problems),
        health_address: read.optional(&health_address, address),
        metrics_address: read.optional(&metrics_address, address),
        plain_http: read.list(&plain_http, value::registry).unwrap_or_default(),
        ca_files: read.list(&ca_file, value::path).unwrap_or_default(),
        certs_dirs: read
            .list(&certs_dir, value::path)
            .unwrap_or_else(|| CERTS_DIRS.map(PathBuf::from).to_vec()),
        docker_configs: read
            .list(&docker_config, value::path)
            .unwrap_or_else(|| docker_configs(environment)),
        credential_providers: providers.meant(&mut read.problems),
        registries_conf: read.one(&registries_conf, REGISTRIES_CONF.into(), value::path),
        allow_private: Private::of(
            read.list(&allow_private, value::registry_or_all)
                .unwrap_or_default(),
        ),
        policy: read.one(&policy, POLICY.into(), value::path),
        idle_timeout: read.one(&idle_timeout, Duration::from_secs(60), &timeout),
        connect_timeout: read.one(&connect_timeout, Duration::from_secs(15), &timeout),
        max_pulls: as_usize(read.one(&max_pulls, 4, &parallel)),
        max_pulls_per_registry: as_usize(read.one(&max_pulls_per_registry, 4, &parallel)),
        layers_per_pull: as_usize(read.one(&layers_per_pull, 3, &parallel)),
        log: read.one(&log, "info".into(), filter),
        log_format: read.one(&log_format, LogFormat::Auto, log_format_of),
    };
    (settings, read.problems)
}

/// The water marks, which have to be in order.
fn marks(
    high: Option<Optional<u64>>,
    low: Option<Optional<u64>>,
    problems: &mut Vec<String>,
) -> Option<Marks> {
    /// So far below the high mark is the low one, unless it is said.
    const GAP: u64 = 10;
    let percent = |n: u64| u8::try_from(n).unwrap_or(u8::MAX);
    match (high, low) {
        (Some(high), None) => Some(Marks {
            high: percent(high.value),
            low: percent(high.value.saturating_sub(GAP)),
        }),
        (Some(high), Some(low)) if low.value < high.value => Some(Marks {
            high: percent(high.value),
            low: percent(low.value),
        }),
        (Some(high), Some(low)) => {
            let what = format!("it must be below the high water mark, {}", high.value);
            problems.push(low.problem(&what));
            None
        }
        (None, Some(low)) => {
            problems.push(low.problem("it means nothing without high-water"));
            None
        }
        (None, None) => None,
    }
}

/// Reads settings one by one and collects what is wrong.
#[derive(Default)]
struct Reader {
    problems: Vec<String>,
}

impl Reader {
    /// The one value, or the default. A wrong one is noted and stands for the default, so that the
    /// settings after it are read too.
    fn one<T>(&mut self, setting: &Setting, default: T, parse: impl Fn(&str) -> Result<T, String>) -> T {
        self.value(setting, parse).map_or(default, |(value, _)| value)
    }

    /// The one value; `off` or nothing: `None`.
    fn optional<T>(&mut self, setting: &Setting, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        self.optional_with_origin(setting, parse).map(|typed| typed.value)
    }

    fn optional_with_origin<T>(
        &mut self,
        setting: &Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Optional<T>> {
        let parsed = self.value(setting, |text| match text {
            OFF => Ok(None),
            text => parse(text).map(Some),
        });
        let (value, typed) = parsed?;
        Some(Optional {
            value: value?,
            typed,
            name: setting.name.clone(),
        })
    }

    /// The values of a list; `None`: nothing was given.
    fn list<T>(&mut self, setting: &Setting, parse: impl Fn(&str) -> Result<T, String>) -> Option<Vec<T>> {
        if setting.values.is_empty() {
            return None;
        }
        let mut list = Vec::new();
        for typed in &setting.values {
            for text in typed.text.split(',').map(str::trim).filter(|text| *text != NONE) {
                match parse(text) {
                    Ok(value) => list.push(value),
                    Err(what) => self.problems.push(problem(&setting.name, &typed.origin, what)),
                }
            }
        }
        Some(list)
    }

    fn value<T>(
        &mut self,
        setting: &Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<(T, Typed)> {
        let typed = setting.values.first()?;
        if setting.values.len() > 1 {
            let what = format!("it has {} values; one is right", setting.values.len());
            self.problems.push(problem(&setting.name, &typed.origin, what));
            return None;
        }
        match parse(&typed.text) {
            Ok(value) => Some((value, typed.clone())),
            Err(what) => {
                self.problems.push(problem(&setting.name, &typed.origin, what));
                None
            }
        }
    }
}

/// A value that is set, and where, for checks over several settings.
struct Optional<T> {
    value: T,
    typed: Typed,
    name: String,
}

impl<T> Optional<T> {
    fn problem(&self, what: &str) -> String {
        problem(&self.name, &self.typed.origin, what)
    }
}

/// The settings of TCP, which are right or wrong together.
struct Listen {
    address: Option<Optional<SocketAddr>>,
    insecure: bool,
    cert: Option<Optional<PathBuf>>,
    key: Option<Optional<PathBuf>>,
    client_ca: Option<Optional<PathBuf>>,
}

impl Listen {
    fn meant(self, problems: &mut Vec<String>) -> Option<TcpListen> {
        let Self {
            address,
            insecure,
            cert,
            key,
            client_ca,
        } = self;
        let given = [&cert, &key, &client_ca].into_iter().flatten().next();
        let Some(address) = address else {
            if let Some(given) = given {
                problems.push(given.problem("TLS is for TCP: set listen too"));
            }
            return None;
        };
        let partial = given
            .map(|given| given.problem("tls-cert, tls-key and tls-client-ca are set together or not at all"));
        let tls = match (cert, key, client_ca) {
            (Some(cert), Some(key), Some(client_ca)) => Some(ServerTls {
                cert: cert.value,
                key: key.value,
                client_ca: client_ca.value,
            }),
            _ => {
                problems.extend(partial);
                None
            }
        };
        if tls.is_none() && !address.value.ip().is_loopback() && !insecure {
            problems.push(address.problem(
                "beyond loopback it needs tls-cert, tls-key and tls-client-ca, or insecure-listen if everybody who reaches the port may be trusted",
            ));
        }
        Some(TcpListen {
            address: address.value,
            tls,
        })
    }
}

/// The settings of credential providers, which are set together.
struct Providers {
    config: Option<Optional<PathBuf>>,
    bin_dir: Option<Optional<PathBuf>>,
}

impl Providers {
    fn meant(self, problems: &mut Vec<String>) -> Option<ProviderFiles> {
        match (self.config, self.bin_dir) {
            (Some(config), Some(bin_dir)) => Some(ProviderFiles {
                config: config.value,
                bin_dir: bin_dir.value,
            }),
            (Some(one), None) | (None, Some(one)) => {
                problems.push(one.problem(
                    "credential-provider-config and credential-provider-bin-dir are set together or not at all",
                ));
                None
            }
            (None, None) => None,
        }
    }
}

/// The files that other tools use, those that exist.
pub(crate) fn docker_configs(environment: Environment<'_>) -> Vec<PathBuf> {
    let variable = |name| {
        environment(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    [
        variable("REGISTRY_AUTH_FILE"),
        variable("DOCKER_CONFIG").map(|directory| directory.join("config.json")),
        variable("HOME").map(|home| home.join(".docker").join("config.json")),
    ]
    .into_iter()
    .flatten()
    .filter(|path| Path::is_file(path))
    .collect()
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{} is not an IP address with a port, such as 127.0.0.1:50051 or [::]:50051",
            shown(text)
        )
    })
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("{} is neither true nor false", shown(text)))
}

fn group(text: &str) -> Result<String, String> {
    match text {
        "" => Err("the group is empty; it is a name or a number".into()),
        text => Ok(text.to_owned()),
    }
}

fn filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(format!(
            "{} is neither a level (error, warn, info, debug, trace) nor a filter such as info,puller::registry=debug",
            shown(text)
        )),
    }
}

fn log_format_of(text: &str) -> Result<LogFormat, String> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{} is none of auto, human and json", shown(text))),
    }
}

/// The numbers were checked against `u32::MAX`, which fits.
fn as_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
