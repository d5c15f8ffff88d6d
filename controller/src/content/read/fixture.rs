//! Content for tests, written as `content::write` writes it.

use std::{
    fs,
    io::Write as _,
    path::Path,
    time::{Duration, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::Content;

/// A content's directory that goes with it.
#[derive(Debug)]
pub(crate) struct Stored {
    directory: TempDir,
    /// The lines.
    pub(crate) bytes: Vec<u8>,
}

impl Stored {
    /// Writes documents, each of which is a JSON object without line breaks.
    pub(crate) fn new<S: AsRef<str>>(documents: impl IntoIterator<Item = S>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (mut bytes, mut index) = (Vec::new(), Vec::new());
        for document in documents {
            let document = document.as_ref();
            let value: Value = serde_json::from_str(document).unwrap();
            let of = |key: &str| {
                value
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            index.push((
                bytes.len(),
                document.len() + 1,
                of("schema"),
                of("package"),
                of("name"),
            ));
            bytes.extend_from_slice(document.as_bytes());
            bytes.push(b'\n');
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&bytes).unwrap();
        for (file, written) in [
            ("catalog.jsonl", bytes.clone()),
            ("catalog.jsonl.gz", gzip.finish().unwrap()),
            ("catalog.jsonl.zst", zstd::encode_all(&*bytes, 0).unwrap()),
            (
                "index.json",
                serde_json::json!({ "documents": index }).to_string().into(),
            ),
        ] {
            fs::write(directory.path().join(file), written).unwrap();
        }
        Self { directory, bytes }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// SHA-256 of the lines.
    pub(crate) fn digest(&self) -> String {
        hex::encode(Sha256::digest(&self.bytes))
    }

    /// When it became what it is: the same moment for all, with a part of a second.
    pub(crate) fn modified() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500)
    }

    /// Opens it.
    pub(crate) fn open(&self) -> Content {
        Content::open(self.path(), self.digest(), Self::modified()).unwrap()
    }
}
