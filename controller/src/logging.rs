//! Logs: on stderr, human on a terminal and JSON off it.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{
    EnvFilter, Layer as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{error::Error, flags::LogFormat};

/// Sets up logging for the whole process.
///
/// # Errors
/// The filter is none, or it was done before.
pub fn init(filter: &str, format: LogFormat) -> Result<(), Error> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Error::Config(format!(
            "--log: {filter:?} is neither a level nor a filter such as info,catalog_controller=debug: {error}"
        ))
    })?;
    let terminal = io::stderr().is_terminal();
    let human = match format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => terminal,
    };
    // https://no-color.org
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match human {
        true => lines.with_ansi(colour).boxed(),
        false => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(|error| Error::Config(format!("logging is set up already: {error}")))
}
