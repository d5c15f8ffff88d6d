//! `puller`: orders the start and the end.

use std::process::ExitCode;

use puller::{
    cli::{self, Cli, Command},
    config::Settings,
    error::Error,
    logging, oneshot, serve,
};

fn main() -> ExitCode {
    cli::end(run(cli::parse()))
}

fn run(cli: Cli) -> Result<(), Error> {
    let Cli { connection, command } = cli;
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| Error::Config("another TLS provider is installed already".into()))?;
    // Its first use gathers entropy for some 40 ms, which the first pull need not wait for.
    std::thread::spawn(|| {
        let mut byte = [0];
        rustls::crypto::CryptoProvider::get_default().map(|provider| provider.secure_random.fill(&mut byte))
    });
    match command {
        Command::Serve(arguments) => {
            let variable = |name: &str| std::env::var_os(name);
            let load = || Settings::load((*arguments).clone(), &variable);
            let settings = load()?;
            let runtime = runtime()?;
            let _within = runtime.enter();
            let log = logging::init(&settings.log, settings.log_format, &variable)?;
            tracing::info!(version = env!("CARGO_PKG_VERSION"), volume = %settings.volume.display(), "puller");
            let end = runtime.block_on(serve::serve(&settings, || log.set(&load()?.log)));
            log.end();
            end
        }
        Command::Pull(arguments) => runtime()?.block_on(oneshot::pull(&arguments)),
        Command::Call(call) => runtime()?.block_on(cli::call(&connection, call)),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
