//! A process that is killed at any moment leaves a volume that opens, with all that was said to be done.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use bytes::Bytes;

use super::*;

/// Tells the process which volume to work on.
const VOLUME: &str = "STORE_TEST_VOLUME";
/// Lines of the victim after which it is killed; each line is a step.
const KILLED_AFTER: [usize; 8] = [1, 2, 3, 5, 8, 13, 34, 55];

#[test]
#[ignore = "runs in a process of its own, which another test kills"]
fn victim() {
    let root = std::env::var_os(VOLUME).expect("the other test says where");
    let (volume, recovered) = open(Path::new(&root));
    let out = std::io::stdout();
    let say = |line: String| {
        let mut out = out.lock();
        writeln!(out, "\n@ {line}").unwrap();
        out.flush().unwrap();
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for n in (0..5u8).cycle().skip(recovered.contents.len()) {
        let reference = format!("quay.io/a/b:{n}");
        say(format!("unsure {n}"));
        let record = publish(&volume, content(n));
        volume
            .save_image(&ImageRecord {
                content: Some(record.name()),
                ..ImageRecord::new(wish(&reference), now())
            })
            .unwrap();
        say(format!("there {n}"));
        let layer = [n; 100_000];
        let blob = volume.blob(&Digest::sha256(&layer), layer.len() as u64).unwrap();
        runtime.block_on(async {
            if let Some(mut writer) = blob.writer().await.unwrap() {
                let rest = Bytes::copy_from_slice(&layer[writer.offset() as usize..]);
                for piece in rest.chunks(20_000) {
                    writer.write(rest.slice_ref(piece)).await.unwrap();
                }
                writer.finish().await.unwrap();
            }
        });
        let old = (n + 3) % 5;
        say(format!("unsure {old}"));
        volume
            .remove_image(&wish(&format!("quay.io/a/b:{old}")).id())
            .unwrap();
        volume.remove_content(&content(old).name()).unwrap();
        say(format!("gone {old}"));
    }
}

#[test]
fn a_killed_process_leaves_what_it_had_said_to_be_there() {
    let root = tempfile::tempdir().unwrap();
    let mut said: HashMap<u8, String> = HashMap::new();
    for (run, lines) in KILLED_AFTER.into_iter().enumerate() {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "store::tests::kill::victim",
            ])
            .env(VOLUME, root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(victim.stdout.take().unwrap());
        let mut steps = out
            .lines()
            .map(Result::unwrap)
            .filter_map(|line| Some(line.strip_prefix("@ ")?.to_owned()));
        let mut note = |step: String| {
            let (what, n) = step.split_once(' ').unwrap();
            said.insert(n.parse().unwrap(), what.to_owned());
        };
        for _ in 0..lines {
            note(steps.next().expect("the victim works until it is killed"));
        }
        let taken = Volume::open(root.path(), VolumeOptions::default()).unwrap_err();
        assert!(
            matches!(&taken, Error::VolumeTaken { owner, .. } if *owner == victim.id().to_string()),
            "{taken}"
        );
        victim.kill().unwrap();
        victim.wait().unwrap();
        // What it has said before it died.
        steps.for_each(note);

        let (volume, recovered) = open(root.path());
        assert_eq!(volume.epoch(), 2 * run as u64 + 2);
        assert_eq!((recovered.set_aside, recovered.bereft), (0, 0));
        for (n, what) in &said {
            let name = content(*n).name();
            let there = recovered.contents.iter().any(|record| record.name() == name);
            match what.as_str() {
                "there" => assert!(there, "{n} was published and is not there"),
                "gone" => assert!(!there, "{n} was removed and is there"),
                _ => {}
            }
            if there {
                assert_eq!(
                    fs::read(root.path().join("content").join(&name).join("file")).unwrap(),
                    b"bytes"
                );
            }
        }
        assert_eq!(count(root.path().join("content")), recovered.contents.len());
        assert_eq!(count(root.path().join("private/trees")), 0);
        volume.wait_deleted();
        assert_eq!(count(root.path().join("private/trash")), 0);
    }
}
