//! When a tag is asked for again.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use jiff::Timestamp;
use puller_client::api::Image;

use super::until;
use crate::api::{ClusterCatalog, PROGRESSING};

/// The least age that the puller tells apart: an answer that is younger counts as new.
const NEW: Duration = Duration::from_secs(10);
/// A tag whose check is overdue is being asked for by the puller already; this is when we look at it anyway.
const OVERDUE: Duration = Duration::from_secs(60);
/// Longest interval: longer than anybody waits, and short enough to reckon with.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How old the registry's answer to a catalog's tag may be; none: as old as it is.
pub(super) fn max_age(catalog: &ClusterCatalog) -> Option<Duration> {
    // Whoever makes or edits a catalog wants what the tag stands for now, not at some earlier catalog's time.
    let is_new = catalog
        .condition(PROGRESSING)
        .is_none_or(|condition| condition.observed_generation != Some(catalog.generation()));
    let interval = interval(catalog);
    match is_new {
        true => Some(interval.unwrap_or(NEW).min(NEW)),
        false => interval,
    }
}

/// When the next check is due; none: never.
pub(super) fn due(catalog: &ClusterCatalog, image: &Image, now: Timestamp) -> Option<Duration> {
    let interval = interval(catalog)?;
    let checked = image.resolution.as_ref()?.checked.as_ref()?;
    let due = Timestamp::from_second(checked.seconds)
        .ok()?
        .checked_add(interval)
        .ok()?;
    Some(if due > now { until(due, now) } else { OVERDUE })
}

/// The interval that the spec asks for, with up to a hundredth added: more for some catalogs and less for
/// others, always the same for one, so that those that were made together don't stay together.
fn interval(catalog: &ClusterCatalog) -> Option<Duration> {
    /// Parts of the interval that are told apart.
    const PARTS: u64 = 1_000;
    let minutes = catalog.spec.source.image.as_ref()?.poll_interval_minutes?;
    let seconds = u64::try_from(minutes).ok()?.saturating_mul(60);
    let interval = Duration::from_secs(seconds).min(LONGEST);
    let mut hasher = DefaultHasher::new();
    catalog.metadata.uid.hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % PARTS).unwrap_or_default();
    Some(interval + interval / 100 / PARTS as u32 * part)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::catalog, *};

    fn every(minutes: Option<i64>, uid: &str) -> ClusterCatalog {
        let mut catalog = catalog("q.io/a/b:v1");
        catalog.metadata.uid = Some(uid.into());
        catalog.spec.source.image.as_mut().unwrap().poll_interval_minutes = minutes;
        catalog
    }

    #[test]
    fn the_interval_is_a_little_longer_and_differs_between_catalogs() {
        let intervals: Vec<_> = (0..50)
            .map(|n| interval(&every(Some(10), &n.to_string())).unwrap())
            .collect();
        let (least, most) = (intervals.iter().min().unwrap(), intervals.iter().max().unwrap());
        assert!(
            *least >= Duration::from_secs(600) && *most <= Duration::from_secs(606),
            "{least:?} {most:?}"
        );
        assert!(*most - *least > Duration::from_secs(3), "{least:?} {most:?}");
    }

    #[test]
    fn absurd_intervals_are_bounded_ones() {
        for minutes in [i64::MAX, i64::MAX / 60, 1 << 40] {
            let due = interval(&every(Some(minutes), "a")).unwrap();
            assert!(due >= LONGEST && due <= LONGEST * 2);
        }
        assert_eq!(interval(&every(Some(-1), "a")), None);
    }

    #[test]
    fn an_object_that_was_not_looked_at_yet_wants_the_tag_of_now() {
        assert_eq!(max_age(&every(None, "a")), Some(NEW));
        assert_eq!(max_age(&every(Some(10), "a")), Some(NEW));
    }
}
