//! Room on the volume: what there is, and who has been promised which part of it.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    files::{self, lock},
    volume::Volume,
};
use crate::{
    domain::{Digest, Reason},
    error::Fault,
};

/// Room on the volume's file system, for everybody who uses it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that an unprivileged process may still use.
    pub bytes_free: u64,
    /// Bytes of the file system.
    pub bytes_total: u64,
    /// Inodes that an unprivileged process may still use.
    pub inodes_free: u64,
    /// Inodes of the file system. 0: it does not say or has no limit, as tmpfs and btrfs; then
    /// `inodes_free` means nothing.
    pub inodes_total: u64,
}

/// Water marks, in hundredths of the quota, or of the file system where there is no quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Above this, what nobody claims is removed early,
    pub high: u8,
    /// until no more than this is in use.
    pub low: u8,
}

/// A number of bytes and of inodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    bytes: u64,
    inodes: u64,
}

/// What one holder has been promised, and how much of that it has written already: the file system
/// counts the latter itself.
#[derive(Debug, Clone, Copy, Default)]
struct Promise {
    all: Amount,
    spent: Amount,
}

impl Promise {
    fn open(&self) -> Amount {
        Amount {
            bytes: self.all.bytes.saturating_sub(self.spent.bytes),
            inodes: self.all.inodes.saturating_sub(self.spent.inodes),
        }
    }
}

/// All promises.
#[derive(Debug, Default)]
pub(super) struct Budget {
    next: u64,
    promises: BTreeMap<u64, Promise>,
}

/// Room that is kept for its holder until it is dropped.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub struct Reservation {
    volume: Arc<Volume>,
    key: u64,
}

impl Volume {
    /// The room there is now.
    ///
    /// # Errors
    /// The volume can't be asked.
    pub fn space(&self) -> Result<Space, Fault> {
        let stat = rustix::fs::fstatvfs(&self.dirs.root)
            .map_err(|error| Fault::volume("ask the volume for its free space", &error.into()))?;
        Ok(Space {
            bytes_free: stat.f_bavail.saturating_mul(stat.f_frsize),
            bytes_total: stat.f_blocks.saturating_mul(stat.f_frsize),
            inodes_free: stat.f_favail,
            inodes_total: stat.f_files,
        })
    }

    /// Keeps room for somebody who is about to write that much.
    ///
    /// # Errors
    /// `no space`, with the numbers: it would touch what is never touched, what others have been
    /// promised, or the quota. The volume can't be asked.
    pub fn reserve(self: &Arc<Self>, bytes: u64, inodes: u64) -> Result<Reservation, Fault> {
        let mut budget = lock(&self.budget);
        let wanted = Amount { bytes, inodes };
        self.admit(&budget, None, wanted)?;
        let key = budget.next;
        budget.next += 1;
        budget.promises.insert(
            key,
            Promise {
                all: wanted,
                spent: Amount::default(),
            },
        );
        Ok(Reservation {
            volume: Arc::clone(self),
            key,
        })
    }

    /// Whether the holder of the promise `key` may come to have `wanted` in all.
    fn admit(&self, budget: &Budget, key: Option<u64>, wanted: Amount) -> Result<(), Fault> {
        let others = || {
            budget
                .promises
                .iter()
                .filter(|(other, _)| Some(**other) != key)
                .map(|(_, p)| *p)
        };
        let spent = key
            .and_then(|key| budget.promises.get(&key))
            .map(|p| p.spent)
            .unwrap_or_default();
        let open = Promise { all: wanted, spent }.open();
        let promised = others()
            .map(|p| p.open())
            .fold(Amount::default(), |sum, open| Amount {
                bytes: sum.bytes.saturating_add(open.bytes),
                inodes: sum.inodes.saturating_add(open.inodes),
            });
        let space = self.space()?;
        let untouched = |total: u64| total / 100 * u64::from(self.options.reserve_percent);
        let asked = format!(
            "keep {} and {} inodes of the volume",
            size(wanted.bytes),
            wanted.inodes
        );
        let (free, total) = (space.bytes_free, space.bytes_total);
        let missing = missing(open.bytes, free, promised.bytes, untouched(total));
        if missing > 0 {
            return Err(Fault::new(
                Reason::NoSpace,
                asked,
                format!(
                    "{} are free, {} of them are promised to other pulls, and {} ({} %) are never touched",
                    size(free),
                    size(promised.bytes),
                    size(untouched(total)),
                    self.options.reserve_percent,
                ),
                format!(
                    "{} more are needed: release images, or enlarge the volume",
                    size(missing)
                ),
            ));
        }
        let (free, total) = (space.inodes_free, space.inodes_total);
        let missing = self::missing(open.inodes, free, promised.inodes, untouched(total));
        if missing > 0 && total > 0 {
            return Err(Fault::new(
                Reason::NoSpace,
                asked,
                format!(
                    "{free} inodes are free, {} of them are promised to other pulls, and {} ({} %) are never \
                     touched",
                    promised.inodes,
                    untouched(total),
                    self.options.reserve_percent,
                ),
                format!("{missing} more are needed: release images, or use a file system with more inodes"),
            ));
        }
        if let Some(quota) = self.options.quota {
            let promised = others()
                .map(|p| p.all.bytes.max(p.spent.bytes))
                .fold(0, u64::saturating_add);
            let used = self.used()?.saturating_add(promised);
            let missing = self::missing(wanted.bytes, quota, used, 0);
            if missing > 0 {
                return Err(Fault::new(
                    Reason::NoSpace,
                    asked,
                    format!(
                        "{} of the quota of {} are used or promised",
                        size(used),
                        size(quota)
                    ),
                    format!(
                        "{} more are needed: release images, or raise the quota",
                        size(missing)
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The water marks.
    pub fn marks(&self) -> Option<Marks> {
        self.options.marks
    }

    /// How many bytes there are above the low water mark, if there are more than the high one allows; 0: all
    /// is well. Blocks.
    ///
    /// # Errors
    /// The volume can't be asked.
    pub fn above_low_mark(&self) -> Result<u64, Fault> {
        let Some(Marks { high, low }) = self.options.marks else {
            return Ok(0);
        };
        let (in_use, all) = match self.options.quota {
            Some(quota) => (self.used()?, quota),
            None => {
                let space = self.space()?;
                (
                    space.bytes_total.saturating_sub(space.bytes_free),
                    space.bytes_total,
                )
            }
        };
        let part = |hundredths: u8| all / 100 * u64::from(hundredths);
        Ok(if in_use > part(high) {
            in_use.saturating_sub(part(low))
        } else {
            0
        })
    }

    /// Bytes of what is published, and of the layers that are kept and not in use: what is in use is
    /// counted by its holder's promise. Between a publication and the end of its promise it is counted
    /// twice. Blocks.
    ///
    /// # Errors
    /// The layers can't be counted.
    pub fn used(&self) -> Result<u64, Fault> {
        let failed = |error: &std::io::Error| Fault::volume("count the layers on the volume", error);
        let live = lock(&self.blobs);
        let mut used = self.content_bytes();
        for name in files::names(&self.dirs.blobs).map_err(|error| failed(&error))? {
            let digest = digest_of(&name);
            if digest
                .and_then(|digest| live.get(&digest))
                .is_some_and(|blob| blob.strong_count() > 0)
            {
                continue;
            }
            match rustix::fs::statat(&self.dirs.blobs, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => used = used.saturating_add(u64::try_from(stat.st_size).unwrap_or_default()),
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(failed(&error.into())),
            }
        }
        Ok(used)
    }
}

impl Reservation {
    /// Comes to hold this much in all, if that is more than before.
    ///
    /// # Errors
    /// As [`Volume::reserve`]; what was held before stays.
    pub fn grow(&self, bytes: u64, inodes: u64) -> Result<(), Fault> {
        let mut budget = lock(&self.volume.budget);
        let Some(before) = budget.promises.get(&self.key).map(|promise| promise.all) else {
            return Ok(());
        };
        let wanted = Amount {
            bytes: bytes.max(before.bytes),
            inodes: inodes.max(before.inodes),
        };
        if wanted == before {
            return Ok(());
        }
        self.volume.admit(&budget, Some(self.key), wanted)?;
        if let Some(promise) = budget.promises.get_mut(&self.key) {
            promise.all = wanted;
        }
        Ok(())
    }

    /// Says how much of it has been written so far, in all, so that it is not counted twice: here, and
    /// by the file system.
    pub fn spent(&self, bytes: u64, inodes: u64) {
        if let Some(promise) = lock(&self.volume.budget).promises.get_mut(&self.key) {
            promise.spent = Amount { bytes, inodes };
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.volume.budget).promises.remove(&self.key);
    }
}

/// How much more there would have to be.
fn missing(wanted: u64, free: u64, promised: u64, untouched: u64) -> u64 {
    let taken = promised.saturating_add(untouched).saturating_add(wanted);
    taken.saturating_sub(free)
}

/// The digest whose layer a file of `blobs/` holds.
pub(super) fn digest_of(name: &std::ffi::CStr) -> Option<Digest> {
    name.to_str().ok()?.replacen('-', ":", 1).parse().ok()
}

/// A number of bytes as a person reads it, such as `1.5 GB`.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
    ];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit / (unit / 10)),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::Content,
        store::{VolumeOptions, tests::*},
    };

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (1_560_000_000, "1.5 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn room_is_promised_once_and_the_tenth_part_is_never_touched() {
        let root = tempfile::tempdir().unwrap();
        let (volume, _) = open(root.path());
        let space = volume.space().unwrap();
        assert!(space.bytes_total >= space.bytes_free && space.bytes_free > 0);
        let fault = volume.reserve(space.bytes_free, 0).unwrap_err();
        assert_eq!(fault.reason, Reason::NoSpace);
        assert!(fault.happened.contains("10 %"), "{fault}");

        // Other processes use the same file system: nothing here depends on the last gigabyte.
        let slack = 1 << 30;
        let most = space
            .bytes_free
            .saturating_sub(space.bytes_total / 10)
            .saturating_sub(slack);
        let held = volume.reserve(most, 0).unwrap();
        assert_eq!(volume.reserve(2 * slack, 0).unwrap_err().reason, Reason::NoSpace);
        assert_eq!(
            held.grow(most + 2 * slack, 0).unwrap_err().reason,
            Reason::NoSpace
        );
        held.spent(most, 0);
        held.grow(most + slack / 2, 0).unwrap();
        drop(volume.reserve(slack / 4, 0).unwrap());
        drop(held);
        drop(volume.reserve(most, 0).unwrap());
    }

    #[test]
    fn inodes_count_too_where_there_is_a_number() {
        let root = tempfile::tempdir().unwrap();
        let (volume, _) = open(root.path());
        let space = volume.space().unwrap();
        let asked = volume.reserve(0, u64::MAX);
        if space.inodes_total == 0 {
            assert!(asked.is_ok());
        } else {
            let fault = asked.unwrap_err();
            assert_eq!(fault.reason, Reason::NoSpace);
            assert!(fault.happened.contains("inodes"), "{fault}");
        }
    }

    #[test]
    fn the_quota_counts_what_is_published_kept_and_promised() {
        let root = tempfile::tempdir().unwrap();
        let options = VolumeOptions {
            quota: Some(1_000),
            ..VolumeOptions::default()
        };
        let (volume, _) = Volume::open(root.path(), options).unwrap();
        let held = volume.reserve(600, 0).unwrap();
        assert_eq!(volume.reserve(500, 0).unwrap_err().reason, Reason::NoSpace);
        held.grow(1_000, 0).unwrap();
        assert_eq!(held.grow(1_001, 0).unwrap_err().reason, Reason::NoSpace);
        drop(held);
        let kept = Digest::sha256(b"kept").file_name();
        std::fs::write(root.path().join("private/blobs").join(kept), [0; 300]).unwrap();
        publish(
            &volume,
            Content {
                size: 300,
                ..content(1)
            },
        );
        drop(volume.reserve(400, 0).unwrap());
        let fault = volume.reserve(401, 0).unwrap_err();
        assert!(
            fault.happened.contains("600 bytes of the quota of 1.0 kB"),
            "{fault}"
        );
        assert!(fault.remedy.contains("1 bytes more"), "{fault}");
    }
}
