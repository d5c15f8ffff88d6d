use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// One entry of a random tree; what can't be made (its name is taken, its parent is none) is left out.
#[derive(Debug, Clone)]
enum Made {
    Dir(String),
    File(String),
    Link(String, String),
}

/// Names are few, so that paths, links and entries meet.
fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c"])
}

fn plain_path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|parts| parts.join("/"))
}

/// Paths as people and images write them: absolute, with dots, doubled and closing slashes.
fn any_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![4 => name().boxed(), 2 => Just("..").boxed(), 1 => Just(".").boxed(), 1 => Just("").boxed()];
    (any::<bool>(), prop::collection::vec(part, 1..7), any::<bool>()).prop_map(|(absolute, parts, slash)| {
        let path = format!(
            "{}{}{}",
            if absolute { "/" } else { "" },
            parts.join("/"),
            if slash { "/" } else { "" }
        );
        if path.is_empty() { ".".to_owned() } else { path }
    })
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        plain_path().prop_map(Made::Dir),
        plain_path().prop_map(Made::File),
        (plain_path(), any_path()).prop_map(|(path, target)| Made::Link(path, target)),
    ]
}

/// A tree in a directory of its own, beside something that nobody may reach.
struct Tree {
    directory: TempDir,
    root: OwnedFd,
}

impl Tree {
    fn new(entries: &[Made]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("root");
        fs::create_dir(&path).unwrap();
        // Names that the paths know, outside.
        fs::write(directory.path().join("a"), "outside").unwrap();
        fs::create_dir(directory.path().join("b")).unwrap();
        let root = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for made in entries {
            let _left_out = match made {
                Made::Dir(at) => fs::create_dir(path.join(at)),
                Made::File(at) => fs::File::create_new(path.join(at)).map(drop),
                Made::Link(at, target) => symlink(target, path.join(at)),
            };
        }
        Self { directory, root }
    }

    /// All inodes of the tree, by a walk that follows nothing.
    fn inodes(&self) -> BTreeSet<u64> {
        let mut ahead: Vec<PathBuf> = vec![self.directory.path().join("root")];
        let mut inodes = BTreeSet::new();
        while let Some(path) = ahead.pop() {
            let stat = rustix::fs::lstat(&path).unwrap();
            inodes.insert(stat.st_ino);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        inodes
    }
}

/// What was opened, or why not.
fn answer(opened: Result<OwnedFd, Errno>) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(opened?)?.st_ino)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The kernel is the model of what is done by hand, and the other way round.
    #[test]
    fn both_ways_answer_the_same_and_stay_inside(
        entries in prop::collection::vec(made(), 0..14),
        paths in prop::collection::vec(any_path(), 1..12),
    ) {
        let tree = Tree::new(&entries);
        let inodes = tree.inodes();
        for path in &paths {
            for flags in [OFlags::PATH, OFlags::RDONLY, OFlags::RDONLY | OFlags::DIRECTORY] {
                let by_hand = answer(by_hand(&tree.root, path.as_bytes(), flags));
                if let Ok(inode) = by_hand {
                    prop_assert!(inodes.contains(&inode), "{path} leads out");
                }
                let by_kernel = loop {
                    match answer(by_kernel(&tree.root, path.as_bytes(), flags)) {
                        Err(Errno::AGAIN) => {}
                        answer => break answer,
                    }
                };
                // A sandbox without openat2 leaves nothing to compare with.
                if !matches!(by_kernel, Err(Errno::NOSYS | Errno::PERM)) {
                    prop_assert_eq!(by_kernel, by_hand, "{} with {:?}", path, flags);
                }
            }
        }
    }
}

#[test]
fn both_ways_end_at_the_same_bounds() {
    let link = |n: usize| Made::Link(format!("l{n}"), format!("l{}", n + 1));
    let mut entries: Vec<Made> = (1..=MAX_LINKS).map(link).collect();
    entries.push(Made::File(format!("l{}", MAX_LINKS + 1)));
    entries.push(Made::Link("l0".into(), "l1".into()));
    entries.push(Made::Link("self".into(), "self".into()));
    let tree = Tree::new(&entries);
    let long_path = "./".repeat(MAX_PATH / 2);
    let long_name = "n".repeat(256);
    for (path, expected) in [
        ("l1", Ok(())),
        ("l0", Err(Errno::LOOP)),
        ("self", Err(Errno::LOOP)),
        ("self/../l1", Err(Errno::LOOP)),
        ("l1/", Err(Errno::NOTDIR)),
        (&long_path[..MAX_PATH - 1], Ok(())),
        (long_path.as_str(), Err(Errno::NAMETOOLONG)),
        (long_name.as_str(), Err(Errno::NAMETOOLONG)),
        ("a\0b", Err(Errno::INVAL)),
    ] {
        let hand = by_hand(&tree.root, path.as_bytes(), OFlags::RDONLY).map(drop);
        assert_eq!(hand, expected, "{path:.20} by hand");
        let kernel = by_kernel(&tree.root, path.as_bytes(), OFlags::RDONLY).map(drop);
        if !matches!(kernel, Err(Errno::NOSYS | Errno::PERM)) {
            assert_eq!(kernel, expected, "{path:.20} by the kernel");
        }
    }
}
