//! A stream of ids whose memory is bounded by the number of ids.

use std::{
    collections::{HashSet, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll},
};

use futures_util::{Stream, task::AtomicWaker};

use super::{Informer, lock};

/// The ids of Images to look at again; it never ends. See [`Informer::triggers`].
#[derive(Debug)]
pub struct Triggers {
    pending: Arc<Pending>,
    /// Keeps the task alive.
    _informer: Informer,
}

/// The other end.
#[derive(Debug)]
pub(super) struct Subscriber(Weak<Pending>);

#[derive(Debug, Default)]
struct Pending {
    ids: Mutex<Ids>,
    waker: AtomicWaker,
}

/// Each id once, in the order in which they came.
#[derive(Debug, Default)]
struct Ids {
    order: VecDeque<String>,
    known: HashSet<String>,
}

impl Ids {
    fn push(&mut self, id: String) {
        if self.known.insert(id.clone()) {
            self.order.push_back(id);
        }
    }

    fn pop(&mut self) -> Option<String> {
        let id = self.order.pop_front()?;
        self.known.remove(&id);
        Some(id)
    }
}

pub(super) fn channel(first: impl Iterator<Item = String>, informer: Informer) -> (Subscriber, Triggers) {
    let pending = Arc::new(Pending::default());
    {
        let mut ids = lock(&pending.ids);
        first.for_each(|id| ids.push(id));
    }
    (
        Subscriber(Arc::downgrade(&pending)),
        Triggers {
            pending,
            _informer: informer,
        },
    )
}

impl Subscriber {
    /// Tells of changes; false: nobody listens any more.
    pub(super) fn tell(&self, changed: &[String]) -> bool {
        let Some(pending) = self.0.upgrade() else {
            return false;
        };
        {
            let mut ids = lock(&pending.ids);
            changed.iter().for_each(|id| ids.push(id.clone()));
        }
        pending.waker.wake();
        true
    }
}

impl Stream for Triggers {
    type Item = String;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<String>> {
        // Registered first, so that what comes after the look wakes us.
        self.pending.waker.register(cx.waker());
        match lock(&self.pending.ids).pop() {
            Some(id) => Poll::Ready(Some(id)),
            None => Poll::Pending,
        }
    }
}
