//! Layers as the field throws them at a puller; the comments name the cases.

use std::{
    collections::BTreeMap,
    fs,
    io::Cursor,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;

use super::{Inflate, Limits, Summary, Tree, TreeOptions, tree::Resolver};
use crate::{
    domain::{Activity, Reason},
    error::Fault,
};

mod archive_tar;
mod build;
mod dialects;
mod differential;
mod entries;
mod field;
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

/// What is in a tree.
fn read(root: &Path) -> Nodes {
    read_and(root, &mut |_, _| {})
}

/// The same of a finished tree, with the bytes of its regular files, each counted once however many names
/// it has. Files must be a+r, or a+rx, and directories a+rx; nobody may write.
fn read_finished(root: &Path) -> (Nodes, u64) {
    let mut sizes = BTreeMap::new();
    let nodes = read_and(root, &mut |path, metadata| {
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_dir() {
            assert_eq!(mode, 0o555, "{}", path.display());
        } else if metadata.is_file() {
            assert!(matches!(mode, 0o444 | 0o555), "{}: {mode:o}", path.display());
            sizes.insert(metadata.ino(), metadata.len());
        }
    });
    (nodes, sizes.values().sum())
}

fn read_and(root: &Path, look: &mut dyn FnMut(&Path, &fs::Metadata)) -> Nodes {
    fn walk(root: &Path, dir: &Path, nodes: &mut Nodes, look: &mut dyn FnMut(&Path, &fs::Metadata)) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            look(&path, &metadata);
            let node = if metadata.is_dir() {
                walk(root, &path, nodes, look);
                Node::Dir
            } else if metadata.is_symlink() {
                Node::Link(name(fs::read_link(&path).unwrap().as_os_str().as_bytes()))
            } else {
                assert!(
                    metadata.is_file(),
                    "{} is neither file nor directory nor link",
                    path.display()
                );
                Node::File(fs::read(&path).unwrap())
            };
            nodes.insert(
                name(path.strip_prefix(root).unwrap().as_os_str().as_bytes()),
                node,
            );
        }
    }
    let mut nodes = Nodes::new();
    walk(root, root, &mut nodes, look);
    nodes
}

/// Names are bytes; those that are not UTF-8 are shown so that they stay different.
fn name(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| bytes.escape_ascii().to_string())
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
    let (found, size) = read_finished(&place.root());
    let files = found
        .values()
        .filter(|node| matches!(node, Node::File(_)))
        .count();
    assert_eq!(summary.files, files as u64);
    assert_eq!(summary.size, size);
    Ok((found, summary))
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
