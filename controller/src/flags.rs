//! The command line: catalogd's flags under their names, and our own.

mod gates;
mod values;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub use self::gates::FeatureGates;
use self::values::{address, duration, namespaced_name};

/// Keeps ClusterCatalogs: pulls their images through a puller beside it, and stores and serves their content.
#[derive(Debug, Parser)]
#[command(name = "catalog-controller", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do instead of running.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to run.
    #[command(flatten)]
    pub flags: Flags,
}

/// What can be done instead of running.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Command {
    /// Prints the CustomResourceDefinition of ClusterCatalog, as YAML.
    Crd,
    /// Prints the version.
    Version,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human on a terminal, JSON off it.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// How the controller runs.
#[derive(Debug, Clone, Args)]
pub struct Flags {
    /// Where the puller listens.
    #[arg(long, value_name = "ENDPOINT", env = "PULLER_ENDPOINT", default_value = puller_client::DEFAULT_ENDPOINT)]
    pub puller_endpoint: String,
    /// Where the volume that is shared with the puller is mounted here.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/puller")]
    pub puller_volume: PathBuf,
    /// How often at most a status is written because of progress alone; changes of phase are written at once.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub progress_interval: Duration,

    /// Where content is stored. It must be this replica's own, and is kept over restarts.
    #[arg(long, value_name = "DIR", default_value = "/var/cache/catalogd")]
    pub cache_dir: PathBuf,
    /// How often at the latest what belongs to no catalog any more is looked for, on disk and in the puller. It
    /// is looked for at the start and after each deletion too.
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = duration)]
    pub gc_interval: Duration,
    /// Host, and port where it is not 443, at which clients reach the content; it is written to each status.
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        default_value = "catalogd-service.olmv1-system.svc"
    )]
    pub external_address: String,
    /// Where content is served, by HTTPS.
    #[arg(long, value_name = "ADDRESS", default_value = ":8443", value_parser = address)]
    pub catalogs_server_addr: SocketAddr,
    /// Where metrics are served, by HTTPS, to those who may read /metrics; 0: nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = ":7443", value_parser = values::optional_address)]
    pub metrics_bind_address: values::Optional<SocketAddr>,
    /// Where /healthz and /readyz are served, by HTTP.
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = address)]
    pub health_probe_bind_address: SocketAddr,
    /// The certificate of both HTTPS servers, as PEM. It is read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Which versions and ciphers of TLS the servers speak (Mozilla's names).
    #[arg(long, value_name = "PROFILE", default_value = "intermediate")]
    pub tls_profile: String,
    /// The least version, with --tls-profile=custom.
    #[arg(long, value_name = "VERSION", default_value = "TLSv1.2")]
    pub tls_custom_version: String,
    /// The ciphers, with --tls-profile=custom.
    #[arg(long, value_name = "CIPHER,…", value_delimiter = ',')]
    pub tls_custom_ciphers: Vec<String>,
    /// The curves, with --tls-profile=custom.
    #[arg(long, value_name = "CURVE,…", value_delimiter = ',')]
    pub tls_custom_curves: Vec<String>,

    /// Only one of several replicas resolves tags, writes statuses and serves content.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,
    /// How long the other replicas wait for a leader that says nothing.
    #[arg(long, value_name = "DURATION", default_value = "137s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// How long a leader goes on that can't renew its lease.
    #[arg(long, value_name = "DURATION", default_value = "107s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// How often a lease is renewed, or tried for.
    #[arg(long, value_name = "DURATION", default_value = "26s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Where the lease is; by default the pod's own namespace.
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    pub system_namespace: Option<String>,

    /// A Secret with credentials for registries, beside the imagePullSecrets of the pod's ServiceAccount.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced_name)]
    pub global_pull_secret: Option<(String, String)>,
    /// The token that says which ServiceAccount is the pod's.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    pub service_account_token: PathBuf,
    /// How the API server is reached; by default as a pod, or by $KUBECONFIG.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Features that are off by default, such as APIV1MetasHandler=true.
    #[arg(long, value_name = "NAME=BOOL,…", default_value = "")]
    pub feature_gates: FeatureGates,
    /// What is logged: a level, or a filter such as info,catalog_controller=debug.
    #[arg(long, value_name = "FILTER", env = "CATALOG_CONTROLLER_LOG")]
    pub log: Option<String>,
    /// How log lines look.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "auto")]
    pub log_format: LogFormat,
    /// More lines in the log: from 1 on debug, from 6 on trace. --log is finer.
    #[arg(short = 'v', long = "v", value_name = "N", default_value_t = 0)]
    pub verbosity: u8,

    /// Flags of catalogd that mean nothing here.
    #[command(flatten)]
    pub obsolete: Obsolete,
}

/// Flags of catalogd that mean nothing here. They are accepted, so that a Deployment need not change at once,
/// and the log says where each went.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Flags of catalogd that mean nothing here")]
pub struct Obsolete {
    /// The puller's: set `puller serve --pull-cas-dir`.
    #[arg(long, value_name = "DIR")]
    pub pull_cas_dir: Option<PathBuf>,
    /// There is no webhook: the controller itself keeps the label that the webhook kept.
    #[arg(long, value_name = "PORT")]
    pub webhook_server_port: Option<u16>,
    /// There is no pprof.
    #[arg(long, value_name = "ADDRESS")]
    pub pprof_bind_address: Option<String>,
    /// There is one log, on stderr.
    #[arg(long, value_name = "PATTERN", hide = true)]
    pub vmodule: Option<String>,
    /// There is one log, on stderr.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    pub logtostderr: Option<bool>,
    /// There is one log, on stderr.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    pub alsologtostderr: Option<bool>,
    /// There is one log, on stderr.
    #[arg(long, value_name = "SEVERITY", hide = true)]
    pub stderrthreshold: Option<String>,
}

impl Obsolete {
    /// What to say of those that are set.
    pub fn told(&self) -> Vec<(&'static str, &'static str)> {
        /// klog's.
        const LOGS: &str = "there is one log, on stderr; see --log and --log-format";
        let pprof = self
            .pprof_bind_address
            .as_ref()
            .is_some_and(|address| address != "0");
        let all = [
            (
                self.pull_cas_dir.is_some(),
                "--pull-cas-dir",
                "certificate authorities of registries are the puller's: set `puller serve --pull-cas-dir`",
            ),
            (
                self.webhook_server_port.is_some(),
                "--webhook-server-port",
                "there is no webhook: the controller keeps the name label itself; delete catalogd's MutatingWebhookConfiguration",
            ),
            (
                pprof,
                "--pprof-bind-address",
                "there is no pprof; see the metrics",
            ),
            (self.vmodule.is_some(), "--vmodule", LOGS),
            (self.logtostderr.is_some(), "--logtostderr", LOGS),
            (self.alsologtostderr.is_some(), "--alsologtostderr", LOGS),
            (self.stderrthreshold.is_some(), "--stderrthreshold", LOGS),
        ];
        let set = all.into_iter().filter(|(is_set, ..)| *is_set);
        set.map(|(_, flag, told)| (flag, told)).collect()
    }
}

impl Flags {
    /// What is logged.
    pub fn log_filter(&self) -> String {
        let level = match self.verbosity {
            0 => "info",
            1..=5 => "info,catalog_controller=debug",
            _ => "trace",
        };
        self.log.clone().unwrap_or_else(|| level.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Flags, clap::Error> {
        let arguments = [&["catalog-controller"], arguments].concat();
        Cli::try_parse_from(arguments).map(|cli| cli.flags)
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_catalogds_manifests_say_is_understood() {
        let flags = parse(&[
            "--leader-elect",
            "--metrics-bind-address=:7443",
            "--external-address=catalogd-service.olmv1-system.svc",
            "--tls-cert=/var/certs/tls.crt",
            "--tls-key=/var/certs/tls.key",
            "--pull-cas-dir=/var/ca-certs",
            "--global-pull-secret=openshift-config/pull-secret",
            "--feature-gates=APIV1MetasHandler=true",
            "--health-probe-bind-address=:8081",
            "--catalogs-server-addr=:8443",
            "--cache-dir=/var/cache/",
            "--gc-interval=12h",
            "--pprof-bind-address=:6060",
            "--webhook-server-port=9443",
            "--system-namespace=olmv1-system",
            "--tls-profile=custom",
            "--tls-custom-version=TLSv1.2",
            "--tls-custom-ciphers=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "--tls-custom-curves=X25519MLKEM768",
            "--v=4",
        ])
        .unwrap();
        assert!(flags.leader_elect && flags.feature_gates.metas && !flags.feature_gates.graphql);
        assert_eq!(flags.gc_interval, Duration::from_secs(12 * 60 * 60));
        assert_eq!(
            flags.global_pull_secret,
            Some(("openshift-config".into(), "pull-secret".into()))
        );
        assert_eq!(flags.catalogs_server_addr.port(), 8443);
        assert_eq!(flags.tls_custom_ciphers.len(), 2);
        let told: Vec<_> = flags.obsolete.told().iter().map(|(flag, _)| *flag).collect();
        assert_eq!(
            told,
            ["--pull-cas-dir", "--webhook-server-port", "--pprof-bind-address"]
        );
    }

    #[test]
    fn booleans_are_as_gos() {
        assert!(!parse(&["--leader-elect=false"]).unwrap().leader_elect);
        assert!(parse(&["--leader-elect=true"]).unwrap().leader_elect);
        assert!(!parse(&[]).unwrap().leader_elect);
    }

    #[test]
    fn what_can_not_be_right_is_refused_with_its_name() {
        for (arguments, named) in [
            (vec!["--tls-cert=a"], "--tls-key"),
            (vec!["--global-pull-secret=name"], "namespace/name"),
            (vec!["--feature-gates=Nonsense=true"], "Nonsense"),
            (vec!["--gc-interval=often"], "often"),
            (vec!["--catalogs-server-addr=8443"], "8443"),
        ] {
            let error = parse(&arguments).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
