//! Logs: on stderr, human on a terminal and JSON off it, with a level that can be changed at run time. Traces
//! beside them, where the feature `otlp` is built in.

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::Filtered, fmt, fmt::MakeWriter, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

use crate::{config::LogFormat, error::Error};

#[cfg(feature = "otlp")]
mod otlp;

/// Any of these says where a collector of traces is
/// ([specification](https://opentelemetry.io/docs/specs/otel/protocol/exporter/)).
const COLLECTORS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// Changes what is logged while the program runs, and ends it.
#[derive(Debug)]
pub struct Handle {
    filter: reload::Handle<EnvFilter, Registry>,
    #[cfg(feature = "otlp")]
    traces: Option<otlp::Traces>,
}

/// The lines of a log, on what else there is.
type Lines = Filtered<Box<dyn Layer<Registry> + Send + Sync>, reload::Layer<EnvFilter, Registry>, Registry>;

/// Sets up logging for the whole process, and traces if `variable` tells where to send them. Must be called within
/// the runtime, which sends them.
///
/// # Errors
/// The filter is none, traces can't be sent as the variables say, or it was done before.
pub fn init(
    filter: &str,
    format: LogFormat,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Handle, Error> {
    let terminal = io::stderr().is_terminal();
    let human = match format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => terminal,
    };
    // https://no-color.org
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (lines, filter) = lines(filter, human, colour, io::stderr)?;
    let subscriber = tracing_subscriber::registry().with(lines);
    let wanted = wants_traces(variable);
    #[cfg(feature = "otlp")]
    let traces = wanted.then(otlp::Traces::by_variables).transpose()?;
    #[cfg(feature = "otlp")]
    let subscriber = subscriber.with(traces.as_ref().map(otlp::Traces::layer));
    subscriber
        .try_init()
        .map_err(|error| Error::Config(format!("logging is set up already: {error}")))?;
    if wanted && cfg!(not(feature = "otlp")) {
        tracing::warn!(
            "OTEL_ variables ask for traces; there are none, since this puller was built without its feature otlp"
        );
    }
    Ok(Handle {
        filter,
        #[cfg(feature = "otlp")]
        traces,
    })
}

fn wants_traces(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    !is_off && COLLECTORS.iter().any(is_set)
}

fn lines<W>(
    filter: &str,
    human: bool,
    colour: bool,
    writer: W,
) -> Result<(Lines, reload::Handle<EnvFilter, Registry>), Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = fmt::layer().with_writer(writer);
    let lines = match human {
        true => lines.with_ansi(colour).boxed(),
        false => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    Ok((lines.with_filter(filter), handle))
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

    /// Sends the traces that are left, which takes 2 s at most. To be called within the runtime, at its end.
    pub fn end(&self) {
        #[cfg(feature = "otlp")]
        if let Some(traces) = &self.traces {
            traces.end();
        }
    }
}

fn gone(error: &reload::Error) -> Error {
    Error::Config(format!("the log's filter is gone: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::Subscriber;

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
        let (lines, filter) = lines(filter, human, false, move || writer.clone()).unwrap();
        let handle = Handle {
            filter,
            #[cfg(feature = "otlp")]
            traces: None,
        };
        (memory, tracing_subscriber::registry().with(lines), handle)
    }

    #[test]
    fn json_is_one_object_a_line_with_the_span_of_the_pull() {
        let (memory, subscriber, _handle) = set_up("info", false);
        tracing::subscriber::with_default(subscriber, || {
            let _pull = tracing::info_span!("pull", image = "abc").entered();
            let _layer = tracing::info_span!("layer", size = 9).entered();
            tracing::info!(bytes = 7, "fetched \"a\nlayer\"");
        });
        let line: serde_json::Value = serde_json::from_str(&memory.take()).unwrap();
        assert_eq!(line["message"], "fetched \"a\nlayer\"");
        assert_eq!((&line["bytes"], &line["level"]), (&7.into(), &"INFO".into()));
        assert_eq!(
            (&line["spans"][0]["name"], &line["spans"][0]["image"]),
            (&"pull".into(), &"abc".into())
        );
        assert_eq!(
            (&line["spans"][1]["name"], &line["spans"][1]["size"]),
            (&"layer".into(), &9.into())
        );
    }

    #[test]
    fn traces_are_wanted_where_a_collector_is_named() {
        for (set, wanted) in [
            (vec![], false),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")], false),
            (vec![("OTEL_SERVICE_NAME", "puller")], false),
            (
                vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")],
                true,
            ),
            (
                vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4317")],
                true,
            ),
            (
                vec![
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"),
                    ("OTEL_SDK_DISABLED", "True"),
                ],
                false,
            ),
        ] {
            let variable = |name: &str| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.into())
            };
            assert_eq!(wants_traces(&variable), wanted, "{set:?}");
        }
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
