//! Layers as the field throws them at a puller; the comments name the cases.

use std::{
    collections::BTreeMap,
    fs,
    io::Cursor,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;

use super::{Inflate, Limits, Summary, Tree, TreeOptions, tree::Resolver};
use crate::{
    domain::{Activity, Reason},
    error::Fault,
};

mod build;
mod entries;
mod formats;
mod hostile;
mod limits;
mod links;
mod model;
mod selection;
mod whiteouts;

use build::Layer;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Dir,
    File(Vec<u8>),
    Link(String),
}

fn file(content: &str) -> Node {
    Node::File(content.as_bytes().to_vec())
}

fn link(target: &str) -> Node {
    Node::Link(target.to_owned())
}

/// All paths of a tree, relative to it.
type Nodes = BTreeMap<String, Node>;

fn nodes<const N: usize>(nodes: [(&str, Node); N]) -> Nodes {
    nodes
        .into_iter()
        .map(|(path, node)| (path.to_owned(), node))
        .collect()
}

/// Where a tree is made, beside what it must not touch.
struct Place {
    dir: TempDir,
}

const CANARY: &str = "canary";

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::create_dir(dir.path().join(CANARY)).unwrap();
        fs::write(dir.path().join(CANARY).join("file"), "alive").unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn tree(&self, options: TreeOptions, limits: Limits, resolver: Resolver) -> Tree {
        let root = fs::File::open(self.root()).unwrap().into();
        Tree::with_resolver(root, options, limits, Arc::default(), resolver).unwrap()
    }

    /// Fails if anything beside the root has changed.
    fn check(&self) {
        let around: Nodes = read(self.dir.path())
            .into_iter()
            .filter(|(path, _)| !path.starts_with("root/"))
            .collect();
        let canary_file = format!("{CANARY}/file");
        assert_eq!(
            around,
            nodes([
                ("root", Node::Dir),
                (CANARY, Node::Dir),
                (&canary_file, file("alive"))
            ])
        );
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whoever is not root can't remove what is in directories without the write bit.
        let mut ahead = vec![self.root()];
        while let Some(dir) = ahead.pop() {
            let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o755));
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    ahead.push(entry.path());
                }
            }
        }
    }
}

/// Everything below a root. Names need not be UTF-8, so a path is not found again by its name in [`Nodes`].
fn paths(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(dir) = ahead.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                ahead.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

fn read(root: &Path) -> Nodes {
    let node = |path: &Path| {
        let kind = fs::symlink_metadata(path).unwrap().file_type();
        if kind.is_dir() {
            Node::Dir
        } else if kind.is_symlink() {
            let target = fs::read_link(path).unwrap();
            Node::Link(String::from_utf8_lossy(target.as_os_str().as_bytes()).into_owned())
        } else {
            assert!(
                kind.is_file(),
                "{} is neither file nor directory nor link",
                path.display()
            );
            Node::File(fs::read(path).unwrap())
        }
    };
    let named = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes();
        (String::from_utf8_lossy(name).into_owned(), node(&path))
    };
    paths(root).into_iter().map(named).collect()
}

fn inflate(bytes: impl Into<Vec<u8>>) -> Inflate {
    Inflate::spawn(Cursor::new(bytes.into()), &Limits::default(), Arc::default()).unwrap()
}

/// Unpacks layers and gives what is in the tree then, with the tree's own account of it checked.
fn unpack_as(
    layers: &[Vec<u8>],
    options: &TreeOptions,
    limits: &Limits,
    resolver: Resolver,
) -> Result<(Nodes, Summary), Fault> {
    let place = Place::new();
    let outcome = (|| {
        let mut tree = place.tree(options.clone(), limits.clone(), resolver);
        for (i, layer) in layers.iter().enumerate() {
            tree.apply(inflate(layer.clone()), &format!("layer {i}"), None)?;
        }
        tree.finish()
    })();
    place.check();
    let summary = outcome?;
    let files = files(&place.root());
    assert_eq!(summary.files, files.len() as u64);
    assert_eq!(summary.size, size(&files));
    check_modes(&place.root());
    Ok((read(&place.root()), summary))
}

fn files(root: &Path) -> Vec<fs::Metadata> {
    let all = paths(root)
        .into_iter()
        .map(|path| fs::symlink_metadata(path).unwrap());
    all.filter(fs::Metadata::is_file).collect()
}

/// Bytes of all regular files, one name each.
fn size(files: &[fs::Metadata]) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let by_inode: BTreeMap<_, _> = files
        .iter()
        .map(|metadata| (metadata.ino(), metadata.len()))
        .collect();
    by_inode.values().sum()
}

/// Files are a+r, or a+rx; directories a+rx; nobody may write.
fn check_modes(root: &Path) {
    for path in paths(root) {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        let sound = match metadata.file_type() {
            kind if kind.is_dir() => mode == 0o555,
            kind if kind.is_file() => matches!(mode, 0o444 | 0o555),
            _ => true,
        };
        assert!(sound, "{}: {mode:o}", path.display());
    }
}

/// Unpacks with both resolvers, which must agree.
fn unpack_with(
    layers: &[Vec<u8>],
    options: &TreeOptions,
    limits: &Limits,
) -> Result<(Nodes, Summary), Fault> {
    let kernel = unpack_as(layers, options, limits, Resolver::Kernel);
    let by_hand = unpack_as(layers, options, limits, Resolver::ByHand);
    assert_eq!(kernel, by_hand);
    kernel
}

fn unpack<const N: usize>(layers: [Layer; N]) -> Result<Nodes, Fault> {
    let layers = layers.map(Layer::end);
    unpack_with(&layers, &TreeOptions::default(), &Limits::default()).map(|(nodes, _)| nodes)
}

fn summary<const N: usize>(layers: [Layer; N]) -> Summary {
    let layers = layers.map(Layer::end);
    unpack_with(&layers, &TreeOptions::default(), &Limits::default())
        .unwrap()
        .1
}

/// The reason why layers can't be unpacked, and what the fault says.
fn refusal<const N: usize>(layers: [Layer; N]) -> (Reason, String) {
    let fault = unpack(layers).unwrap_err();
    (fault.reason, fault.to_string())
}

fn reason<const N: usize>(layers: [Layer; N]) -> Reason {
    refusal(layers).0
}
