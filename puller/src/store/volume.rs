//! The volume: how it is opened, and what a process keeps of it in memory.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    fs::File,
    io,
    ops::AddAssign,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, Weak},
};

use jiff::Timestamp;
use rustix::fs::Mode;

use super::{
    blob::Blob,
    crash::{self, Point},
    epoch,
    files::{self, lock},
    lock,
    publish::{Contents, Mark},
    record::ImageRecord,
    records,
    recover::{self, Recovered},
    space::{Budget, Marks, digest_of},
    trash::Trash,
};
use crate::{
    domain::{Digest, ImageId, content::CONTENT_DIR},
    error::{Error, Fault},
};

const FORMAT_FILE: &str = "format";
/// Version of the layout. A change that an older puller would misread raises it.
const FORMAT: u32 = 1;
/// More than any version has digits.
const FORMAT_LIMIT: u64 = 64;

/// How a volume is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Hundredths of the bytes and of the inodes that are never touched.
    pub reserve_percent: u8,
    /// Most bytes that the puller uses; `None`: as many as there are.
    pub quota: Option<u64>,
    /// When room is made without being asked for.
    pub marks: Option<Marks>,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            // A full volume stops its other users too, and most file systems slow down before.
            reserve_percent: 10,
            quota: None,
            marks: None,
        }
    }
}

/// Handles of the directories.
#[derive(Debug)]
pub(super) struct Dirs {
    pub(super) root: OwnedFd,
    pub(super) content: OwnedFd,
    pub(super) private: OwnedFd,
    pub(super) blobs: OwnedFd,
    pub(super) trees: OwnedFd,
    pub(super) images: OwnedFd,
    pub(super) contents: OwnedFd,
    pub(super) set_aside: OwnedFd,
}

/// An open volume. Its methods say whether they block; none of them waits for the network.
#[derive(Debug)]
pub struct Volume {
    pub(super) dirs: Dirs,
    pub(super) options: VolumeOptions,
    pub(super) trash: Trash,
    /// Held while content comes or goes: the order of rename and record must be one.
    pub(super) publishing: Mutex<()>,
    pub(super) contents: Mutex<Contents>,
    pub(super) blobs: Mutex<HashMap<Digest, Weak<Blob>>>,
    /// Names of the trees in the making.
    pub(super) trees: Mutex<HashSet<CString>>,
    pub(super) budget: Mutex<Budget>,
    epoch: u64,
    /// The last field: the volume is given up after everything else has ended.
    _lock: File,
}

/// What a collection has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Layers.
    pub blobs: u64,
    /// Published trees.
    pub contents: u64,
}

impl AddAssign for Collected {
    fn add_assign(&mut self, more: Self) {
        self.blobs += more.blobs;
        self.contents += more.contents;
    }
}

impl Volume {
    /// Opens a volume, makes it if it is not there, puts it in order and reads what is on it. Blocks,
    /// but not for a deletion, and never for another process.
    ///
    /// # Errors
    /// Another puller has it, it can't be written, or its layout is newer than this puller.
    pub fn open(root: &Path, options: VolumeOptions) -> Result<(Arc<Self>, Recovered), Error> {
        let problem = |problem: String| Error::Volume {
            path: root.to_owned(),
            problem,
        };
        let failed = |what: &'static str| {
            move |error: io::Error| problem(format!("cannot {what}: {error}; {}", remedy(&error)))
        };
        if options.reserve_percent >= 100 {
            return Err(problem("a reserve of 100 % leaves nothing to use".into()));
        }
        crash::arm()?;
        files::make_root(root).map_err(failed("make it"))?;
        let (dirs, trash) = Dirs::open(root).map_err(failed("make its directories"))?;
        let lock = lock::take(&dirs.private, root)?;
        let known = check_format(&dirs.private).map_err(failed("read or write private/format"))?;
        if let Some(format) = known
            && format > FORMAT
        {
            return Err(problem(format!(
                "its layout is of version {format}, and this puller knows versions up to {FORMAT}; use a \
                 newer puller, or an empty volume"
            )));
        }
        let now = u64::try_from(Timestamp::now().as_second()).unwrap_or_default();
        let epoch = epoch::raise(&dirs.private, known.is_some(), now).map_err(failed("raise the epoch"))?;
        // Only now, since an epoch is as good as durable before it is used; a crash before this leaves a
        // volume that counts as new, with an epoch that is read all the same.
        if known != Some(FORMAT) {
            files::replace(&dirs.private, FORMAT_FILE, FORMAT.to_string().as_bytes())
                .map_err(failed("write private/format"))?;
            crash::at(Point::FormatWritten);
        }
        let trash = Trash::start(trash, epoch).map_err(failed("start a thread"))?;
        let recovered = recover::recover(&dirs, &trash, epoch).map_err(failed("put it in order"))?;
        crash::at(Point::Recovered);
        let contents = recovered
            .contents
            .iter()
            .map(|record| (record.name(), record.clone()));
        let volume = Self {
            contents: Mutex::new(Contents::new(contents)),
            dirs,
            options,
            trash,
            publishing: Mutex::default(),
            blobs: Mutex::default(),
            trees: Mutex::default(),
            budget: Mutex::default(),
            epoch,
            _lock: lock,
        };
        Ok((Arc::new(volume), recovered))
    }

    /// This start's number: higher than that of any earlier start of the volume.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Writes an Image's record, durably. Blocks.
    ///
    /// # Errors
    /// The volume failed; the record is the old one or the new one.
    pub fn save_image(&self, image: &ImageRecord) -> Result<(), Fault> {
        let id = image.id();
        records::encode(image)
            .and_then(|bytes| files::replace(&self.dirs.images, &records::file_name(&id.to_string()), &bytes))
            .map_err(|error| Fault::volume(format!("write the record of image {id}"), &error))?;
        crash::at(Point::ImageRecorded);
        Ok(())
    }

    /// Removes an Image's record, durably. Blocks. One that is not there is fine.
    ///
    /// # Errors
    /// The volume failed.
    pub fn remove_image(&self, id: &ImageId) -> Result<(), Fault> {
        files::remove(&self.dirs.images, [records::file_name(&id.to_string()).as_str()])
            .map_err(|error| Fault::volume(format!("remove the record of image {id}"), &error))?;
        crash::at(Point::ImageForgotten);
        Ok(())
    }

    /// Removes what is neither kept nor in use: layers without a live [`Blob`], and contents that
    /// nobody has published or asked for since the mark. Blocks, but not for the deletion itself.
    ///
    /// # Errors
    /// The volume failed; what was not removed is left to the next collection.
    pub fn collect(
        &self,
        mark: Mark,
        keep_blobs: &HashSet<Digest>,
        keep_contents: &HashSet<String>,
    ) -> Result<Collected, Fault> {
        let contents = self.collect_contents(mark, keep_contents)?;
        crash::at(Point::ContentsCollected);
        let blobs = self
            .collect_blobs(keep_blobs)
            .and_then(|blobs| self.collect_trees().map(|()| blobs))
            .map_err(|error| Fault::volume("remove layers that nobody needs", &error))?;
        Ok(Collected { blobs, contents })
    }

    /// Waits until everything that was removed so far is gone from the disk. Blocks.
    pub fn wait_deleted(&self) {
        self.trash.wait_empty();
    }

    fn collect_blobs(&self, keep: &HashSet<Digest>) -> io::Result<u64> {
        // Under the lock, so that nobody opens a file that is about to go.
        let live = lock(&self.blobs);
        let mut removed = 0;
        for name in files::names(&self.dirs.blobs)? {
            let wanted = digest_of(&name).is_some_and(|digest| {
                keep.contains(&digest) || live.get(&digest).is_some_and(|blob| blob.strong_count() > 0)
            });
            if !wanted {
                self.trash.put(&self.dirs.blobs, &name)?;
                crash::at(Point::BlobCollected);
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes trees in the making whose removal failed when they were dropped.
    fn collect_trees(&self) -> io::Result<()> {
        for name in files::names(&self.dirs.trees)? {
            let live = lock(&self.trees);
            if !live.contains(&name) {
                self.trash.put(&self.dirs.trees, &name)?;
            }
        }
        Ok(())
    }
}

impl Dirs {
    /// Opens all directories, made where they are missing, and the trash, which goes to its thread.
    fn open(root: &Path) -> io::Result<(Self, OwnedFd)> {
        let readable = Mode::from_raw_mode(0o755);
        let root = files::open_root(root)?;
        let content = files::make_dir(&root, CONTENT_DIR, readable)?;
        let private = files::make_dir(&root, "private", Mode::RWXU)?;
        let records = files::make_dir(&private, "records", Mode::RWXU)?;
        let inner = |name| files::make_dir(&private, name, Mode::RWXU);
        let trash = inner("trash")?;
        let dirs = Self {
            blobs: inner("blobs")?,
            trees: inner("trees")?,
            set_aside: inner("set-aside")?,
            images: files::make_dir(&records, "images", Mode::RWXU)?,
            contents: files::make_dir(&records, "contents", Mode::RWXU)?,
            root,
            content,
            private,
        };
        // So that a record which says that something is there does not outlive the directory it is in.
        crash::at(Point::DirsMade);
        for dir in [&records, &dirs.private, &dirs.root] {
            rustix::fs::fsync(dir)?;
        }
        Ok((dirs, trash))
    }
}

/// The volume's version; `None`: it has none yet. Damage counts as version 0: records carry versions of
/// their own, and what does not hold is set aside.
fn check_format(private: &OwnedFd) -> io::Result<Option<u32>> {
    let bytes = match files::read(private, FORMAT_FILE, FORMAT_LIMIT) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Vec::new(),
        Err(error) => return Err(error),
    };
    let format = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.trim_end().parse().ok());
    if format.is_none() {
        tracing::warn!("private/format holds no number; the volume is taken for version {FORMAT}");
    }
    Ok(Some(format.unwrap_or_default()))
}

/// What would be right.
fn remedy(error: &io::Error) -> String {
    let user = rustix::process::geteuid().as_raw();
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "the puller runs as user {user}, who must own the volume's directories; or give it an empty volume \
             that it may write"
        ),
        io::ErrorKind::ReadOnlyFilesystem => "mount the volume so that the puller can write it".into(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on the volume, in bytes and in inodes".into()
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "the volume must be a directory, and so must be what is in it".into()
        }
        _ => "the puller needs a volume that it can write".into(),
    }
}
