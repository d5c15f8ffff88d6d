//! Bytes in, entries out: decompression, archives, and the unpack that can't leave its root.
