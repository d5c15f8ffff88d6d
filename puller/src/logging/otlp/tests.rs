use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, status::StatusCode},
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::{
    config::{ServeArgs, Settings},
    domain::{Platform, Reason, Scope, Selection, UnpackOptions, Wish},
    hub::{Event, Filter},
    machine::ClaimRequest,
    serve,
};

/// What a collector was sent.
#[derive(Debug, Default, Clone)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts one; where it is.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server =
            tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, endpoint)
    }

    /// All spans by their names.
    fn spans(&self) -> HashMap<String, Span> {
        let requests = self.0.lock().unwrap().clone();
        let spans = requests
            .into_iter()
            .flat_map(|request| request.resource_spans)
            .flat_map(|of_resource| of_resource.scope_spans)
            .flat_map(|of_scope| of_scope.spans);
        spans.map(|span| (span.name.clone(), span)).collect()
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

fn exporter(endpoint: &str) -> SpanExporter {
    let builder = SpanExporter::builder().with_tonic().with_endpoint(endpoint);
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_is_a_trace_of_its_parts() {
    let (collector, endpoint) = Collector::start().await;
    let traces = Traces::by(exporter(&endpoint));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(traces.layer()), || {
        let pull = tracing::info_span!(
            target: "puller::daemon",
            "pull",
            reference = "quay.io/team/app:v1",
            otel.status_code = tracing::field::Empty
        );
        pull.in_scope(|| {
            tracing::info_span!(target: "puller::pull", "resolve").in_scope(|| ());
            tracing::info_span!(target: "h2", "of a library").in_scope(|| ());
            tracing::warn!(target: "puller::daemon", reason = "not found", "attempt failed");
        });
        pull.record("otel.status_code", "ERROR");
    });
    tokio::task::spawn_blocking(move || traces.end()).await.unwrap();

    let spans = collector.spans();
    let mut names: Vec<_> = spans.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["pull", "resolve"]);
    let (pull, resolve) = (&spans["pull"], &spans["resolve"]);
    assert_eq!(
        (&resolve.parent_span_id, &resolve.trace_id),
        (&pull.span_id, &pull.trace_id)
    );
    assert_eq!(
        text(&pull.attributes, "reference").as_deref(),
        Some("quay.io/team/app:v1")
    );
    assert_eq!(pull.status.as_ref().unwrap().code, StatusCode::Error as i32);
    assert_eq!(pull.events[0].name, "attempt failed");
    let requests = collector.0.lock().unwrap();
    let resource = requests[0].resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(
        text(&resource.attributes, "service.name").as_deref(),
        Some("puller")
    );
}

/// All in one thread, so that the thread's subscriber sees what the daemon does.
#[tokio::test]
async fn an_attempt_of_the_daemon_is_a_trace() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (collector, endpoint) = Collector::start().await;
    let traces = Traces::by(exporter(&endpoint));
    let traced = tracing::subscriber::set_default(tracing_subscriber::registry().with(traces.layer()));
    let directory = tempfile::tempdir().unwrap();
    let mut settings = Settings::load(ServeArgs::default(), &|_| None).unwrap();
    settings.volume = directory.path().join("volume");
    let daemon = serve::open(&settings).unwrap();
    let running = tokio::spawn({
        let daemon = Arc::clone(&daemon);
        async move { daemon.run().await }
    });
    let mut watcher = daemon.watch(None, Filter::default()).unwrap();
    let claim = ClaimRequest {
        claimant: "test".into(),
        ..ClaimRequest::default()
    };
    let wish = Wish {
        // Nobody answers there.
        reference: daemon.routes().reference("127.0.0.1:1/team/app:v1").unwrap(),
        asked: "127.0.0.1:1/team/app:v1".into(),
        platform: Platform::of_this_machine(),
        selection: Selection::default(),
        unpack: UnpackOptions::default(),
        scope: Scope::default(),
    };
    daemon.fetch(wish, claim, None).unwrap();
    loop {
        if let Event::Put(image, _) = watcher.next().await
            && image.last_error.is_some()
        {
            break;
        }
    }
    daemon.stop();
    running.await.unwrap();
    drop(traced);
    tokio::task::spawn_blocking(move || traces.end()).await.unwrap();

    let spans = collector.spans();
    let (pull, resolve) = (&spans["pull"], &spans["resolve"]);
    assert_eq!(resolve.parent_span_id, pull.span_id);
    assert_eq!(
        text(&pull.attributes, "reference").as_deref(),
        Some("127.0.0.1:1/team/app:v1")
    );
    let status = pull.status.as_ref().unwrap();
    assert_eq!(
        (status.code, status.message.as_str()),
        (StatusCode::Error as i32, Reason::Network.words())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_silent_keeps_nobody() {
    // Its connections are taken by the kernel, and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let traces = Traces::by(exporter(&format!("http://{}", silent.local_addr().unwrap())));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(traces.layer()), || {
        // More than the queue of the SDK holds.
        for _ in 0..5_000 {
            tracing::info_span!(target: "puller::daemon", "pull").in_scope(|| ());
        }
    });
    let ended = tokio::task::spawn_blocking(move || traces.end());
    tokio::time::timeout(10 * FLUSH, ended)
        .await
        .expect("it ends")
        .unwrap();
}
