//! How registries are spoken to.

use std::{path::PathBuf, time::Duration};

/// Longer than any sane registry needs between two pieces of data, shorter than a person's patience.
const DEFAULT_IDLE: Duration = Duration::from_secs(60);

/// Three SYNs are lost before a connection takes this long.
const DEFAULT_CONNECT: Duration = Duration::from_secs(15);

/// The settings of a [`Transport`](super::Transport). Proxies are taken from the environment
/// (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
#[derive(Debug, Clone)]
pub struct Settings {
    /// Registries, as `host` (any port) or `host:port`, that may be spoken to over plain HTTP. TLS is
    /// tried first all the same. Loopback hosts always may.
    pub plain_http: Vec<String>,
    /// PEM files with authorities to be trusted beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// Where hosts have directories with certificates of their own, as in containers-certs.d(5). The
    /// first that has one for a host counts.
    pub certs_dirs: Vec<PathBuf>,
    /// Which hosts may be at private or loopback addresses.
    pub allow_private: AllowPrivate,
    /// An attempt ends when nothing moved for so long. There is no limit on the whole.
    pub idle_timeout: Duration,
    /// For the resolution of a name, the connection and the TLS handshake together.
    pub connect_timeout: Duration,
    /// The `User-Agent` header.
    pub user_agent: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            plain_http: Vec::new(),
            ca_files: Vec::new(),
            certs_dirs: Vec::new(),
            allow_private: AllowPrivate::default(),
            idle_timeout: DEFAULT_IDLE,
            connect_timeout: DEFAULT_CONNECT,
            user_agent: concat!("puller/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Who may be at a private or loopback address, beside a registry that is at such an address itself
/// and what that registry refers to. Link-local addresses are never dialled, whatever this says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowPrivate {
    /// Nobody else.
    #[default]
    No,
    /// These hosts, by name or address and without a port: registries, token servers or storage.
    Hosts(Vec<String>),
    /// Everybody.
    All,
}

impl AllowPrivate {
    /// Whether this host may be at such an address. An IPv6 address may have its brackets or not.
    pub(super) fn covers(&self, host: &str) -> bool {
        let bare = |host: &str| {
            host.trim_start_matches('[')
                .trim_end_matches(']')
                .trim_end_matches('.')
                .to_ascii_lowercase()
        };
        match self {
            Self::No => false,
            Self::All => true,
            Self::Hosts(hosts) => hosts.iter().any(|allowed| bare(allowed) == bare(host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_covers_its_hosts_only() {
        let list = AllowPrivate::Hosts(vec!["Storage.corp".into(), "10.0.0.1".into(), "fd00::1".into()]);
        for host in ["storage.corp", "storage.corp.", "10.0.0.1", "[fd00::1]"] {
            assert!(list.covers(host), "{host}");
        }
        for host in ["corp", "x.storage.corp", "10.0.0.11", "fd00::2"] {
            assert!(!list.covers(host), "{host}");
        }
        assert!(!AllowPrivate::No.covers("storage.corp"));
        assert!(AllowPrivate::All.covers("anything"));
    }
}
