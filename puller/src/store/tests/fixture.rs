//! What the store's tests are made of.

use std::{
    collections::{BTreeMap, VecDeque},
    os::unix::fs::chown,
    path::Path,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::super::*;
use crate::domain::{
    AttemptError, AttemptRecord, Claim, Content, Digest, Phase, Reason, Resolution, Selection, Skipped,
    UnpackOptions, Wish,
};

/// An unprivileged user, the one of distroless images.
const NOBODY: u32 = 65532;

/// Runs a test with a directory of its own, as a user without privileges.
pub(crate) fn as_nobody(test: impl FnOnce(&Path) + Send + 'static) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_owned();
    let privileged = rustix::process::geteuid().is_root();
    if privileged {
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // The ids of a thread, and of those that it starts; not of the process.
    let thread = std::thread::spawn(move || {
        if privileged {
            let (user, group) = (
                rustix::thread::Uid::from_raw(NOBODY),
                rustix::thread::Gid::from_raw(NOBODY),
            );
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        test(&path);
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

pub(crate) fn open(root: &Path) -> (Arc<Volume>, Recovered) {
    Volume::open(root, VolumeOptions::default()).unwrap()
}

pub(crate) fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

pub(crate) fn wish(reference: &str) -> Wish {
    Wish {
        asked: reference.into(),
        reference: reference.parse().unwrap(),
        platform: "linux/amd64".parse().unwrap(),
        selection: Selection::All,
        unpack: UnpackOptions::default(),
        scope: Default::default(),
    }
}

/// An Image with something in each field.
pub(crate) fn full_image() -> ImageRecord {
    let digest = Digest::sha256(b"manifest");
    ImageRecord {
        wish: Wish {
            selection: Selection::Path("configs".into()),
            ..wish("[::1]:5000/a/b:v1")
        },
        phase: Phase::Retrying,
        claims: BTreeMap::from([(
            "catalog \"é\u{1}\"".into(),
            Claim {
                renewed: now(),
                expires: Some(now()),
                in_use: vec![digest.clone()],
            },
        )]),
        unclaimed_since: Some(now()),
        resolution: Some(Resolution {
            digest: digest.clone(),
            resolved: now(),
            checked: now(),
        }),
        content: Some(content(1).name()),
        attempt: 12,
        failures: 3,
        next_retry: Some(now()),
        last_error: Some(AttemptError {
            reason: Reason::Network,
            message: "GET: reset; wait".into(),
            time: now(),
            attempt: 12,
        }),
        attempts: VecDeque::from([AttemptRecord {
            attempt: 12,
            started: now(),
            ended: now(),
            reason: Some(Reason::Network),
            message: "GET: reset; wait".into(),
            bytes: u64::MAX,
        }]),
        blobs: vec![digest],
        ..ImageRecord::new(wish("[::1]:5000/a/b:v1"), now())
    }
}

/// The n-th content.
pub(crate) fn content(n: u8) -> Content {
    Content {
        manifest_digest: Digest::sha256(&[n]),
        selected: "configs".into(),
        unpack: UnpackOptions::default(),
        size: 5,
        files: 1,
        escaping_links: 2,
        skipped: Skipped {
            owners: 3,
            ..Skipped::default()
        },
        published: now(),
        sync: Duration::ZERO,
    }
}

/// Publishes a tree with one file in it.
pub(crate) fn publish(volume: &Arc<Volume>, record: Content) -> Content {
    let tree = volume.new_tree().unwrap();
    let root = tree.open_root().unwrap();
    files::replace(&root, "file", b"bytes").unwrap();
    volume.publish(tree, record).unwrap()
}
