//! The only place that owns the volume: what lies where, who may write, and what survives a crash.
//!
//! ```text
//! VOLUME/
//!   content/                0755  what readers see
//!     <name>/               0555  a published tree; the name is domain::wish::content_name
//!   private/                0700  set at each start, so that only the puller's user enters
//!     lock                        held by flock for as long as the puller runs; its pid, as text
//!     format                      version of this layout, as text
//!     epoch, epoch.copy           a number raised at each start, as text, twice
//!     blobs/<algorithm>-<hex>     compressed layers: in flight, or kept to resume
//!     trees/<epoch>-<n>/          trees in the making
//!     records/images/<id>.json    what is wished, and how its pulls went
//!     records/contents/<name>.json  says that content/<name> is whole
//!     set-aside/<epoch>-<n>-<name>  records that do not hold; the newest few
//!     trash/<epoch>-<n>           what is being deleted
//! ```
//!
//! # Invariants
//! - `content/NAME` counts if and only if `records/contents/NAME.json` is there, holds, and names it.
//!   The tree comes first, whole and synced; the record, second, makes it true. Removal goes the other
//!   way about. A tree without a record is therefore an accident of a crash and is deleted at start; a
//!   record without a tree can only come from a damaged volume and is set aside.
//! - What is below `content/NAME` never changes.
//! - A file of `blobs/` proves nothing by being there: it is hashed again before its end is believed.
//! - A tree in the making belongs to one [`TreeDir`] and never outlives the process.
//! - Nothing is deleted where it stands: it is renamed into `trash/` (one step, at once out of sight) and
//!   a thread of its own takes it apart, so that neither a start nor a pull waits for it.
//! - The epoch rises with every start, whatever became of its files.
//!
//! # Who may write
//! One process: the holder of `lock`. Within it, everything goes through [`Volume`]; an unpack gets a
//! directory handle of its [`TreeDir`]. Neighbours mount the volume to read `content/`.
//!
//! # What the system's calls are trusted with
//! - `rename` is atomic for whoever looks, and is on disk once the directory is synced.
//! - `fsync` of a file makes its bytes durable; of a directory, its names.
//! - `syncfs` makes every byte of the file system durable, and reports a write that failed since the
//!   handle it is called with was opened: that handle is the tree's own, opened before its first byte.
//! - `flock` ends with the process, however it ends.
//! - A record is written to `NAME.<n>.new`, synced, renamed, and its directory synced: a reader finds
//!   the old one or the new one. It carries the digest of its own text, so that damage is seen.

pub mod blob;
pub(crate) mod crash;
mod epoch;
mod files;
mod lock;
pub mod publish;
pub mod record;
mod records;
mod recover;
pub mod space;
mod trash;
pub mod tree;
mod volume;

pub use blob::{Blob, BlobReader, BlobWriter};
pub use publish::Mark;
pub use record::ImageRecord;
pub use recover::Recovered;
pub use space::{Marks, Reservation, Space};
pub use tree::TreeDir;
pub use volume::{Collected, Volume, VolumeOptions};

#[cfg(test)]
mod tests;
