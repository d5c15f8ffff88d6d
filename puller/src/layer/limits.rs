//! How much an image may ask of the machine.

use crate::error::Fault;

use super::fault;

/// Bounds on one image. Whatever goes beyond one is `limit exceeded`, named with both numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Uncompressed bytes, of all layers together. They are counted twice, each against this bound: as
    /// they are read (whether they reach the disk or not), and as the size of the files written (where
    /// holes of sparse files count although the archive does not hold them).
    pub max_bytes: u64,
    /// Archive entries of all layers together, those that are skipped included.
    pub max_entries: u64,
    /// Directories above an entry, in the archive and on disk.
    pub max_depth: usize,
    /// Bytes of an entry's path.
    pub max_path: usize,
    /// Uncompressed bytes for each compressed byte of one layer.
    pub max_ratio: u64,
    /// Uncompressed bytes of one layer that are allowed whatever their ratio.
    pub ratio_floor: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 10 << 30,
            max_entries: 1_000_000,
            // The deepest trees of public images (nested node_modules) have about 40 levels. Walks hold
            // one open directory for each level, and a process may have 1,024 by default.
            max_depth: 128,
            // Linux's PATH_MAX without its NUL: no reader could open what has a longer path.
            max_path: 4095,
            // Text and JSON reach 30, gzip can reach 1,032, zstd far more. Above the floor a layer is
            // read for its content, and content does not shrink two hundredfold.
            max_ratio: 200,
            // A file of zeros (a preallocated database, a sparse log) is legitimate, and a quarter of a
            // gibibyte costs the volume little beside `max_bytes`.
            ratio_floor: 256 << 20,
        }
    }
}

impl Limits {
    pub(super) fn check_read(&self, layer: &str, read: u64) -> Result<(), Fault> {
        check(layer, "uncompressed bytes", read, self.max_bytes)
    }

    pub(super) fn check_written(&self, layer: &str, written: u64) -> Result<(), Fault> {
        check(layer, "bytes written to the tree", written, self.max_bytes)
    }

    pub(super) fn check_entries(&self, layer: &str, entries: u64) -> Result<(), Fault> {
        check(layer, "entries", entries, self.max_entries)
    }

    pub(super) fn check_depth(&self, layer: &str, depth: usize) -> Result<(), Fault> {
        check(
            layer,
            "directories above an entry",
            depth as u64,
            self.max_depth as u64,
        )
    }

    pub(super) fn check_path(&self, layer: &str, bytes: usize) -> Result<(), Fault> {
        check(layer, "bytes in a path", bytes as u64, self.max_path as u64)
    }

    /// `None` where the ratio is in order.
    pub(super) fn ratio_fault(&self, layer: &str, compressed: u64, uncompressed: u64) -> Option<Fault> {
        let bound = compressed.saturating_mul(self.max_ratio).max(self.ratio_floor);
        (uncompressed > bound).then(|| {
            let what = format!(
                "uncompressed bytes for each compressed byte, beyond {} bytes",
                self.ratio_floor
            );
            fault::limit(layer, &what, uncompressed / compressed.max(1), self.max_ratio)
        })
    }
}

fn check(layer: &str, what: &str, value: u64, limit: u64) -> Result<(), Fault> {
    if value > limit {
        Err(fault::limit(layer, what, value, limit))
    } else {
        Ok(())
    }
}
