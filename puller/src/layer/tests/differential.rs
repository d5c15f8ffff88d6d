//! The same archives unpacked by GNU tar and by us.
//!
//! What differs on purpose is kept out of the generator: whiteouts, special files, and entries that tar
//! skips with a warning.

use std::process::Command;

use super::*;

/// The dialects that GNU tar writes, and how it is asked for them.
const DIALECTS: [&[&str]; 8] = [
    &["--format=v7"],
    &["--format=oldgnu"],
    &["--format=gnu"],
    &["--format=ustar"],
    &["--format=pax"],
    &["--format=gnu", "--sparse"],
    &["--format=pax", "--sparse", "--sparse-version=0.0"],
    &["--format=pax", "--sparse", "--sparse-version=1.0"],
];

fn tar(args: &[&str], dir: &Path, archive: &Path) {
    let output = Command::new("tar")
        .args(args)
        .arg("-f")
        .arg(archive)
        .arg("-C")
        .arg(dir)
        .args(if args.contains(&"-c") { &["."][..] } else { &[] })
        .output()
        .expect("GNU tar runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tar {args:?}: {text}");
}

/// Both read what GNU tar wrote of a tree with holes, long names where the dialect has them, and links.
#[test]
fn reads_each_dialect_as_gnu_tar_does() {
    for dialect in DIALECTS {
        let dir = tempfile::tempdir().unwrap();
        let (source, peer) = (dir.path().join("source"), dir.path().join("peer"));
        let deep = source.join("d/e");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(&peer).unwrap();
        fs::write(deep.join("full"), vec![b'x'; 70_001]).unwrap();
        fs::write(source.join("empty"), "").unwrap();
        fs::hard_link(deep.join("full"), source.join("again")).unwrap();
        std::os::unix::fs::symlink("d/e/full", source.join("link")).unwrap();
        // Twelve pieces: more than an old sparse header holds.
        let holes = fs::File::create(source.join("holes")).unwrap();
        for i in 0..12_u64 {
            std::os::unix::fs::FileExt::write_all_at(&holes, b"piece", i * 65_536).unwrap();
        }
        holes.set_len(2_000_000).unwrap();
        if !dialect[0].ends_with("v7") && !dialect[0].ends_with("ustar") {
            let long = source.join("l".repeat(200));
            fs::create_dir(&long).unwrap();
            fs::write(long.join("n".repeat(255)), "long").unwrap();
            std::os::unix::fs::symlink("t".repeat(300), long.join("link")).unwrap();
        }
        let archive = dir.path().join("archive.tar");
        tar(&[&["-c"], dialect].concat(), &source, &archive);
        tar(&["-x"], &peer, &archive);
        let layer = fs::read(&archive).unwrap();
        let ours = unpack_with(&[layer], &TreeOptions::default(), &Limits::default());
        let ours = ours.unwrap_or_else(|fault| panic!("{dialect:?}: {fault}")).0;
        let theirs = read(&peer);
        assert!(
            ours == theirs,
            "{dialect:?}: {:?} {:?}",
            ours.keys(),
            theirs.keys()
        );
        assert!(ours == read(&source), "{dialect:?}");
    }
}
