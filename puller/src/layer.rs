//! Bytes in, entries out: decompression, archives, and the unpack that can't leave its root.
//!
//! ```text
//! source (follows a download) ─ thread of Inflate ─ recycled buffers ─ Tree::apply ─┬─ big files, links,
//!   gzip, zstd or plain, by magic     (1 MiB)        hashes (diffID), parses,       │  directories, removals
//!                                                    decides on every entry        └─ Writer's thread:
//!                                                                                     small files
//! ```
//!
//! Nothing here is asynchronous; the threads are plain ones. What an archive may do:
//!
//! - It writes below its root only. Parents are opened by handle; a symbolic link among them is followed
//!   as if the root were `/`; the last component is never followed. See [`Tree`].
//! - It is bounded in bytes, entries, depth, path length and ratio, whatever is written of it: [`Limits`].
//! - Owners, special files, extended attributes, setuid bits and modification times are not taken over
//!   (consumers need none of them). All but the times are counted: [`Skipped`](crate::domain::Skipped).
//!
//! The compressed bytes are verified by whoever downloads them, the uncompressed ones here. Bytes that
//! fail the first check usually look like a malformed layer to this module: a caller that knows of such a
//! mismatch reports it instead of the fault it got from here.

pub(crate) mod archive;
pub(crate) mod bytes;
mod dirs;
mod fault;
mod inflate;
mod limits;
mod made;
mod path;
mod tree;
mod writer;

#[cfg(test)]
mod tests;

pub use inflate::Inflate;
pub use limits::Limits;
pub use tree::{Summary, Tree, TreeOptions};
