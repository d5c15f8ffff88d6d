//! Who may use what there is only one of in the process: the memory for a wide zstd window.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::domain::Activity;

use super::{NAME, fault, output::Stop};

/// Whether a layer with a wide window is being decompressed anywhere in the process.
static WIDE: Mutex<bool> = Mutex::new(false);
static WIDE_FREED: Condvar = Condvar::new();

/// How often who waits for the permit looks whether its attempt was cancelled: nobody wakes it for that.
const LOOK: Duration = Duration::from_millis(100);

/// The permit; it is given back when this is dropped.
pub(super) struct WidePermit(());

impl Drop for WidePermit {
    fn drop(&mut self) {
        *lock(&WIDE) = false;
        WIDE_FREED.notify_one();
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    /// The layer runs ahead of the one that is being applied.
    #[default]
    Ahead,
    /// It is being applied.
    Begun,
    /// Nobody wants it any more.
    Gone,
}

/// Whether a layer's turn to be applied has come.
#[derive(Default)]
pub(super) struct Turn {
    state: Mutex<State>,
    changed: Condvar,
}

impl Turn {
    pub(super) fn begin(&self) {
        self.set(State::Begun);
    }

    pub(super) fn give_up(&self) {
        self.set(State::Gone);
    }

    fn set(&self, state: State) {
        *lock(&self.state) = state;
        self.changed.notify_all();
    }

    /// Waits for the layer's turn, then for the permit.
    pub(super) fn wide(&self, activity: &Activity) -> Result<WidePermit, Stop> {
        let ahead = |state: &mut State| *state == State::Ahead;
        let state = self
            .changed
            .wait_while(lock(&self.state), ahead)
            .unwrap_or_else(PoisonError::into_inner);
        if *state == State::Gone {
            return Err(Stop::Gone);
        }
        drop(state);
        let mut taken = lock(&WIDE);
        if *taken {
            let _wait = activity.waiting_for("another layer with a zstd window above 8 MiB");
            while *taken {
                if activity.is_cancelled() || *lock(&self.state) == State::Gone {
                    return Err(Stop::Fault(fault::cancelled(NAME)));
                }
                (taken, _) = WIDE_FREED
                    .wait_timeout(taken, LOOK)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
        *taken = true;
        Ok(WidePermit(()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
