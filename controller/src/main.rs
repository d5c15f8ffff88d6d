//! `catalog-controller`: orders the start and the end.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use catalog_controller::{
    api,
    error::Error,
    flags::{Cli, Command, Flags},
    logging, run,
};
use clap::Parser as _;

fn main() -> ExitCode {
    let Cli { command, flags } = Cli::parse();
    let end = match command {
        Some(Command::Crd) => print_crd(),
        Some(Command::Version) => print(concat!("catalog-controller ", env!("CARGO_PKG_VERSION"), "\n")),
        None => control(&flags),
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell it to, if this fails.
            let _ = writeln!(io::stderr(), "catalog-controller: {error}");
            error.exit_code()
        }
    }
}

fn control(flags: &Flags) -> Result<(), Error> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| Error::Config("another TLS provider is installed already".into()))?;
    logging::init(&flags.log_filter(), flags.log_format)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "catalog-controller");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run::run(flags))
}

fn print_crd() -> Result<(), Error> {
    let text = serde_saphyr::to_string(&api::crd()).map_err(io::Error::other)?;
    print(&format!("---\n{text}"))
}

fn print(text: &str) -> Result<(), Error> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}
