//! The number that is raised at each start: versions that are built on it never fall.

use std::{io, os::fd::OwnedFd};

use super::{
    crash::{self, Point},
    files,
};

/// Both hold the epoch; one is enough. Neither can be torn, but a volume can be damaged.
const COPIES: [&str; 2] = ["epoch.copy", "epoch"];
/// More than any `u64` has digits.
const LIMIT: u64 = 64;
/// An epoch beyond this was not counted up to by starts, not even from a floor of seconds: it is
/// damage, and would leave no room to count on.
const MAX: u64 = 1 << 40;

/// Raises the epoch, durably, and returns it.
///
/// `known` says that the volume has had an epoch before. If no copy can be read then, the count goes on
/// from `now`, in seconds since 1970: more than the number of starts so far, unless the volume was
/// started more than once a second ever since.
pub(super) fn raise(private: &OwnedFd, known: bool, now: u64) -> io::Result<u64> {
    let last = COPIES.iter().filter_map(|name| read(private, name)).max();
    let last = match last {
        Some(last) => last,
        None if known => {
            tracing::warn!(
                floor = now,
                "neither copy of the epoch can be read; it goes on from the clock"
            );
            now.min(MAX)
        }
        None => 0,
    };
    let epoch = last + 1;
    for name in COPIES {
        // What stands there may be a directory, after somebody's accident: a rename would not replace it.
        if let Some(kind) = files::kind(private, name)?
            && kind.is_dir()
        {
            rustix::fs::renameat(private, name, private, format!("{name}.{epoch}.bad"))?;
        }
        files::replace(private, name, epoch.to_string().as_bytes())?;
        crash::at(Point::EpochCopyRaised);
    }
    Ok(epoch)
}

fn read(private: &OwnedFd, name: &str) -> Option<u64> {
    let bytes = match files::read(private, name, LIMIT) {
        Ok(bytes) => bytes?,
        Err(error) => {
            tracing::warn!(name, %error, "a copy of the epoch can't be read");
            return None;
        }
    };
    let number = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.trim_end().parse().ok());
    let number = number.filter(|number| *number <= MAX);
    if number.is_none() {
        tracing::warn!(
            name,
            bytes = bytes.len(),
            "a copy of the epoch does not hold a sensible number"
        );
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn it_rises_whatever_became_of_one_copy() {
        let root = tempfile::tempdir().unwrap();
        let dir = files::open_root(root.path()).unwrap();
        assert_eq!(raise(&dir, false, NOW).unwrap(), 1);
        assert_eq!(raise(&dir, true, NOW).unwrap(), 2);
        let mut last = 2;
        for name in COPIES {
            for garbage in ["", "3x", "-7", "99999999999999999999999", "18446744073709551615"] {
                std::fs::write(root.path().join(name), garbage).unwrap();
                let epoch = raise(&dir, true, NOW).unwrap();
                assert_eq!(epoch, last + 1, "{name} {garbage:?}");
                last = epoch;
            }
            std::fs::remove_file(root.path().join(name)).unwrap();
            std::fs::create_dir(root.path().join(name)).unwrap();
            last += 1;
            assert_eq!(raise(&dir, true, NOW).unwrap(), last);
        }
    }

    #[test]
    fn a_crash_between_the_copies_leaves_the_higher_one() {
        let root = tempfile::tempdir().unwrap();
        let dir = files::open_root(root.path()).unwrap();
        std::fs::write(root.path().join("epoch.copy"), "8").unwrap();
        std::fs::write(root.path().join("epoch"), "7").unwrap();
        assert_eq!(raise(&dir, true, NOW).unwrap(), 9);
    }

    #[test]
    fn with_both_lost_the_clock_is_the_floor() {
        let root = tempfile::tempdir().unwrap();
        let dir = files::open_root(root.path()).unwrap();
        for name in COPIES {
            std::fs::write(root.path().join(name), "\0\0\0").unwrap();
        }
        assert_eq!(raise(&dir, true, NOW).unwrap(), NOW + 1);
        assert_eq!(raise(&dir, true, NOW).unwrap(), NOW + 2);
    }
}
