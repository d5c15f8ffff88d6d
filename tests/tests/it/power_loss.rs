//! What is called durable is on the disk, not only in memory: the system calls of a pull and of a
//! removal are replayed on a disk that forgets what was not synced.
//!
//! A dead process leaves its writes to the kernel, so that killing it can't show this.

mod disk;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use puller_tests::{
    image::{Image, Layer},
    puller::Puller,
    scripted::ScriptedRegistry,
    strace::{Moment, Strace},
    wait::eventually,
};
use tempfile::TempDir;

use disk::Disk;

/// What nobody claims goes after that.
const GRACE: Duration = Duration::from_millis(500);

/// Calls that change a volume, make changes durable, or send.
const CALLS: &str = "openat,mkdir,mkdirat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,fallocate,\
                     copy_file_range,sendfile,fchmod,fchmodat,symlinkat,linkat,unlink,unlinkat,rename,\
                     renameat,renameat2,fsync,fdatasync,syncfs,sync,sendto,sendmsg";

#[tokio::test]
async fn what_is_told_would_survive_a_power_loss() {
    let registry = ScriptedRegistry::start().await;
    let image = Image::new()
        .layer(
            Layer::gzip()
                .file("a/b", "1")
                .symlink("link", "a")
                .noise(5, 9_000),
        )
        .layer(Layer::zstd().file("a/c", "2").hardlink("hard", "a/b"));
    let reference = registry.hold("team/app:v1", &image);
    let strace = Strace::of_puller(CALLS);
    let directory = TempDir::new().expect("a temporary directory");
    let mut puller = Puller::start()
        .binary(strace.program())
        // Two directories that are not there yet.
        .volume(directory.path().join("above/volume"))
        .grace_period(GRACE)
        .await;
    let watcher = puller.watch().await;
    let unpacked = puller.pull(&reference).await;
    let content = puller.content(&unpacked);
    puller.release(&unpacked.id, "scenario").await;
    watcher.deleted(&unpacked.id).await;
    eventually("the content's end", || (!content.exists()).then_some(())).await;
    let process = puller.pid();
    puller.terminate().await;

    let mut replay = Replay::of(puller.volume(), &content, &unpacked.id);
    for (now, moment) in strace.moments(process).await.iter().enumerate() {
        match moment.end {
            None => replay.before(moment),
            Some(end) if end.succeeded => replay.disk.take(moment, now, end.begun),
            Some(_) => {}
        }
    }
    assert_eq!(replay.kept, PROMISES.into(), "each promise has its moment");
}

const TREE: &str = "a tree is on the disk before it is visible";
const RECORD: &str = "a content's record is on the disk, and the tree's new name, before it has its name";
const REMOVAL: &str = "the record's end is on the disk before its tree goes";
const VERSION: &str = "the volume and its epoch are on the disk before anybody is told a version";
const NEWS: &str = "both records are on the disk before anybody is told that the image is unpacked";
const PROMISES: [&str; 5] = [TREE, RECORD, REMOVAL, VERSION, NEWS];

/// The calls, one after the other, and the promises that had to be kept.
struct Replay {
    disk: Disk,
    kept: BTreeSet<&'static str>,
    volume: PathBuf,
    /// The published tree.
    content: PathBuf,
    /// Its record.
    record: PathBuf,
    /// The Image's record.
    image: PathBuf,
}

impl Replay {
    fn of(volume: &Path, content: &Path, id: &str) -> Self {
        let records = volume.join("private/records");
        let name = content.file_name().expect("it has a name").display();
        Self {
            disk: Disk::default(),
            kept: BTreeSet::new(),
            volume: volume.to_owned(),
            content: content.to_owned(),
            record: records.join(format!("contents/{name}.json")),
            image: records.join(format!("images/{id}.json")),
        }
    }

    /// Looks at the disk before a call that promises something.
    fn before(&mut self, moment: &Moment) {
        let names = moment.names();
        match &names[..] {
            [from, to] if moment.call.starts_with("rename") => {
                if *to == self.content {
                    self.keep(TREE, &self.disk.lost(from), moment);
                    self.keep(TREE, &self.disk.lost_below(from), moment);
                } else if *to == self.record {
                    self.keep(RECORD, &self.disk.lost(from), moment);
                    self.keep(RECORD, &self.disk.lost(parent(&self.content)), moment);
                    // Of the tree itself its mode may be lost, which each start sets.
                    self.keep(RECORD, &self.disk.lost_below(&self.content), moment);
                } else if *from == self.content {
                    self.keep(REMOVAL, &self.disk.lost(parent(&self.record)), moment);
                }
            }
            _ if moment.is_of_socket() => self.before_news(moment),
            _ => {}
        }
    }

    fn before_news(&mut self, moment: &Moment) {
        let (volume, private) = (self.volume.clone(), self.volume.join("private"));
        for path in [
            parent(parent(&volume)),
            parent(&volume),
            &volume,
            &private,
            &private.join("epoch"),
        ] {
            self.keep(VERSION, &self.disk.lost(path), moment);
        }
        let name = self
            .content
            .strip_prefix(&self.volume)
            .expect("it is on the volume");
        let name = name.to_str().expect("our names are UTF-8");
        if moment.arguments.contains(name) {
            let digest = name.rsplit('/').next().unwrap_or(name);
            // Both may be written anew, or removed, after they were there once.
            for record in [&self.record, &self.image] {
                let been = self.disk.has_had(record, digest);
                assert!(
                    been,
                    "{NEWS}: {} was never there, before {moment:?}",
                    record.display()
                );
            }
            self.kept.insert(NEWS);
        }
    }

    fn keep(&mut self, promise: &'static str, lost: &[PathBuf], moment: &Moment) {
        assert!(
            lost.is_empty(),
            "{promise}: {lost:?} may be lost, before {moment:?}"
        );
        self.kept.insert(promise);
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().expect("not the root of all")
}
