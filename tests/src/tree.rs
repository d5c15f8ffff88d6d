//! Directory trees, compared by everything that a reader of them can tell.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::Path,
};

use crate::image::{Image, sha256};

/// A path's place in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky; None: not compared (links have none).
    pub mode: Option<u32>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// The digest of the content.
        digest: String,
    },
    /// A symbolic link.
    Symlink {
        /// Where to, as it stands.
        target: String,
    },
    /// Anything else: a device, a pipe, a socket.
    Special(&'static str),
}

/// All paths below a directory, relative to it, with what is there.
#[derive(Clone, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Node>);

impl Tree {
    /// Reads a directory; it follows no links.
    ///
    /// # Panics
    /// Something in it can't be read.
    pub fn of(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        Self::try_of(directory).unwrap_or_else(|error| panic!("read {}: {error}", directory.display()))
    }

    /// Reads a directory that may vanish meanwhile.
    ///
    /// # Errors
    /// Something in it can't be read.
    pub fn try_of(directory: &Path) -> io::Result<Self> {
        let mut nodes = BTreeMap::new();
        read_into(&mut nodes, directory, "")?;
        Ok(Self(nodes))
    }

    /// A tree by its parts, for expectations: `Tree::expected([("a", file("text")), …])`.
    pub fn expected<'a>(nodes: impl IntoIterator<Item = (&'a str, Node)>) -> Self {
        Self(
            nodes
                .into_iter()
                .map(|(path, node)| (path.to_owned(), node))
                .collect(),
        )
    }

    /// What is to be published of an image whose layers hold plain files, directories and symbolic links
    /// only, and neither whiteouts nor links in the middle of names.
    ///
    /// # Panics
    /// A layer holds something else.
    pub fn of_image(image: &Image) -> Self {
        let mut nodes = BTreeMap::new();
        for layer in image.layers() {
            let archive = layer.archive();
            for entry in tar::Archive::new(&archive[..]).entries().expect("an archive") {
                let mut entry = entry.expect("an entry");
                let path = String::from_utf8(entry.path_bytes().into_owned()).expect("a name in UTF-8");
                let path = path.trim_end_matches('/').to_owned();
                for (slash, _) in path.match_indices('/') {
                    nodes.entry(path[..slash].to_owned()).or_insert_with(dir);
                }
                let mut content = Vec::new();
                io::Read::read_to_end(&mut entry, &mut content).expect("content");
                let node = match entry.header().entry_type() {
                    tar::EntryType::Directory => dir(),
                    tar::EntryType::Symlink => {
                        let target = entry.link_name_bytes().expect("a link has a target");
                        symlink(&target.escape_ascii().to_string())
                    }
                    tar::EntryType::Regular if entry.header().mode().expect("a mode") & 0o111 != 0 => {
                        executable(content)
                    }
                    tar::EntryType::Regular => file(content),
                    other => panic!("{path}: {other:?} is not foreseen here"),
                };
                nodes.insert(path, node);
            }
        }
        Self(nodes)
    }

    /// Only what is below a directory of it.
    #[must_use]
    pub fn below(&self, directory: &str) -> Self {
        let prefix = format!("{directory}/");
        let strip =
            |(path, node): (&String, &Node)| Some((path.strip_prefix(&prefix)?.to_owned(), node.clone()));
        Self(self.0.iter().filter_map(strip).collect())
    }

    /// Only a path of it, what is below that, and the directories above.
    #[must_use]
    pub fn selected(mut self, selection: &str) -> Self {
        let is_in = |path: &str, above: &str| {
            path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
        };
        self.0
            .retain(|path, _| is_in(path, selection) || is_in(selection, path));
        self
    }

    /// With the modes that a published tree has by our rule: directories 0555, files 0444 or, when
    /// anybody may execute them, 0555.
    #[must_use]
    pub fn with_published_modes(mut self) -> Self {
        for node in self.0.values_mut() {
            node.mode = match (&node.kind, node.mode) {
                (Kind::Directory, _) => Some(0o555),
                (Kind::File { .. }, Some(mode)) if mode & 0o111 != 0 => Some(0o555),
                (Kind::File { .. }, _) => Some(0o444),
                (Kind::Symlink { .. } | Kind::Special(_), mode) => mode,
            };
        }
        self
    }

    /// Without devices, pipes and sockets, which the puller skips.
    #[must_use]
    pub fn without_special_files(mut self) -> Self {
        self.0.retain(|_, node| !matches!(node.kind, Kind::Special(_)));
        self
    }

    /// What is at a path.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.0.get(path)
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// All regular files, with their sizes in bytes.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter_map(|(path, node)| match node.kind {
            Kind::File { size, .. } => Some((path.as_str(), size)),
            _ => None,
        })
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is different in another tree, a line for each path.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let differs = |path: &&String| match (self.0.get(*path), other.0.get(*path)) {
            (Some(one), Some(two)) if one == two => None,
            (Some(one), Some(two)) => Some(format!("{path}: {one} here, {two} there")),
            (Some(one), None) => Some(format!("{path}: {one} here, nothing there")),
            (None, two) => two.map(|two| format!("{path}: nothing here, {two} there")),
        };
        paths.iter().filter_map(differs).collect()
    }

    /// Panics, with the first differences, unless both are the same. `self` is "here".
    ///
    /// # Panics
    /// They differ.
    #[track_caller]
    pub fn assert_same_as(&self, other: &Self) {
        /// More would bury the first one, which usually tells it all.
        const SHOWN: usize = 20;
        let differences = self.differences(other);
        assert!(
            differences.is_empty(),
            "the trees differ at {} of {} paths:\n{}",
            differences.len(),
            self.len().max(other.len()),
            differences[..differences.len().min(SHOWN)].join("\n")
        );
    }
}

/// A published file with this content, for [`Tree::expected`].
pub fn file(content: impl AsRef<[u8]>) -> Node {
    let content = content.as_ref();
    Node {
        kind: Kind::File {
            size: content.len() as u64,
            digest: sha256(content),
        },
        mode: Some(0o444),
    }
}

/// A published file that may be executed, for [`Tree::expected`].
pub fn executable(content: impl AsRef<[u8]>) -> Node {
    Node {
        mode: Some(0o555),
        ..file(content)
    }
}

/// A published directory, for [`Tree::expected`].
pub fn dir() -> Node {
    Node {
        kind: Kind::Directory,
        mode: Some(0o555),
    }
}

/// A symbolic link, for [`Tree::expected`].
pub fn symlink(target: &str) -> Node {
    let target = target.to_owned();
    Node {
        kind: Kind::Symlink { target },
        mode: None,
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Directory => write!(f, "directory")?,
            Kind::File { size, digest } => {
                write!(f, "file of {size} bytes, {}", &digest[..digest.len().min(19)])?;
            }
            Kind::Symlink { target } => write!(f, "link to {target}")?,
            Kind::Special(kind) => write!(f, "{kind}")?,
        }
        match self.mode {
            Some(mode) => write!(f, ", mode {mode:04o}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(path, node)| writeln!(f, "{path}: {node}"))
    }
}

fn read_into(nodes: &mut BTreeMap<String, Node>, directory: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Names are bytes; escaped, two different ones stay different.
        let path = format!("{prefix}{}", entry.file_name().as_bytes().escape_ascii());
        let metadata = entry.metadata()?;
        let kind = metadata.file_type();
        let mode = (!kind.is_symlink()).then(|| metadata.mode() & 0o7777);
        let kind = if kind.is_dir() {
            read_into(nodes, &entry.path(), &format!("{path}/"))?;
            Kind::Directory
        } else if kind.is_file() {
            Kind::File {
                size: metadata.len(),
                digest: sha256(&fs::read(entry.path())?),
            }
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path())?;
            Kind::Symlink {
                target: target.as_os_str().as_bytes().escape_ascii().to_string(),
            }
        } else if kind.is_fifo() {
            Kind::Special("pipe")
        } else if kind.is_socket() {
            Kind::Special("socket")
        } else {
            Kind::Special("device")
        };
        nodes.insert(path, Node { kind, mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn tells_what_differs_and_nothing_else() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("d")).unwrap();
        fs::write(path("d/text"), "text").unwrap();
        fs::write(path("d/run"), "#!").unwrap();
        fs::set_permissions(path("d/run"), fs::Permissions::from_mode(0o4711)).unwrap();
        std::os::unix::fs::symlink("d/text", path("link")).unwrap();
        let tree = Tree::of(directory.path());
        assert_eq!(tree.get("d/run").unwrap().mode, Some(0o4711));

        let published = tree.with_published_modes();
        let expected = |text| {
            [
                ("d", dir()),
                ("d/run", executable("#!")),
                ("d/text", file(text)),
                ("link", symlink("d/text")),
            ]
        };
        published.assert_same_as(&Tree::expected(expected("text")));
        let selected = published.clone().selected("d/run");
        assert_eq!(selected.paths().collect::<Vec<_>>(), ["d", "d/run"]);
        assert_eq!(published.below("d").paths().collect::<Vec<_>>(), ["run", "text"]);
        let differences = published.differences(&Tree::expected(expected("other")));
        assert_eq!(differences.len(), 1);
        assert!(
            differences[0].starts_with("d/text: file of 4 bytes"),
            "{differences:?}"
        );
    }
}
