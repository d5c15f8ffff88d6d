//! The same archives unpacked by GNU tar and by us.
//!
//! What differs on purpose is kept out of the generator: whiteouts, special files, and entries that tar
//! skips with a warning.

use std::process::Command;

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};

use super::*;

/// The dialects that GNU tar writes, and how it is asked for them.
pub(super) const DIALECTS: [&[&str]; 9] = [
    &["--format=v7"],
    &["--format=oldgnu"],
    &["--format=gnu"],
    &["--format=ustar"],
    &["--format=pax"],
    &["--format=gnu", "--sparse"],
    &["--format=pax", "--sparse", "--sparse-version=0.0"],
    &["--format=pax", "--sparse", "--sparse-version=0.1"],
    &["--format=pax", "--sparse", "--sparse-version=1.0"],
];

pub(super) fn tar(args: &[&str], dir: &Path, archive: &Path) {
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

/// Whether a dialect has names of more than a header's 100 bytes.
fn has_long_names(dialect: &[&str]) -> bool {
    !matches!(dialect[0], "--format=v7" | "--format=ustar")
}

/// A tree of what the dialect can hold: files, some with holes, directories, and links.
pub(super) fn random_tree(root: &Path, dialect: &[&str], rng: &mut StdRng) {
    let longest = if has_long_names(dialect) { 255 } else { 20 };
    fs::create_dir(root).unwrap();
    let (mut dirs, mut files) = (vec![root.to_owned()], Vec::new());
    for i in 0..rng.random_range(1..8) {
        let len = *[1, 1, 5, longest].choose(rng).unwrap();
        let name = format!("{i}{}", "n".repeat(len - 1));
        let path = dirs.choose(rng).unwrap().join(name);
        match rng.random_range(0..6) {
            0 => {
                fs::create_dir(&path).unwrap();
                if path.as_os_str().len() - root.as_os_str().len() < longest {
                    dirs.push(path);
                }
            }
            1 => std::os::unix::fs::symlink("t".repeat(len), &path).unwrap(),
            2 if !files.is_empty() => fs::hard_link(files.choose(rng).unwrap(), &path).unwrap(),
            3 => {
                // Up to 30 pieces: an old sparse header holds 4, a block after it 21 more.
                let file = fs::File::create(&path).unwrap();
                for piece in 0..rng.random_range(0..30_u64) {
                    std::os::unix::fs::FileExt::write_all_at(&file, b"piece", piece * 16_384).unwrap();
                }
                file.set_len(rng.random_range(0..600_000)).unwrap();
                files.push(path);
            }
            _ => {
                let size = *[0, 1, 511, 512, 3000].choose(rng).unwrap();
                fs::write(&path, vec![b'x'; size]).unwrap();
                files.push(path);
            }
        }
    }
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
        // Thirty pieces: more than an old sparse header and the block after it hold.
        let holes = fs::File::create(source.join("holes")).unwrap();
        for i in 0..30_u64 {
            std::os::unix::fs::FileExt::write_all_at(&holes, b"piece", i * 65_536).unwrap();
        }
        holes.set_len(2_000_000).unwrap();
        if has_long_names(dialect) {
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
