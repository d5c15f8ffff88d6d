//! Reads content: whole or in parts, as it is or compressed.
//!
//! The files are opened once and read by position, so a content whose directory is removed is read to its end,
//! and any number of readers share one handle.

mod index;

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path, sync::Arc, time::SystemTime, vec::IntoIter};

use bytes::Bytes;
use futures_util::{Stream, stream};

use self::index::Index;

/// How much is read at once, and so what a reader holds in memory however slow it is.
const CHUNK: u64 = 64 * 1024;

/// The file of a content's directory that says which document is where.
pub(super) const INDEX: &str = "index.json";

/// In which coding content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// As it is.
    Identity,
    /// Compressed by gzip.
    Gzip,
    /// Compressed by Zstandard.
    Zstd,
}

impl Coding {
    /// The file of a content's directory that is in this coding.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Identity => "catalog.jsonl",
            Self::Gzip => "catalog.jsonl.gz",
            Self::Zstd => "catalog.jsonl.zst",
        }
    }
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Where it starts.
    pub offset: u64,
    /// Bytes of it.
    pub length: u64,
}

/// Which documents are asked for. What is absent or empty does not filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Those of a schema.
    pub schema: Option<String>,
    /// Those of a package.
    pub package: Option<String>,
    /// Those of a name.
    pub name: Option<String>,
}

/// A file that is open.
#[derive(Debug)]
struct Opened {
    file: Arc<File>,
    length: u64,
}

impl Opened {
    fn open(directory: &Path, coding: Coding) -> io::Result<Self> {
        let file = File::open(directory.join(coding.file())).map_err(named(coding.file()))?;
        let length = file.metadata().map_err(named(coding.file()))?.len();
        Ok(Self {
            file: Arc::new(file),
            length,
        })
    }
}

/// Content that is open.
#[derive(Debug)]
pub struct Content {
    digest: String,
    modified: SystemTime,
    identity: Opened,
    gzip: Opened,
    zstd: Opened,
    index: Index,
}

impl Content {
    /// Opens the content of a directory. It blocks for as long as reading the index takes.
    ///
    /// # Errors
    /// A file is missing, or the index is not that of the content.
    pub fn open(directory: &Path, digest: String, modified: SystemTime) -> io::Result<Self> {
        let identity = Opened::open(directory, Coding::Identity)?;
        let index = Index::load(&directory.join(INDEX), identity.length).map_err(named(INDEX))?;
        Ok(Self {
            digest,
            modified,
            identity,
            gzip: Opened::open(directory, Coding::Gzip)?,
            zstd: Opened::open(directory, Coding::Zstd)?,
            index,
        })
    }

    /// What it is: SHA-256 of its lines, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// When it became what it is.
    pub fn modified(&self) -> SystemTime {
        self.modified
    }

    /// Bytes of it in a coding.
    pub fn length(&self, coding: Coding) -> u64 {
        self.opened(coding).length
    }

    /// Where the documents are that a query asks for, in their order; neighbours are one section. They are
    /// parts of [`Coding::Identity`].
    ///
    /// As in catalogd, a query that filters by anything finds only documents that have a schema.
    pub fn find(&self, query: &Query) -> Vec<Section> {
        self.index.find(query, self.identity.length)
    }

    /// Reads parts of it, one after another. What is read is bounded, and read only when it is asked for.
    pub fn read(
        &self,
        coding: Coding,
        sections: Vec<Section>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        let reader = Reader {
            file: Arc::clone(&self.opened(coding).file),
            current: None,
            sections: sections.into_iter(),
        };
        stream::unfold(Some(reader), async |reader| {
            let reading = tokio::task::spawn_blocking(move || {
                let mut reader = reader?;
                let read = reader.next().transpose()?;
                // After an error there is nothing more: the rest would be taken for the part that is missing.
                let reader = read.is_ok().then_some(reader);
                Some((read, reader))
            });
            // It can only fail when the runtime ends, and then nobody asks any more.
            reading.await.ok().flatten()
        })
    }

    fn opened(&self, coding: Coding) -> &Opened {
        match coding {
            Coding::Identity => &self.identity,
            Coding::Gzip => &self.gzip,
            Coding::Zstd => &self.zstd,
        }
    }
}

/// Goes through sections.
struct Reader {
    file: Arc<File>,
    current: Option<Section>,
    sections: IntoIter<Section>,
}

impl Reader {
    /// The next chunk. Small sections share one: a query may find thousands.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut chunk = Vec::new();
        while (chunk.len() as u64) < CHUNK {
            let Some(section) = self.current.take().or_else(|| self.sections.next()) else {
                break;
            };
            let room = CHUNK - chunk.len() as u64;
            let taken = section.length.min(room);
            let start = chunk.len();
            chunk.resize(start + usize::try_from(taken).unwrap_or(usize::MAX), 0);
            self.file.read_exact_at(&mut chunk[start..], section.offset)?;
            if section.length > taken {
                self.current = Some(Section {
                    offset: section.offset + taken,
                    length: section.length - taken,
                });
            }
        }
        Ok((!chunk.is_empty()).then(|| Bytes::from(chunk)))
    }
}

fn named(file: &'static str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{file}: {error}"))
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
