//! The volume as a crash, a person or a damaged disk may leave it.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use super::*;
use crate::{
    domain::{Content, Digest, Phase, Reason},
    error::Error,
};

mod fixture;
mod kill;

pub(super) use self::fixture::*;

fn count(path: impl AsRef<Path>) -> usize {
    fs::read_dir(path).unwrap().count()
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn record_file(root: &Path, record: &Content) -> std::path::PathBuf {
    root.join("private/records/contents")
        .join(format!("{}.json", record.name()))
}

#[test]
fn what_is_published_is_there_again_after_a_restart() {
    as_nobody(|root| {
        let root = &root.join("made");
        let (volume, recovered) = open(root);
        assert!(recovered.images.is_empty() && recovered.contents.is_empty());
        assert_eq!(volume.epoch(), 1);
        assert_eq!(
            (mode(root.join("content")), mode(root.join("private"))),
            (0o755, 0o700)
        );

        let record = publish(&volume, content(1));
        let name = record.name();
        assert!(record.published > now());
        assert_eq!(fs::read(root.join(record.path()).join("file")).unwrap(), b"bytes");
        assert_eq!(mode(root.join(record.path())), 0o555);
        assert_eq!(volume.content(&name), Some(record.clone()));
        let image = ImageRecord {
            content: Some(name.clone()),
            phase: Phase::Unpacked,
            ..full_image()
        };
        volume.save_image(&full_image()).unwrap();
        volume.save_image(&image).unwrap();
        drop(volume);

        let (volume, recovered) = open(root);
        assert_eq!(volume.epoch(), 2);
        assert_eq!(recovered.images, std::slice::from_ref(&image));
        assert_eq!(recovered.contents, std::slice::from_ref(&record));
        assert_eq!(
            (recovered.set_aside, recovered.removed, recovered.bereft),
            (0, 0, 0)
        );
        assert_eq!(volume.content(&name), Some(record));

        volume.remove_content(&name).unwrap();
        volume.remove_content(&name).unwrap();
        volume.remove_image(&image.id()).unwrap();
        volume.remove_image(&image.id()).unwrap();
        assert_eq!(volume.content(&name), None);
        assert_eq!(count(root.join("content")), 0);
        volume.wait_deleted();
        assert_eq!(count(root.join("private/trash")), 0);
        drop(volume);
        let (_volume, recovered) = open(root);
        assert!(recovered.images.is_empty() && recovered.contents.is_empty());
        assert_eq!((recovered.set_aside, recovered.removed), (0, 0));
    });
}

#[test]
fn the_same_content_twice_keeps_the_first() {
    let root = tempfile::tempdir().unwrap();
    let (volume, _) = open(root.path());
    let first = publish(&volume, content(1));
    let inode = || {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(root.path().join(first.path())).unwrap().ino()
    };
    let before = inode();
    assert_eq!(
        publish(
            &volume,
            Content {
                size: 6,
                ..content(1)
            }
        ),
        first
    );
    assert_eq!(inode(), before);
    volume.wait_deleted();
    assert_eq!(count(root.path().join("private/trees")), 0);
}

#[test]
fn of_many_publications_of_one_content_one_wins_and_all_get_its_record() {
    let root = tempfile::tempdir().unwrap();
    let (volume, _) = open(root.path());
    let records: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| publish(&volume, content(1))))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(records.iter().all(|record| *record == records[0]));
    assert_eq!(count(root.path().join("private/trees")), 0);
    assert_eq!(count(root.path().join("content")), 1);
}

#[test]
fn content_that_somebody_deleted_is_not_there_and_can_be_published_again() {
    let root = tempfile::tempdir().unwrap();
    let (volume, _) = open(root.path());
    let first = publish(&volume, content(1));
    fs::remove_dir_all(root.path().join(first.path())).unwrap();
    assert_eq!(volume.content(&first.name()), None);
    let second = publish(&volume, content(1));
    assert!(second.published >= first.published);
    assert_eq!(volume.content(&first.name()), Some(second));
}

#[test]
fn an_unpublished_tree_goes_when_it_is_dropped() {
    as_nobody(|root| {
        let (volume, _) = open(root);
        let tree = volume.new_tree().unwrap();
        let dir = tree.open_root().unwrap();
        files::replace(&dir, "file", b"x").unwrap();
        rustix::fs::fchmod(&dir, rustix::fs::Mode::from_raw_mode(0o555)).unwrap();
        assert_eq!(count(root.join("private/trees")), 1);
        drop(tree);
        assert_eq!(count(root.join("private/trees")), 0);
        volume.wait_deleted();
        assert_eq!(count(root.join("private/trash")), 0);
    });
}

#[test]
fn a_publication_that_fails_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (volume, _) = open(root.path());
    let record = content(1);
    // A directory where the record belongs: the last step fails.
    fs::create_dir(record_file(root.path(), &record)).unwrap();
    let tree = volume.new_tree().unwrap();
    let fault = volume.publish(tree, record.clone()).unwrap_err();
    assert_eq!(fault.reason, Reason::Internal);
    assert!(fault.asked.contains(&record.name()), "{fault}");
    assert_eq!(volume.content(&record.name()), None);
    assert_eq!(count(root.path().join("private/trees")), 0);
}

/// Every state that a crash between two steps of a publication, a removal or a save can leave.
#[test]
fn a_crash_at_any_step_leaves_a_volume_that_opens() {
    as_nobody(|root| {
        let (volume, _) = open(root);
        let kept = publish(&volume, content(1));
        let image = ImageRecord {
            content: Some(kept.name()),
            ..full_image()
        };
        volume.save_image(&image).unwrap();
        drop(volume);

        let private = root.join("private");
        let read_only = fs::Permissions::from_mode(0o555);
        // A half-made tree, and one that was synced but not yet renamed.
        fs::create_dir_all(private.join("trees/1-7/usr/lib")).unwrap();
        fs::set_permissions(private.join("trees/1-7/usr"), read_only.clone()).unwrap();
        fs::set_permissions(private.join("trees/1-7"), read_only.clone()).unwrap();
        // Renamed, but not recorded; also what a removal leaves after its first step.
        let lost = root.join(content(2).path());
        fs::create_dir(&lost).unwrap();
        fs::write(lost.join("file"), "x").unwrap();
        fs::set_permissions(&lost, read_only).unwrap();
        // A record that was being written, in full and in part.
        let bytes = records::encode(&content(2)).unwrap();
        fs::write(
            private.join(format!("records/contents/{}.json.3.new", content(2).name())),
            &bytes,
        )
        .unwrap();
        fs::write(private.join("records/contents/half.json.4.new"), &bytes[..30]).unwrap();
        fs::write(private.join("records/images/half.json.5.new"), "").unwrap();
        // Published and recorded, but the root's mode was not changed yet.
        fs::set_permissions(root.join(kept.path()), fs::Permissions::from_mode(0o755)).unwrap();
        // In the trash, but not gone.
        fs::create_dir_all(private.join("trash/1-9/a")).unwrap();
        fs::write(private.join("trash/1-10"), "x").unwrap();
        // What a start was doing.
        fs::write(private.join("epoch.copy"), "2").unwrap();
        fs::write(private.join("epoch.6.new"), "").unwrap();

        let (volume, recovered) = open(root);
        assert_eq!(volume.epoch(), 3);
        assert_eq!(recovered.images, [image]);
        assert_eq!(recovered.contents, std::slice::from_ref(&kept));
        assert_eq!(
            (recovered.set_aside, recovered.removed, recovered.bereft),
            (0, 2, 0)
        );
        assert_eq!(mode(root.join(kept.path())), 0o555);
        assert_eq!(count(root.join("content")), 1);
        assert_eq!(count(private.join("trees")), 0);
        assert_eq!(count(private.join("records/contents")), 1);
        assert_eq!(count(private.join("records/images")), 1);
        volume.wait_deleted();
        assert_eq!(count(private.join("trash")), 0);
        assert!(!private.join("epoch.6.new").exists());
    });
}

#[test]
fn what_does_not_hold_is_set_aside_and_the_volume_opens() {
    let root = tempfile::tempdir().unwrap();
    let (volume, _) = open(root.path());
    let good = publish(&volume, content(1));
    for n in 2..=6 {
        publish(&volume, content(n));
    }
    for (n, reference) in ["quay.io/a/b:v1", "quay.io/a/b:v2", "quay.io/a/b:v3"]
        .into_iter()
        .enumerate()
    {
        volume
            .save_image(&ImageRecord {
                content: Some(content(1 + n as u8).name()),
                phase: Phase::Unpacked,
                ..ImageRecord::new(wish(reference), now())
            })
            .unwrap();
    }
    drop(volume);

    let records = root.path().join("private/records");
    // Its tree is gone; its tree is a file; its tree is a link to a good one.
    fs::remove_dir_all(root.path().join(content(2).path())).unwrap();
    for n in [3, 4] {
        fs::remove_dir_all(root.path().join(content(n).path())).unwrap();
    }
    fs::write(root.path().join(content(3).path()), "x").unwrap();
    symlink(good.name(), root.path().join(content(4).path())).unwrap();
    // Cut short; under another's name.
    let file = record_file(root.path(), &content(5));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    fs::copy(
        record_file(root.path(), &good),
        record_file(root.path(), &content(6)),
    )
    .unwrap();
    // Empty, foreign, of the wrong kind, with a name that is no text or is as long as names get.
    let third = ImageRecord::new(wish("quay.io/a/b:v3"), now()).id();
    fs::write(records.join(format!("images/{third}.json")), "").unwrap();
    fs::write(records.join("images/notes.txt"), "remember the milk").unwrap();
    fs::create_dir(records.join("images/directory.json")).unwrap();
    symlink("/etc/passwd", records.join("images/link.json")).unwrap();
    let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe.json");
    fs::write(records.join("images").join(name), "x").unwrap();
    fs::write(records.join("images").join("n".repeat(255)), "x").unwrap();
    // No layer is called so, or is a directory.
    fs::write(root.path().join("private/blobs/sha256-abc"), "x").unwrap();
    fs::create_dir(
        root.path()
            .join("private/blobs")
            .join(Digest::sha256(b"x").file_name()),
    )
    .unwrap();

    let (volume, recovered) = open(root.path());
    assert_eq!(recovered.contents, std::slice::from_ref(&good));
    let mut images: Vec<_> = recovered
        .images
        .iter()
        .map(|i| (i.wish.asked.as_str(), i.content.clone(), i.phase))
        .collect();
    images.sort_by_key(|image| image.0);
    assert_eq!(
        images,
        [
            ("quay.io/a/b:v1", Some(good.name()), Phase::Unpacked),
            ("quay.io/a/b:v2", None, Phase::Initiated),
        ]
    );
    assert_eq!(recovered.bereft, 1);
    assert_eq!(recovered.set_aside, 5 + 6);
    // Two things in the place of trees, two trees whose record did not hold, two odd layers.
    assert_eq!(recovered.removed, 6);
    assert_eq!(count(root.path().join("private/set-aside")), 11);
    assert_eq!(count(root.path().join("content")), 1);
    assert_eq!(count(root.path().join("private/blobs")), 0);
    drop(volume);
    let (_volume, recovered) = open(root.path());
    assert_eq!((recovered.set_aside, recovered.removed), (0, 0));
    assert_eq!(recovered.contents, [good]);
}

#[test]
fn only_the_newest_of_what_was_set_aside_are_kept() {
    let root = tempfile::tempdir().unwrap();
    drop(open(root.path()));
    let images = root.path().join("private/records/images");
    for n in 0..40 {
        fs::write(images.join(format!("old-{n}")), "x").unwrap();
    }
    drop(open(root.path()));
    fs::write(images.join("new"), "x").unwrap();
    let (volume, recovered) = open(root.path());
    assert_eq!(recovered.set_aside, 1);
    let aside = root.path().join("private/set-aside");
    assert_eq!(count(&aside), 32);
    assert!(
        fs::read_dir(&aside)
            .unwrap()
            .any(|f| f.unwrap().file_name().to_str().unwrap().ends_with("-new"))
    );
    volume.wait_deleted();
    assert_eq!(count(root.path().join("private/trash")), 0);
}

#[test]
fn a_volume_that_is_in_use_is_refused_at_once_with_its_owners_pid() {
    let root = tempfile::tempdir().unwrap();
    let (volume, _) = open(root.path());
    let error = Volume::open(root.path(), VolumeOptions::default()).unwrap_err();
    assert!(
        matches!(&error, Error::VolumeTaken { owner, .. } if *owner == std::process::id().to_string()),
        "{error}"
    );
    // Whatever uses the volume keeps it.
    let blob = volume.blob(&Digest::sha256(b"x"), 1).unwrap();
    drop(volume);
    assert!(matches!(
        Volume::open(root.path(), VolumeOptions::default()),
        Err(Error::VolumeTaken { .. })
    ));
    drop(blob);
    drop(open(root.path()));
}

#[test]
fn an_owner_that_has_not_written_its_pid_yet_is_unknown() {
    let root = tempfile::tempdir().unwrap();
    let (_volume, _) = open(root.path());
    fs::write(root.path().join("private/lock"), "").unwrap();
    let error = Volume::open(root.path(), VolumeOptions::default()).unwrap_err();
    assert!(
        matches!(&error, Error::VolumeTaken { owner, .. } if owner == "unknown"),
        "{error}"
    );
}

#[test]
fn a_volume_that_cannot_be_used_says_why() {
    as_nobody(|root| {
        let problem = |path: &Path| match Volume::open(path, VolumeOptions::default()) {
            Err(Error::Volume { problem, .. }) => problem,
            other => panic!("{other:?}"),
        };
        fs::write(root.join("file"), "x").unwrap();
        assert!(problem(&root.join("file")).contains("must be a directory"));
        assert!(problem(&root.join("file/below")).contains("must be a directory"));
        let closed = root.join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert!(
            problem(&closed).contains(&format!("user {user}")),
            "{}",
            problem(&closed)
        );
        drop(open(&root.join("newer")));
        fs::write(root.join("newer/private/format"), "2\n").unwrap();
        assert!(problem(&root.join("newer")).contains("version 2"));
    });
}

#[test]
fn a_damaged_format_or_private_mode_does_not_stop_the_start() {
    as_nobody(|root| {
        let (volume, _) = open(root);
        let record = publish(&volume, content(1));
        drop(volume);
        fs::write(root.join("private/format"), [0, 0]).unwrap();
        // As the kubelet leaves it when it applies a group to a volume.
        fs::set_permissions(root.join("private"), fs::Permissions::from_mode(0o2770)).unwrap();
        let (volume, recovered) = open(root);
        assert_eq!(recovered.contents, [record]);
        assert_eq!(volume.epoch(), 2);
        assert_eq!(mode(root.join("private")), 0o700);
        assert_eq!(fs::read(root.join("private/format")).unwrap(), b"1");
    });
}

#[tokio::test]
async fn a_collection_keeps_what_is_wanted_used_or_newer_than_its_mark() {
    let root = tempfile::tempdir().unwrap();
    let (volume, _) = open(root.path());
    let [wanted, found, unwanted] = [1, 2, 3].map(|n| publish(&volume, content(n)).name());
    let blobs = root.path().join("private/blobs");
    let [kept, used, unused] = [b"kept", b"used", b"gone"].map(|bytes| {
        let digest = Digest::sha256(bytes);
        fs::write(blobs.join(digest.file_name()), bytes).unwrap();
        digest
    });
    // What a removal that failed has left.
    fs::create_dir(root.path().join("private/trees/1-999")).unwrap();
    fs::create_dir(root.path().join("content/left")).unwrap();
    let tree = volume.new_tree().unwrap();
    let blob = volume.blob(&used, 4).unwrap();

    let mark = volume.mark();
    assert!(volume.content(&found).is_some());
    let published = publish(&volume, content(4)).name();
    let collect = |mark| {
        volume
            .collect(
                mark,
                &HashSet::from([kept.clone()]),
                &HashSet::from([wanted.clone()]),
            )
            .unwrap()
    };
    assert_eq!(
        collect(mark),
        Collected {
            blobs: 1,
            contents: 2
        }
    );
    assert!(!root.path().join("content/left").exists());
    for (name, there) in [
        (&wanted, true),
        (&found, true),
        (&published, true),
        (&unwanted, false),
    ] {
        assert_eq!(root.path().join("content").join(name).exists(), there);
        assert_eq!(volume.content(name).is_some(), there);
    }
    for (digest, there) in [(&kept, true), (&used, true), (&unused, false)] {
        assert_eq!(blobs.join(digest.file_name()).exists(), there);
    }
    assert_eq!(count(root.path().join("private/trees")), 1);
    assert!(blob.writer().await.unwrap().is_none());

    drop((blob, tree));
    assert_eq!(
        collect(volume.mark()),
        Collected {
            blobs: 1,
            contents: 2
        }
    );
    assert_eq!(collect(volume.mark()), Collected::default());
}
