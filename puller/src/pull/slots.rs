//! Who may go on: a slot of the registry for the whole attempt, and a slot over all only while bytes
//! move (decision 4).
//!
//! Waiting for a registry's first byte never holds a slot over all, so registries that hang, however
//! many, hold nothing that another one needs. Queues queue; they never fail.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::domain::Activity;

/// Whoever moves nothing for this long gives its slot over all to somebody else.
const IDLE: Duration = Duration::from_secs(2);

/// How often it is looked whether something moved.
const LOOK: Duration = Duration::from_millis(500);

/// All slots.
#[derive(Debug)]
pub struct Slots {
    moving: Arc<Semaphore>,
    per_registry: usize,
    registries: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Those who wait for a slot, of either kind.
    queued: Arc<AtomicUsize>,
}

impl Slots {
    /// `moving`: pulls whose bytes move, over all; `per_registry`: attempts for one registry. At least
    /// 1 each.
    pub fn new(moving: usize, per_registry: usize) -> Arc<Self> {
        Arc::new(Self {
            moving: Arc::new(Semaphore::new(moving.max(1))),
            per_registry: per_registry.max(1),
            registries: Mutex::default(),
            queued: Arc::default(),
        })
    }

    /// Waits for a slot of a registry.
    pub async fn of_registry(&self, registry: &str, activity: &Activity) -> OwnedSemaphorePermit {
        let slots = {
            let mut registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever is the last to know a registry's slots is this map: nobody uses or awaits them.
            registries.retain(|name, slots| Arc::strong_count(slots) > 1 || name == registry);
            let new = || Arc::new(Semaphore::new(self.per_registry));
            Arc::clone(registries.entry(registry.to_owned()).or_insert_with(new))
        };
        acquire(
            slots,
            || format!("a slot of registry {registry}"),
            activity,
            &self.queued,
        )
        .await
    }

    /// How many wait for a slot now.
    pub fn queued(&self) -> usize {
        self.queued.load(Relaxed)
    }

    /// The slot over all of one attempt, not taken yet.
    pub fn moving(&self, activity: Arc<Activity>) -> MovingSlot {
        MovingSlot {
            slots: Arc::clone(&self.moving),
            held: Mutex::new(None),
            turn: tokio::sync::Mutex::new(()),
            taken: AtomicU64::new(0),
            queued: Arc::clone(&self.queued),
            activity,
        }
    }
}

/// One attempt's slot over all, shared by its downloads.
#[derive(Debug)]
pub struct MovingSlot {
    slots: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
    /// One of the downloads queues for all of them.
    turn: tokio::sync::Mutex<()>,
    /// How often it was taken: whoever has queued for long has not moved meanwhile, and must not lose it
    /// at once for that.
    taken: AtomicU64,
    queued: Arc<AtomicUsize>,
    activity: Arc<Activity>,
}

impl MovingSlot {
    /// Waits until the slot is held. To be called whenever bytes have come.
    pub async fn hold(&self) {
        if self.is_held() {
            return;
        }
        let _turn = self.turn.lock().await;
        if !self.is_held() {
            let what = || String::from("a slot: as many pulls are under way as may be at a time");
            let permit = acquire(Arc::clone(&self.slots), what, &self.activity, &self.queued).await;
            self.taken.fetch_add(1, Relaxed);
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        }
    }

    /// Gives the slot back whenever nothing has moved for a while; never ends.
    pub async fn give_back_when_idle(&self) {
        let look = || (self.activity.moved(), self.taken.load(Relaxed));
        let mut seen = look();
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(LOOK).await;
            let now = look();
            if now != seen {
                seen = now;
                since = Instant::now();
            } else if since.elapsed() >= IDLE {
                *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
    }

    fn is_held(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Counts as queued until it is dropped, also by whoever gives up.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

async fn acquire(
    slots: Arc<Semaphore>,
    what: impl Fn() -> String,
    activity: &Activity,
    queued: &AtomicUsize,
) -> OwnedSemaphorePermit {
    if let Ok(permit) = Arc::clone(&slots).try_acquire_owned() {
        return permit;
    }
    let _wait = activity.waiting_for(what());
    let _queued = Queued::new(queued);
    match slots.acquire_owned().await {
        Ok(permit) => permit,
        Err(_) => unreachable!("no semaphore here is ever closed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slot_over_all_is_given_back_when_nothing_moves() {
        let slots = Slots::new(1, 1);
        let (stuck, other) = (Arc::new(Activity::default()), Arc::new(Activity::default()));
        let first = slots.moving(Arc::clone(&stuck));
        let second = slots.moving(Arc::clone(&other));
        first.hold().await;
        let waited = tokio::select! {
            () = first.give_back_when_idle() => unreachable!("it never ends"),
            () = second.hold() => Instant::now(),
        };
        assert!(second.is_held() && !first.is_held(), "at {waited:?}");
        assert_eq!(other.waits_for(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_kept_while_something_moves() {
        let slots = Slots::new(1, 1);
        let activity = Arc::new(Activity::default());
        let slot = slots.moving(Arc::clone(&activity));
        slot.hold().await;
        let moves = async {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(900)).await;
                Activity::add(&activity.bytes_fetched, 1);
                assert!(slot.is_held());
            }
        };
        tokio::select! {
            () = slot.give_back_when_idle() => unreachable!("it never ends"),
            () = moves => {}
        }
    }

    #[tokio::test]
    async fn registries_do_not_share_slots_and_say_what_is_waited_for() {
        let slots = Slots::new(1, 1);
        let activity = Activity::default();
        let held = slots.of_registry("a.example", &activity).await;
        let other = slots.of_registry("b.example", &activity).await;
        let mut queued = Box::pin(slots.of_registry("a.example", &activity));
        assert!(futures_util::poll!(&mut queued).is_pending());
        assert_eq!(activity.waits_for(), "a slot of registry a.example");
        assert_eq!(slots.queued(), 1);
        drop(held);
        drop(queued.await);
        assert_eq!(activity.waits_for(), "");
        assert_eq!(slots.queued(), 0);
        drop(other);
        drop(slots.of_registry("c.example", &activity).await);
        assert_eq!(
            slots.registries.lock().unwrap().len(),
            1,
            "unused registries are forgotten"
        );
    }
}
