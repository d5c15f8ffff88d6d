//! Makes content of a tree.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use puller_client::ContentDir;
use sha2::{Digest as _, Sha256};

use super::read::{Coding, INDEX};
use crate::fbc::{self, Document, RenderError};

/// Why a tree could not be made content.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The tree is no catalog: only another image helps.
    #[error("{0}")]
    Catalog(RenderError),
    /// The disk refused.
    #[error("cannot {what} {path:?}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

impl WriteError {
    fn io(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            what,
            path: path.clone(),
            source,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// SHA-256 of the lines, in hex.
    pub digest: String,
    /// Bytes of the lines.
    pub bytes: u64,
    /// How many lines there are.
    pub documents: u64,
}

/// Writes the content of a tree into a directory that exists and is empty:
///
/// - `catalog.jsonl`: the documents, one a line;
/// - `catalog.jsonl.gz` and `catalog.jsonl.zst`: the same, compressed;
/// - `index.json`: `{"documents":[[offset,length,schema,package,name],…]}`, of each line where it is, how long
///   it is with its newline, and whose it is.
///
/// All is on the disk when this returns.
///
/// # Errors
/// The disk refused, or the tree is no catalog.
pub fn write(tree: &ContentDir, directory: &Path) -> Result<Written, WriteError> {
    let file = |coding: Coding| directory.join(coding.file());
    let path = file(Coding::Identity);
    let written = lines(tree, &path, &directory.join(INDEX))?;
    compress(&path, &file(Coding::Gzip), |file, lines| {
        let mut encoder = GzEncoder::new(file, Compression::default());
        io::copy(lines, &mut encoder)?;
        encoder.finish()
    })?;
    compress(&path, &file(Coding::Zstd), |file, lines| {
        let mut encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
        encoder.set_pledged_src_size(Some(written.bytes))?;
        io::copy(lines, &mut encoder)?;
        encoder.finish()
    })?;
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(WriteError::io("sync", directory))?;
    Ok(written)
}

fn lines(tree: &ContentDir, path: &Path, index: &Path) -> Result<Written, WriteError> {
    let create = |path: &Path| {
        let file = File::create_new(path).map_err(WriteError::io("create", path))?;
        Ok::<_, WriteError>(BufWriter::with_capacity(BUFFER, file))
    };
    let mut lines = create(path)?;
    let mut entries = create(index)?;
    let mut hash = Sha256::new();
    let (mut bytes, mut documents) = (0, 0);
    let mut emit = |mut document: Document| {
        document.line.push('\n');
        let length = document.line.len() as u64;
        entries.write_all(if documents == 0 { b"{\"documents\":[" } else { b"," })?;
        let Document {
            line,
            schema,
            package,
            name,
        } = document;
        serde_json::to_writer(&mut entries, &(bytes, length, schema, package, name))?;
        lines.write_all(line.as_bytes())?;
        hash.update(line.as_bytes());
        bytes += length;
        documents += 1;
        Ok(())
    };
    fbc::render(tree, tree.selected(), &mut emit).map_err(|error| match error {
        RenderError::Emit(source) => WriteError::io("write", path)(source),
        RenderError::Read { path, source } => WriteError::io("read", &path)(source),
        error => WriteError::Catalog(error),
    })?;
    let end: &[u8] = if documents == 0 {
        b"{\"documents\":[]}"
    } else {
        b"]}"
    };
    entries.write_all(end).map_err(WriteError::io("write", index))?;
    sync(entries).map_err(WriteError::io("write", index))?;
    sync(lines).map_err(WriteError::io("write", path))?;
    Ok(Written {
        digest: hex::encode(hash.finalize()),
        bytes,
        documents,
    })
}

const BUFFER: usize = 128 << 10;

fn sync(file: BufWriter<File>) -> io::Result<()> {
    file.into_inner()?.sync_all()
}

/// The lines are read again rather than compressed as they come: so zstd can be told how long they are, and
/// says so in the file.
fn compress(
    lines: &Path,
    path: &Path,
    encode: impl FnOnce(BufWriter<File>, &mut dyn Read) -> io::Result<BufWriter<File>>,
) -> Result<(), WriteError> {
    let mut lines = File::open(lines).map_err(WriteError::io("read", lines))?;
    let file = File::create_new(path).map_err(WriteError::io("create", path))?;
    encode(BufWriter::with_capacity(BUFFER, file), &mut lines)
        .and_then(sync)
        .map_err(WriteError::io("write", path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::fbc::tests::Volume;

    #[test]
    fn four_files_are_written() {
        let volume = Volume::new()
            .file("a.json", r#"{"schema":"olm.package","name":"a"}"#)
            .file(
                "b/b.yaml",
                "schema: olm.channel\npackage: a\nname: \"1\"\n---\nx: y\n",
            );
        let directory = TempDir::new().unwrap();
        let written = write(&volume.open(), directory.path()).unwrap();
        let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
        let lines = read("catalog.jsonl");
        assert_eq!(
            String::from_utf8(lines.clone()).unwrap(),
            "{\"name\":\"a\",\"schema\":\"olm.package\"}\n\
             {\"name\":\"1\",\"package\":\"a\",\"schema\":\"olm.channel\"}\n\
             {\"x\":true}\n"
        );
        assert_eq!(
            String::from_utf8(read("index.json")).unwrap(),
            r#"{"documents":[[0,36,"olm.package","","a"],[36,50,"olm.channel","a","1"],[86,11,"","",""]]}"#
        );
        let mut inflated = Vec::new();
        flate2::read::GzDecoder::new(&read("catalog.jsonl.gz")[..])
            .read_to_end(&mut inflated)
            .unwrap();
        assert_eq!(inflated, lines);
        let compressed = read("catalog.jsonl.zst");
        assert_eq!(zstd::decode_all(&compressed[..]).unwrap(), lines);
        let expected = Written {
            digest: hex::encode(Sha256::digest(&lines)),
            bytes: 97,
            documents: 3,
        };
        assert_eq!(written, expected);
    }

    #[test]
    fn an_empty_catalog_is_one() {
        let directory = TempDir::new().unwrap();
        let written = write(&Volume::new().open(), directory.path()).unwrap();
        assert_eq!((written.bytes, written.documents), (0, 0));
        let index = fs::read_to_string(directory.path().join("index.json")).unwrap();
        assert_eq!(index, r#"{"documents":[]}"#);
    }

    #[test]
    fn a_bad_catalog_is_no_error_of_the_disk() {
        let directory = TempDir::new().unwrap();
        let volume = Volume::new().file("a.yaml", "a: 1\n---\n- b\n");
        let error = write(&volume.open(), directory.path()).unwrap_err();
        assert!(matches!(error, WriteError::Catalog(_)));
        assert_eq!(
            error.to_string(),
            "\"a.yaml\" of the catalog, document 2, line 3: a document must be an object"
        );
        // The directory must be empty.
        let error = write(&Volume::new().open(), directory.path()).unwrap_err();
        assert!(matches!(error, WriteError::Io { .. }));
    }
}
