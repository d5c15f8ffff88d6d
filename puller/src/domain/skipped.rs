//! What an unpack leaves out on purpose.

use serde::{Deserialize, Serialize};

/// Archive content that is not written to the tree, by kind, over all layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Skipped {
    /// Device nodes and named pipes (an archive can't hold sockets).
    pub special_files: u64,
    /// Extended attributes.
    pub xattrs: u64,
    /// Entries with a setuid, setgid or sticky bit.
    pub mode_bits: u64,
    /// Entries with another owner or group than root.
    pub owners: u64,
}
