//! Places where a process can be told to die, so that tests see what a death just there leaves.
//!
//! `PULLER_CRASH_AT=tree-synced` kills the process when it first comes by that place, and
//! `PULLER_CRASH_AT=tree-synced:3` when it comes by for the third time: by SIGKILL, so that no
//! destructor tidies up. What a dead process has written is seen by the next one; whether it is on disk
//! too is another question, which the order of the calls answers.
//!
//! Only a build with debug assertions holds these places. In what is released [`at`] is empty, and the
//! variable means nothing.

use crate::error::Error;

/// Where to die: the name of a place, and optionally how often it is passed before.
#[cfg(debug_assertions)]
const VARIABLE: &str = "PULLER_CRASH_AT";

/// Makes the enum and the names that the variable knows.
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// A place where a crash could hurt, by what has just been done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Point {
            $($(#[$doc])* $point,)*
        }

        #[cfg(debug_assertions)]
        const NAMES: &[(&str, Point)] = &[$(($name, Point::$point),)*];
    };
}

points! {
    // === Start ===
    /// The volume's directories are there, perhaps for the first time; none is synced.
    DirsMade = "dirs-made",
    /// One copy of the epoch is raised, and perhaps the other one.
    EpochCopyRaised = "epoch-copy-raised",
    /// A new volume has its version.
    FormatWritten = "format-written",
    /// Half-made trees and files that can't be layers are in the trash; no record is read.
    LeftoversTrashed = "leftovers-trashed",
    /// A record that does not hold is set aside.
    RecordSetAside = "record-set-aside",
    /// Records and trees of contents agree; no Image is read.
    ContentsChecked = "contents-checked",
    /// The volume is in order; nobody has been told anything.
    Recovered = "recovered",

    // === Small files: records, epoch, version ===
    /// A file's new text is in a temporary file, not synced.
    FileWritten = "file-written",
    /// The temporary file is synced and does not have its name yet.
    FileSynced = "file-synced",
    /// The file has its name; the directory is not synced.
    FileRenamed = "file-renamed",
    /// Files have been unlinked; the directory is not synced.
    FilesUnlinked = "files-unlinked",

    // === Layers ===
    /// A layer has an empty file.
    BlobCreated = "blob-created",
    /// Bytes are in a layer's file, and not hashed.
    BlobWritten = "blob-written",
    /// All bytes of a layer are hashed; they are not compared with its digest.
    BlobComplete = "blob-complete",
    /// A layer is known to be right.
    BlobVerified = "blob-verified",
    /// A layer's file was wrong, and is empty again.
    BlobEmptied = "blob-emptied",
    /// What an earlier run left of a layer is hashed again.
    BlobHashedAgain = "blob-hashed-again",
    /// A layer's file went with its last user.
    BlobDiscarded = "blob-discarded",

    // === Trees ===
    /// A directory for an unpack is there, and empty.
    TreeMade = "tree-made",
    /// A layer is unpacked; others may follow.
    LayerApplied = "layer-applied",
    /// The tree is whole, and not synced.
    TreeUnpacked = "tree-unpacked",
    /// The tree is synced, and private.
    TreeSynced = "tree-synced",
    /// The tree is under `content/`, writable by its owner; the rename is not synced.
    TreeRenamed = "tree-renamed",
    /// The rename is synced; no record says that the tree is whole.
    RenameSynced = "rename-synced",
    /// The content's record is there; no Image has it.
    ContentRecorded = "content-recorded",
    /// An Image's record is written, and what it says not yet told.
    ImageRecorded = "image-recorded",

    // === Removal ===
    /// An Image's record is gone.
    ImageForgotten = "image-forgotten",
    /// Contents have no records any more, but still their trees.
    ContentForgotten = "content-forgotten",
    /// A content's tree is in the trash.
    ContentTrashed = "content-trashed",
    /// A collection has removed contents, but no layers yet.
    ContentsCollected = "contents-collected",
    /// A collection has removed a layer.
    BlobCollected = "blob-collected",
    /// Something is in the trash.
    Trashed = "trashed",
    /// A directory in the trash has come out of the one that it was in.
    TrashFlattened = "trash-flattened",
    /// Something in the trash is deleted.
    TrashDeleted = "trash-deleted",
}

/// Reads the variable, once in a process.
///
/// # Errors
/// It names no place; the message has the names of all.
#[cfg(debug_assertions)]
pub(super) fn arm() -> Result<(), Error> {
    armed::arm()
}

/// There is nothing to arm.
#[cfg(not(debug_assertions))]
pub(super) fn arm() -> Result<(), Error> {
    Ok(())
}

/// The process has come to this place; it may have been told to die here.
#[cfg(debug_assertions)]
pub(crate) fn at(point: Point) {
    armed::at(point);
}

/// Nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn at(_: Point) {}

#[cfg(debug_assertions)]
mod armed;
