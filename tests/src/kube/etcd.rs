//! Where kube-apiserver keeps its objects.

use std::{net::SocketAddr, path::Path};

use crate::process::{Process, free_address};

use super::{PORTS_TRIED, program};

/// A running etcd.
#[derive(Debug)]
pub(super) struct Etcd {
    /// Kept so that it is killed on drop.
    _process: Process,
    pub(super) address: SocketAddr,
}

impl Etcd {
    /// An empty one, on free ports, whose data are in this directory.
    pub(super) async fn start(directory: &Path, client: &reqwest::Client) -> anyhow::Result<Self> {
        for _ in 0..PORTS_TRIED {
            let (address, peers) = (free_address()?, free_address()?);
            let (url, peers) = (format!("http://{address}"), format!("http://{peers}"));
            let mut command = program::server("etcd");
            command
                .args(["--name", "it", "--logger", "zap", "--log-level", "warn"])
                // It is alone: there is nobody to wait for.
                .args(["--heartbeat-interval", "10", "--election-timeout", "100"])
                .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
                .args(["--listen-peer-urls", &peers])
                .args(["--initial-advertise-peer-urls", &peers])
                .arg(format!("--initial-cluster=it={peers}"))
                .arg("--data-dir")
                .arg(directory.join("etcd"));
            let health = format!("{url}/health");
            let is_ready = async || {
                let answer = client.get(&health).send().await;
                answer.is_ok_and(|answer| answer.status().is_success())
            };
            let log = directory.join("etcd.log");
            if let Some(process) = program::start(&mut command, "etcd", &log, is_ready).await? {
                return Ok(Self {
                    _process: process,
                    address,
                });
            }
        }
        anyhow::bail!("etcd found no free port in {PORTS_TRIED} tries")
    }
}
