//! What `make bench` is made of: image shapes, a disk of its own, the contestants, what is asked of the daemon
//! alone (load, watchers, restarts), and the report.
//!
//! Everything is measured in one run, interleaved, on the same cold disk: machines are noisy, so only
//! the ratios of one run mean anything.

pub mod contestant;
pub mod disk;
pub mod load;
pub mod process;
pub mod report;
pub mod restart;
pub mod shape;
pub mod thousand;
pub mod watchers;

use std::time::Duration;

/// One pull, measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Run {
    /// From the request to the tree, without `sync`.
    pub wall: Duration,
    /// Of it, apart: making it durable. Only the puller does that.
    pub sync: Option<Duration>,
    /// Of all processes that took part, but the registry.
    pub cpu: Duration,
    /// The largest sum of resident sets seen, in bytes.
    pub peak: u64,
}

/// The middle one by a key; none of none.
pub fn median<T: Copy, K: PartialOrd>(runs: &[T], key: impl Fn(&T) -> K) -> Option<T> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&[3, 1, 2], |n| *n), Some(2));
        assert_eq!(median(&[] as &[i32], |n| *n), None);
    }
}
