//! The table of settings: each stands here once, with its help.

use std::{convert::Infallible, str::FromStr};

use super::value::{Origin, Setting, Typed};

/// Makes of the table the flags of `puller serve` and the merged settings, so that no part of the
/// program can know of a setting that another one has forgotten.
macro_rules! settings {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// The settings as flags. All are optional here, since each may stand elsewhere.
        #[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
        pub struct ServeArgs {
            $($(#[$attribute])* pub $name: Vec<Typed>,)*
        }

        /// The settings of all places, merged, not yet read.
        #[derive(Debug)]
        #[allow(missing_docs, reason = "the same names as in `ServeArgs`")]
        pub struct Given {
            $(pub $name: Setting,)*
        }

        impl ServeArgs {
            /// The name of every setting, in the table's order.
            pub fn names() -> impl Iterator<Item = String> {
                [$(stringify!($name)),*].into_iter().map(name_of)
            }

            /// Takes from `below` what was not given as a flag.
            pub(super) fn over(self, mut below: impl FnMut(&str) -> Vec<Typed>) -> Given {
                $(
                    let name = name_of(stringify!($name));
                    let values = if self.$name.is_empty() { below(&name) } else { self.$name };
                    let $name = Setting { name, values };
                )*
                Given { $($name,)* }
            }
        }
    };
}

/// A setting's one name, such as `max-pulls`.
fn name_of(field: &str) -> String {
    field.replace('_', "-")
}

/// What clap hands over was typed as a flag.
impl FromStr for Typed {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self {
            text: text.to_owned(),
            origin: Origin::Flag,
        })
    }
}

settings! {
    /// Read settings from this TOML file as well
    ///
    /// Its keys are the flags' names without dashes in front, such as `max-pulls = 8`; lists are TOML arrays. An
    /// unknown key is an error. [default: off]
    #[arg(long, value_name = "FILE")]
    config,

    /// The volume: published trees, layers in flight, records
    ///
    /// The only persistent state. It is made if it is missing; one puller uses it at a time.
    /// [default: /var/lib/puller]
    #[arg(long, value_name = "DIR", help_heading = "Volume")]
    volume,
    /// Most bytes of one image, unpacked
    ///
    /// Beyond it the image is Failed (limit exceeded). A size: bytes, or with a unit such as 500MB or 10GiB.
    /// [default: 10GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Volume")]
    max_image_size,
    /// Most archive entries (files, directories, links) of one image
    ///
    /// A number. [default: 1000000]
    #[arg(long, value_name = "N", help_heading = "Volume")]
    max_entries,
    /// Deepest path of an entry, in directories
    ///
    /// A number. At most 256. [default: 128]
    #[arg(long, value_name = "N", help_heading = "Volume")]
    max_depth,
    /// Most unpacked bytes for each compressed byte of a layer
    ///
    /// A number. Guards against archives that are made to explode: text and JSON reach 30, gzip can reach 1032,
    /// zstd far more. The first 256 MiB of a layer do not count. [default: 200]
    #[arg(long, value_name = "N", help_heading = "Volume")]
    max_ratio,
    /// Percentage of the volume's bytes and inodes that is never touched
    ///
    /// A pull that would need them waits (no space) until there is room. 0 to 90. [default: 10]
    #[arg(long, value_name = "PERCENT", help_heading = "Volume")]
    reserve_percent,
    /// Most bytes that the puller uses of the volume
    ///
    /// Unclaimed content is removed for it, claimed content never; pulls wait. A size such as 50GiB. [default: off]
    #[arg(long, value_name = "SIZE", help_heading = "Volume")]
    quota,
    /// Above this percentage of the quota, what nobody claims is removed before its grace period is over
    ///
    /// Of the volume, where there is no quota. What was claimed last goes last; claimed content never goes. 1 to 100.
    /// [default: off]
    #[arg(long, value_name = "PERCENT", help_heading = "Volume")]
    high_water,
    /// It is removed until no more than this percentage is in use
    ///
    /// 0 to 99, below --high-water; 10 less than that where it is not said. [default: off]
    #[arg(long, value_name = "PERCENT", help_heading = "Volume")]
    low_water,
    /// How long an image that nobody claims, or content that newer content superseded, is kept
    ///
    /// A duration such as 90s, 10m or 1h30m. [default: 10m]
    #[arg(long, value_name = "TIME", help_heading = "Volume")]
    grace_period,
    /// How long a pull that nobody claims any more still runs before it is cancelled
    ///
    /// A duration. What it has fetched is kept for the grace period. [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Volume")]
    cancel_delay,

    /// The Unix socket to serve on
    ///
    /// It gets mode 0660. A stale socket is replaced, a live one is an error. Whoever may connect is fully trusted.
    /// [default: /run/puller/puller.sock]
    #[arg(long, value_name = "PATH", help_heading = "Serving")]
    socket,
    /// The group that may connect to the socket: a name or a number
    ///
    /// [default: off], which leaves the group of the socket's directory
    #[arg(long, value_name = "GROUP", help_heading = "Serving")]
    socket_group,
    /// Serve on this TCP address too, such as 127.0.0.1:50051
    ///
    /// An IP address and a port. Beyond loopback it needs --tls-cert, --tls-key and --tls-client-ca, or
    /// --insecure-listen. [default: off]
    #[arg(long, value_name = "ADDRESS", help_heading = "Serving")]
    listen,
    /// Allow --listen beyond loopback without TLS: everybody who reaches the port is fully trusted
    ///
    /// true or false. Credentials in Fetch are refused there all the same. [default: false]
    #[arg(
        long, value_name = "BOOL", help_heading = "Serving",
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    insecure_listen,
    /// The server's certificate chain for --listen: a PEM file
    ///
    /// [default: off], which serves plain text
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    tls_cert,
    /// The private key of --tls-cert: a PEM file
    ///
    /// [default: off]
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    tls_key,
    /// The authorities that sign the clients' certificates: a PEM file
    ///
    /// A client without such a certificate is not let in. [default: off]
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    tls_client_ca,
    /// Serve gRPC health alone, in plain text, on this TCP address, such as 0.0.0.0:50052
    ///
    /// An IP address and a port; meant for the kubelet's probes. [default: off]
    #[arg(long, value_name = "ADDRESS", help_heading = "Serving")]
    health_address,
    /// Serve Prometheus metrics on this TCP address, at /metrics, such as 0.0.0.0:9090
    ///
    /// An IP address and a port. Plain text, and no names of images or registries in it. See docs/operations.md.
    /// [default: off]
    #[arg(long, value_name = "ADDRESS", help_heading = "Serving")]
    metrics_address,

    /// Speak plain HTTP with these registries: host or host:port, repeated or comma-separated
    ///
    /// Registries at loopback addresses are tried that way without being named. [default: none]
    #[arg(long, value_name = "REGISTRY", help_heading = "Registries")]
    plain_http,
    /// Trust these authorities beside the system's: PEM files, repeated or comma-separated
    ///
    /// [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    ca_file,
    /// Where single registries have certificates: directories, repeated or comma-separated
    ///
    /// As containers-certs.d(5) has it: DIR/host:port/ with *.crt (authorities to trust for this registry) and
    /// NAME.cert with NAME.key (the client certificate that it is shown). The first that has the registry counts;
    /// changes are seen without a restart. [default: /etc/containers/certs.d,/etc/docker/certs.d]
    #[arg(long, value_name = "DIR", help_heading = "Registries")]
    certs_dir,
    /// The puller's own credentials: docker config.json files, repeated or comma-separated
    ///
    /// The first that has credentials for a repository wins. Not given: $REGISTRY_AUTH_FILE,
    /// $DOCKER_CONFIG/config.json and ~/.docker/config.json, those that exist. `none` uses no file at all.
    /// [default: as said]
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    docker_config,
    /// Ask the kubelet's credential provider plugins that this file names: a CredentialProviderConfig, YAML or JSON
    ///
    /// The kubelet's --image-credential-provider-config; read again when it changes. Needs
    /// --credential-provider-bin-dir. See docs/credentials.md. [default: off]
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    credential_provider_config,
    /// Where the credential provider plugins are
    ///
    /// The kubelet's --image-credential-provider-bin-dir. [default: off]
    #[arg(long, value_name = "DIR", help_heading = "Registries")]
    credential_provider_bin_dir,
    /// Mirrors, blocked registries and short names: a containers registries.conf, version 2
    ///
    /// Files in the directory of the same name with .d behind it extend it. It need not exist, and is read again when
    /// it changes. [default: /etc/containers/registries.conf]
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    registries_conf,
    /// Let these registries send us to private addresses (storage, token servers): repeated or comma-separated
    ///
    /// A host or host:port, or * for all. A registry that is at a private address itself needs no mention, and
    /// link-local addresses are never dialled. [default: none]
    #[arg(long, value_name = "REGISTRY", help_heading = "Registries")]
    allow_private,
    /// Which images may be pulled, and whose signatures they need: a containers-policy.json(5) file
    ///
    /// It and the keys that it names are read again when they change. Where there is no such file, everything is
    /// accepted; with one that can't be read or understood, nothing is pulled (blocked by policy). See docs/policy.md.
    /// [default: /etc/containers/policy.json]
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    policy,
    /// How long nothing may move before an attempt ends (timeout)
    ///
    /// A duration. There is no limit on the total time of a pull. [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = "Registries")]
    idle_timeout,
    /// How long a connection may take, TLS included
    ///
    /// A duration. [default: 15s]
    #[arg(long, value_name = "TIME", help_heading = "Registries")]
    connect_timeout,
    /// Most pulls over all registries whose bytes move at the same time
    ///
    /// A number. Whoever waits (for an answer, a back-off, credentials, space) does not count. [default: 4]
    #[arg(long, value_name = "N", help_heading = "Registries")]
    max_pulls,
    /// Most attempts at one registry at the same time, those that wait for it included
    ///
    /// A number. As many as --max-pulls, so that where there is only one registry it may use the whole line; hung
    /// attempts at one registry hold its own places and nobody else's. [default: 4]
    #[arg(long, value_name = "N", help_heading = "Registries")]
    max_pulls_per_registry,
    /// Layers of one image that are fetched at the same time
    ///
    /// A number. [default: 3]
    #[arg(long, value_name = "N", help_heading = "Registries")]
    layers_per_pull,

    /// What is logged: a level (error, warn, info, debug, trace) or a filter such as info,puller::registry=debug
    ///
    /// [default: info]
    #[arg(long, value_name = "FILTER", help_heading = "Logging")]
    log,
    /// How it is logged: human, json, or auto: human on a terminal, JSON off it
    ///
    /// [default: auto]
    #[arg(long, value_name = "FORMAT", help_heading = "Logging")]
    log_format,
}
