//! Traces by OTLP, for those who set the standard variables: one trace per attempt of a pull, with a span for
//! each of its parts.
//!
//! Source: the [exporter's variables](https://opentelemetry.io/docs/specs/otel/protocol/exporter/), which the SDK
//! reads by itself.

use std::time::Duration;

use opentelemetry::{Key, trace::TracerProvider as _};
use opentelemetry_otlp::{SpanExporter, WithTonicConfig as _, tonic_types::transport::ClientTlsConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use crate::error::Error;

/// What the traces are told to be of, where no variable says something else.
const SERVICE: &str = "puller";

/// How long the end waits for a collector to take the last spans: one that is gone must not use up the time that
/// a pod has to end.
const FLUSH: Duration = Duration::from_secs(2);

/// What sends spans away.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// To where the variables say. Must be called within the runtime that is to do the sending.
    ///
    /// # Errors
    /// A variable holds what can't be used.
    pub(super) fn by_variables() -> Result<Self, Error> {
        let built = SpanExporter::builder()
            .with_tonic()
            .with_tls_config(ClientTlsConfig::new().with_enabled_roots())
            .build();
        let exporter = built.map_err(|error| {
            Error::Config(format!(
                "traces can't be sent as the OTEL_ variables say: {error}"
            ))
        })?;
        Ok(Self::by(exporter))
    }

    fn by(exporter: SpanExporter) -> Self {
        let mut resource = Resource::builder();
        let said = Resource::builder().build().get(&Key::new("service.name"));
        // The SDK's own name for whoever has none.
        if said.is_none_or(|name| name.as_str().starts_with("unknown_service")) {
            resource = resource.with_service_name(SERVICE);
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        Self { provider }
    }

    /// Takes the spans of the puller, whatever the log shows, and none of the libraries, whose sending of spans
    /// would make spans.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_filter(Targets::new().with_target(SERVICE, Level::INFO))
    }

    /// Sends what is left, within a time.
    pub(super) fn end(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(%error, "the last traces may not have been sent");
        }
    }
}

#[cfg(test)]
mod tests;
