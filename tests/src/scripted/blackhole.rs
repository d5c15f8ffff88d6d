//! A registry that accepts connections and never answers.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::{net::TcpListener, task::JoinHandle};

use crate::wait::eventually;

/// Accepts on a port of loopback, keeps every connection open, reads nothing and writes nothing.
#[derive(Debug)]
pub struct Blackhole {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl Blackhole {
    /// Starts one.
    ///
    /// # Panics
    /// Loopback has no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let server = tokio::spawn(async move {
            let mut swallowed = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                swallowed.push(stream);
                count.fetch_add(1, Relaxed);
            }
        });
        Self {
            address,
            accepted,
            server,
        }
    }

    /// `127.0.0.1:port`, the registry's name in references.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The full reference of a name in this registry.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// How many connections it has swallowed.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Relaxed)
    }

    /// Waits until it has swallowed one.
    ///
    /// # Panics
    /// Nobody connected for a minute.
    pub async fn wait_for_a_victim(&self) {
        eventually("a connection to the black hole", || {
            (self.accepted() > 0).then_some(())
        })
        .await;
    }
}

impl Drop for Blackhole {
    fn drop(&mut self) {
        self.server.abort();
    }
}
