//! What is meant: the checked settings.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    ServeArgs, file, meaning,
    value::{Origin, Typed, problem, variable},
};
use crate::{error::Error, store::Marks};

/// Everything `puller serve` goes by. The help of each flag ([`ServeArgs`]) says what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The volume's root.
    pub volume: PathBuf,
    /// Bounds of a single image.
    pub limits: Limits,
    /// Percentage of the volume's bytes and inodes that is never touched.
    pub reserve_percent: u8,
    /// Most bytes on the volume.
    pub quota: Option<u64>,
    /// How long what nobody needs is kept.
    pub grace_period: Duration,
    /// How long a pull without a claim still runs.
    pub cancel_delay: Duration,
    /// The Unix socket.
    pub socket: PathBuf,
    /// Its group, by name or number.
    pub socket_group: Option<String>,
    /// TCP; `None`: off.
    pub listen: Option<TcpListen>,
    /// Where gRPC health is served in plain text.
    pub health_address: Option<SocketAddr>,
    /// Where metrics are served.
    pub metrics_address: Option<SocketAddr>,
    /// Registries that are spoken to in plain HTTP, in the form of
    /// [`Reference::registry`](crate::domain::Reference::registry).
    pub plain_http: Vec<String>,
    /// Authorities beside the system's, PEM files.
    pub ca_files: Vec<PathBuf>,
    /// Where registries have directories with certificates of their own.
    pub certs_dirs: Vec<PathBuf>,
    /// docker `config.json` files, the first one first asked.
    pub docker_configs: Vec<PathBuf>,
    /// The kubelet's credential provider plugins; `None`: off.
    pub credential_providers: Option<ProviderFiles>,
    /// Mirrors, blocked registries, short names: containers-registries.conf(5).
    pub registries_conf: PathBuf,
    /// Who may send us to private addresses.
    pub allow_private: Private,
    /// When what nobody claims is removed early.
    pub marks: Option<Marks>,
    /// The verification policy.
    pub policy: PathBuf,
    /// How long nothing may move.
    pub idle_timeout: Duration,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// Pulls whose bytes move, over all registries.
    pub max_pulls: usize,
    /// Attempts at one registry.
    pub max_pulls_per_registry: usize,
    /// Layers of one image at the same time.
    pub layers_per_pull: usize,
    /// A filter in the syntax of `tracing_subscriber::EnvFilter`, checked.
    pub log: String,
    /// How logs look.
    pub log_format: LogFormat,
}

/// Bounds of a single image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Unpacked bytes.
    pub max_image_size: u64,
    /// Archive entries.
    pub max_entries: u64,
    /// Directories of a path.
    pub max_depth: usize,
    /// Unpacked bytes for each compressed one.
    pub max_ratio: u64,
}

/// TCP as it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpListen {
    /// Where. Loopback, unless there is TLS or `insecure-listen` was set.
    pub address: SocketAddr,
    /// Mutual TLS; `None`: plain text.
    pub tls: Option<ServerTls>,
}

/// Files of mutual TLS, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The server's certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of the clients' certificates.
    pub client_ca: PathBuf,
}

/// Where credential provider plugins are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderFiles {
    /// Their config (`CredentialProviderConfig`).
    pub config: PathBuf,
    /// The directory of their programs.
    pub bin_dir: PathBuf,
}

/// Registries that may send us to private addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Private {
    /// All of them.
    All,
    /// These, in the form of [`Reference::registry`](crate::domain::Reference::registry).
    Only(Vec<String>),
}

impl Private {
    /// From the registries that were typed; `*` among them is all.
    pub fn of(registries: Vec<String>) -> Self {
        if registries.iter().any(|registry| registry == "*") {
            Self::All
        } else {
            Self::Only(registries)
        }
    }

    /// Whether this registry may.
    pub fn allows(&self, registry: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(registries) => registries.iter().any(|allowed| allowed == registry),
        }
    }
}

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human on a terminal, JSON off it.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Reads a variable; tests have their own instead of the process's.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Settings {
    /// Merges flags, environment and file, and says what is meant.
    ///
    /// # Errors
    /// [`Error::Config`] with everything that is wrong, one line each, naming the flag, the variable
    /// or the file's line, and what would be right.
    pub fn load(flags: ServeArgs, environment: Environment<'_>) -> Result<Self, Error> {
        let (variables, mut problems) = from_environment(environment);
        let from_file = match config_file(&flags, &variables) {
            None => BTreeMap::new(),
            Some(typed) => match read_file(typed) {
                Ok(values) => values,
                Err(more) => {
                    problems.extend(more);
                    BTreeMap::new()
                }
            },
        };
        let given = flags.over(|name| {
            variables
                .get(name)
                .or_else(|| from_file.get(name))
                .cloned()
                .unwrap_or_default()
        });
        let (settings, more) = meaning::settings(given, environment);
        problems.extend(more);
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(Error::Config(problems.join("\n")))
        }
    }
}

/// The settings among the variables. An empty variable is one that is not set: templates make them.
fn from_environment(environment: Environment<'_>) -> (BTreeMap<String, Vec<Typed>>, Vec<String>) {
    let mut values = BTreeMap::new();
    let mut problems = Vec::new();
    for name in ServeArgs::names() {
        match environment(&variable(&name)).map(OsString::into_string) {
            Some(Ok(text)) if !text.is_empty() => {
                values.insert(
                    name,
                    vec![Typed {
                        text,
                        origin: Origin::Variable,
                    }],
                );
            }
            Some(Err(_)) => problems.push(problem(&name, &Origin::Variable, "it is not UTF-8")),
            Some(Ok(_)) | None => {}
        }
    }
    (values, problems)
}

/// The file that is named by flag or variable.
fn config_file<'a>(flags: &'a ServeArgs, variables: &'a BTreeMap<String, Vec<Typed>>) -> Option<&'a Typed> {
    let typed = flags
        .config
        .first()
        .or_else(|| variables.get("config")?.first())?;
    (typed.text != meaning::OFF).then_some(typed)
}

fn read_file(typed: &Typed) -> Result<BTreeMap<String, Vec<Typed>>, Vec<String>> {
    let path = Path::new(&typed.text);
    let text = fs::read_to_string(path).map_err(|error| {
        vec![problem(
            "config",
            &typed.origin,
            format!("cannot read {}: {error}", path.display()),
        )]
    })?;
    file::parse(path, &text)
}
