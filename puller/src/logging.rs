//! Logs: on stderr, human on a terminal and JSON off it, with a level that can be changed at run time.

use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, fmt, fmt::MakeWriter, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

use crate::{config::LogFormat, error::Error};

/// Changes what is logged while the program runs.
#[derive(Debug, Clone)]
pub struct Handle {
    filter: reload::Handle<EnvFilter, Registry>,
}

/// Sets up logging for the whole process.
///
/// # Errors
/// The filter is none, or it was done before.
pub fn init(filter: &str, format: LogFormat) -> Result<Handle, Error> {
    let terminal = io::stderr().is_terminal();
    let human = match format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => terminal,
    };
    // https://no-color.org
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (subscriber, handle) = build(filter, human, colour, io::stderr)?;
    subscriber
        .try_init()
        .map_err(|error| Error::Config(format!("logging is set up already: {error}")))?;
    Ok(handle)
}

fn build<W>(
    filter: &str,
    human: bool,
    colour: bool,
    writer: W,
) -> Result<(impl Subscriber + Send + Sync + 'static, Handle), Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = fmt::layer().with_writer(writer);
    let lines = match human {
        true => lines.with_ansi(colour).boxed(),
        false => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    Ok((
        tracing_subscriber::registry().with(filter).with(lines),
        Handle { filter: handle },
    ))
}

fn parse(filter: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(filter).map_err(|error| {
        Error::Config(format!(
            "{filter:?} is neither a level nor a filter such as info,puller::registry=debug: {error}"
        ))
    })
}

impl Handle {
    /// Logs by another filter from now on.
    ///
    /// # Errors
    /// The filter is none; the old one stays.
    pub fn set(&self, filter: &str) -> Result<(), Error> {
        self.filter.reload(parse(filter)?).map_err(|error| gone(&error))
    }
}

fn gone(error: &reload::Error) -> Error {
    Error::Config(format!("the log's filter is gone: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Memory {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    fn set_up(filter: &str, human: bool) -> (Memory, impl Subscriber + Send + Sync + 'static, Handle) {
        let memory = Memory::default();
        let writer = memory.clone();
        let (subscriber, handle) = build(filter, human, false, move || writer.clone()).unwrap();
        (memory, subscriber, handle)
    }

    #[test]
    fn json_is_one_object_a_line_with_the_span_of_the_pull() {
        let (memory, subscriber, _handle) = set_up("info", false);
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("pull", image = "abc").entered();
            tracing::info!(bytes = 7, "fetched \"a\nlayer\"");
        });
        let line: serde_json::Value = serde_json::from_str(&memory.take()).unwrap();
        assert_eq!(line["message"], "fetched \"a\nlayer\"");
        assert_eq!((&line["bytes"], &line["level"]), (&7.into(), &"INFO".into()));
        assert_eq!(line["span"]["image"], "abc");
    }

    #[test]
    fn human_is_a_line_without_control_characters() {
        let (memory, subscriber, _handle) = set_up("info", true);
        tracing::subscriber::with_default(subscriber, || tracing::info!("evil {}", "\u{1b}[2Jtext"));
        let line = memory.take();
        assert!(line.contains("evil") && !line.contains('\u{1b}'), "{line:?}");
    }

    #[test]
    fn the_level_changes_at_run_time_and_a_wrong_one_changes_nothing() {
        let (memory, subscriber, handle) = set_up("warn", true);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("first");
            handle.set("info").unwrap();
            tracing::info!("second");
            assert!(handle.set("loud=?").is_err());
            tracing::info!("third");
        });
        let log = memory.take();
        assert!(
            !log.contains("first") && log.contains("second") && log.contains("third"),
            "{log}"
        );
        assert!(handle.set("info").is_err(), "with the subscriber went the filter");
    }
}
