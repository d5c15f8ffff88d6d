//! Published content, read without being led out of it.

mod resolve;
mod walk;

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use puller_api::v1 as api;
use rustix::{
    fd::OwnedFd,
    fs::{Dir, FileType, Mode, OFlags},
    io::Errno,
};

pub use self::walk::Walk;

/// The tree of an Image, opened.
///
/// Paths are those of the image; a leading `/` changes nothing. Links are followed as a process of the
/// image would follow them, with the tree's root as `/`: a link to `/etc/passwd` is the image's
/// `etc/passwd`, and `..` of the root is the root. No path leads out of the tree. Special files are
/// refused, and never waited for.
///
/// Content is immutable, so whatever is read through one `ContentDir` belongs together, also while the
/// Image moves on to newer content. What nobody needs any more is deleted in the end, and an open
/// directory does not prevent that: files opened before can still be read, others are then
/// [`io::ErrorKind::NotFound`]. So for as long as you hold this, name [`ContentDir::manifest_digest`] in
/// the `in_use` of your `Fetch`.
///
/// All calls block, for as long as the volume takes.
#[derive(Debug)]
pub struct ContentDir {
    root: OwnedFd,
    manifest_digest: String,
    selected: PathBuf,
}

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentEntry {
    /// Its path: that of the directory as it was asked for, then the name.
    pub path: PathBuf,
    /// What it is; a link is not followed.
    pub kind: ContentKind,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// None of these. The puller publishes no such thing.
    Other,
}

/// Why an Image's content can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// There is none yet: wait for the Image's next trigger.
    #[error("the Image {id} has no content yet: its phase is {phase}")]
    NotPublished {
        /// The Image.
        id: String,
        /// Its phase.
        phase: &'static str,
    },
    /// It is not where the Image says. The Image may be older than the newest content: get it again.
    #[error("there is no content at {path:?}: it is deleted by now, or the volume is mounted elsewhere")]
    Gone {
        /// The path, with that of the volume.
        path: PathBuf,
    },
    /// The puller named no path below the volume.
    #[error("the content's path {path:?} is none below the volume; is it another version of the puller?")]
    InvalidPath {
        /// The path that it named.
        path: String,
    },
    /// The volume can't be read.
    #[error("the content at {path:?} cannot be opened: {source}")]
    Io {
        /// The path, with that of the volume.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

impl ContentDir {
    /// Opens what an Image has published, on the volume that is mounted at `volume` here (which need not
    /// be where the puller has it).
    ///
    /// # Errors
    /// The Image has no content yet, or it is not there any more, or can't be read.
    pub fn open(volume: impl AsRef<Path>, image: &api::Image) -> Result<Self, ContentError> {
        let Some(content) = &image.content else {
            return Err(ContentError::NotPublished {
                id: image.id.clone(),
                phase: image.phase().as_str_name(),
            });
        };
        let below = Path::new(&content.path);
        let is_plain = |component| matches!(component, Component::Normal(_));
        if below.as_os_str().is_empty() || !below.components().all(is_plain) {
            return Err(ContentError::InvalidPath {
                path: content.path.clone(),
            });
        }
        let root = open_tree(volume.as_ref(), below).map_err(|errno| {
            let path = volume.as_ref().join(below);
            match errno {
                Errno::NOENT => ContentError::Gone { path },
                errno => ContentError::Io {
                    path,
                    source: errno.into(),
                },
            }
        })?;
        Ok(Self {
            root,
            manifest_digest: content.manifest_digest.clone(),
            selected: PathBuf::from(&content.selected),
        })
    }

    /// The digest of the manifest that this is the content of.
    pub fn manifest_digest(&self) -> &str {
        &self.manifest_digest
    }

    /// The path that the wish selected, a file or a directory; empty, which is the root: everything.
    pub fn selected(&self) -> &Path {
        &self.selected
    }

    /// Opens a regular file to read it.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        // Whoever opens a named pipe waits for a writer, but for this flag. Regular files ignore it.
        let file = File::from(self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        let kind = file.metadata().map_err(|error| about(path, &error))?.file_type();
        if kind.is_dir() {
            return Err(about(path, &io::ErrorKind::IsADirectory.into()));
        }
        if !kind.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
            return Err(about(path, &error));
        }
        Ok(file)
    }

    /// The bytes of a regular file.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.open_file(&path)?.read_to_end(&mut bytes);
        read.map_err(|error| about(path.as_ref(), &error))?;
        Ok(bytes)
    }

    /// Size, mode and the like, of what a link leads to.
    ///
    /// # Errors
    /// There is nothing.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        let path = path.as_ref();
        let file = File::from(self.resolve(path, OFlags::PATH)?);
        file.metadata().map_err(|error| about(path, &error))
    }

    /// What is in a directory, by name.
    ///
    /// # Errors
    /// There is no such directory, or it can't be read.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> io::Result<Vec<ContentEntry>> {
        let path = path.as_ref();
        let directory = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        entries(&directory, path).map_err(|errno| about(path, &errno.into()))
    }

    /// All that is below a directory: each directory, then what is in it, by name. Links are told, and
    /// not followed; pass one's path to [`ContentDir::read`] or [`ContentDir::walk`] to follow it.
    pub fn walk(&self, path: impl AsRef<Path>) -> Walk<'_> {
        Walk::new(self, path.as_ref())
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        resolve::open(&self.root, path, flags | OFlags::CLOEXEC).map_err(|errno| about(path, &errno.into()))
    }
}

/// Opens the root of a tree. `below` is clean, and holds no links: the puller makes none outside of trees.
fn open_tree(volume: &Path, below: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let volume = rustix::fs::open(volume, flags, Mode::empty())?;
    below.components().try_fold(volume, |above, name| {
        rustix::fs::openat(above, name.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())
    })
}

fn entries(directory: &OwnedFd, path: &Path) -> Result<Vec<ContentEntry>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let file_type = match entry.file_type() {
            // Not every file system tells it here.
            FileType::Unknown => resolve::file_type(directory, name)?,
            known => known,
        };
        entries.push(ContentEntry {
            path: path.join(OsStr::from_bytes(name.to_bytes())),
            kind: file_type.into(),
        });
    }
    entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

impl From<FileType> for ContentKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// An error that says which path it is about.
fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path:?} in the content: {error}"))
}

#[cfg(test)]
mod tests;
