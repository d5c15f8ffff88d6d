//! Renders file-based catalogs: a tree of YAML and JSON becomes lines of JSON, byte for byte what catalogd makes
//! of it.
//!
//! One thing is better here: whole numbers stay exact, where catalogd sends them through a float64 and
//! `9007199254740993` becomes `9007199254740992`.
//!
//! Catalogs come from outside. However a document is made, what is made of it is bounded: by its length, its
//! depth, how many values it has when its aliases are expanded, and the length of its line. Of a catalog, one
//! document at a time is in memory.

mod documents;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod json;
mod meta;
mod number;
mod source;
mod value;
mod walk;
mod yaml;

use std::{
    io,
    path::{Path, PathBuf},
};

use puller_client::{ContentDir, ContentKind};

/// A document of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The document as compact JSON with sorted keys, without a newline.
    pub line: String,
    /// Its `schema`; empty, if there is none. So are the others.
    pub schema: String,
    /// Its `package`.
    pub package: String,
    /// Its `name`.
    pub name: String,
}

/// Why a catalog could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A document is none.
    #[error("{path:?} of the catalog, document {document}, line {line}: {what}")]
    Document {
        /// The file.
        path: PathBuf,
        /// Which document of the file, counted from 1; empty ones count.
        document: u64,
        /// The line of the file, counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// Too much is to be left out.
    #[error("{path:?} of the catalog has more than 64 KiB, or more than 1000 patterns apply where it is")]
    Ignore {
        /// The file that says what is left out.
        path: PathBuf,
    },
    /// A link of the catalog leads to no file.
    #[error("{path:?} of the catalog is a link that leads to no file: {source}")]
    Link {
        /// The link.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The tree can't be read.
    #[error("cannot read {path:?} of the catalog: {source}")]
    Read {
        /// What could not be read.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// Who was given a document did not take it.
    #[error("{0}")]
    Emit(io::Error),
}

impl RenderError {
    fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    /// How many lines of the document are before.
    line: u64,
    what: String,
}

/// Text of a catalog as a message quotes it: short, and on one line.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Gives the documents of the catalog that is below a path of a tree, one after the other. Blocks.
///
/// # Errors
/// The catalog is none, or can't be read, or a document was not taken.
pub fn render(
    tree: &ContentDir,
    selected: &Path,
    emit: &mut dyn FnMut(Document) -> io::Result<()>,
) -> Result<(), RenderError> {
    walk::files(tree, selected, &mut |entry| {
        let path = &entry.path;
        let file = tree.open_file(path).map_err(|source| match entry.kind {
            ContentKind::Link => RenderError::Link {
                path: path.clone(),
                source,
            },
            _ => RenderError::read(path, source),
        })?;
        documents::read(path, file, emit)
    })
}

#[cfg(test)]
pub(crate) mod tests;
