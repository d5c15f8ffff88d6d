//! A count of the connections that a client has begun.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tower::{Layer, Service};

/// The count, and the layer that counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Dials(pub(super) Arc<AtomicU64>);

/// What makes connections, counted.
#[derive(Debug, Clone)]
pub(in crate::registry) struct Counted<S> {
    connector: S,
    dials: Dials,
}

impl<S> Layer<S> for Dials {
    type Service = Counted<S>;

    fn layer(&self, connector: S) -> Counted<S> {
        Counted {
            connector,
            dials: self.clone(),
        }
    }
}

impl<R, S: Service<R>> Service<R> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.dials.0.fetch_add(1, Ordering::Relaxed);
        self.connector.call(request)
    }
}
