//! Where the daemon is.

use std::{fs, path::PathBuf};

use puller_client::{Client, DEFAULT_ENDPOINT, TlsOptions};

use crate::error::Error;

/// Where the daemon is, and how to show it who we are.
#[derive(Debug, Clone, clap::Args)]
pub struct Connection {
    /// Where the daemon is: unix:///path, http://host:port or https://host:port
    #[arg(
        long, global = true, env = "PULLER_ENDPOINT", value_name = "URI", default_value = DEFAULT_ENDPOINT,
        help_heading = "Connection"
    )]
    pub endpoint: String,
    /// For https://: the authorities of the daemon's certificate, a PEM file [default: the system's]
    #[arg(
        long,
        global = true,
        env = "PULLER_SERVER_CA",
        value_name = "FILE",
        help_heading = "Connection"
    )]
    pub server_ca: Option<PathBuf>,
    /// For https://: our certificate chain, a PEM file
    #[arg(
        long,
        global = true,
        env = "PULLER_CLIENT_CERT",
        value_name = "FILE",
        help_heading = "Connection",
        requires = "client_key"
    )]
    pub client_cert: Option<PathBuf>,
    /// For https://: the private key of our certificate, a PEM file
    #[arg(
        long,
        global = true,
        env = "PULLER_CLIENT_KEY",
        value_name = "FILE",
        help_heading = "Connection",
        requires = "client_cert"
    )]
    pub client_key: Option<PathBuf>,
}

impl Connection {
    /// A client of the daemon; nothing is dialled yet.
    ///
    /// # Errors
    /// The endpoint is none, or a PEM file can't be read.
    pub fn client(&self) -> Result<Client, Error> {
        let Self {
            endpoint,
            server_ca,
            client_cert,
            client_key,
        } = self;
        let identity = match (client_cert, client_key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            _ => None,
        };
        let tls = TlsOptions {
            ca: server_ca.as_ref().map(read).transpose()?,
            identity,
            server_name: None,
        };
        // Templates make empty variables; one is as good as none.
        let endpoint = if endpoint.is_empty() {
            DEFAULT_ENDPOINT
        } else {
            endpoint
        };
        Ok(Client::connect_with(endpoint, &tls)?)
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| {
        std::io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display())).into()
    })
}
