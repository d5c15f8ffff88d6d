//! Reads the documents of a file.
//!
//! Whether a file is JSON or YAML shows in its content. Kubernetes' decoder, which catalogd has, tries JSON where
//! the first thing is a brace. Where that fails within the first two documents it goes on with YAML, from the
//! document that failed, and then stays with that.

use std::{
    io::{self, Read},
    path::Path,
};

use super::{
    Document, Problem, RenderError, json, meta,
    source::{Next, Source, newlines},
    yaml,
};

/// Gives the documents of a file, one after the other.
pub(super) fn read<R: Read>(
    path: &Path,
    reader: R,
    emit: &mut dyn FnMut(Document) -> io::Result<()>,
) -> Result<(), RenderError> {
    let failed = |source| RenderError::read(path, source);
    let mut source = Source::new(reader);
    let mut json = source.may_be_json().map_err(failed)?;
    let mut count = 0;
    loop {
        let mut first = None;
        if json {
            match next_json(&mut source).map_err(failed)? {
                Ok(Some(document)) => {
                    count += 1;
                    document.map_or(Ok(()), &mut *emit).map_err(RenderError::Emit)?;
                    continue;
                }
                Ok(None) => return Ok(()),
                Err(problem) if count > 1 => return Err(error(path, count, &source, problem)),
                Err(problem) => {
                    first = Some(error(path, count, &source, problem));
                    json = false;
                    source.skip_rest_of_line().map_err(failed)?;
                }
            }
        }
        match next_yaml(path, &mut source).map_err(failed)? {
            Ok(Some(document)) => {
                count += 1;
                document.map_or(Ok(()), &mut *emit).map_err(RenderError::Emit)?;
            }
            Ok(None) => return first.map_or(Ok(()), Err),
            Err(problem) => return Err(first.unwrap_or_else(|| error(path, count, &source, problem))),
        }
    }
}

fn error<R: Read>(path: &Path, before: u64, source: &Source<R>, problem: Problem) -> RenderError {
    RenderError::Document {
        path: path.to_owned(),
        document: before + 1,
        line: source.line() + problem.line,
        what: problem.what,
    }
}

/// No document at the end, and within it none where there is one that is nothing.
type Found = io::Result<Result<Option<Option<Document>>, Problem>>;

fn next_json<R: Read>(source: &mut Source<R>) -> Found {
    let length = match source.next_json()? {
        Next::End => return Ok(Ok(None)),
        Next::Document(length) => length,
        Next::Broken(what) => return Ok(Err(broken(source, what))),
    };
    let text = &source.unused()[..length];
    let document = json::parse(text).and_then(|value| {
        meta::document(&value).map_err(|what| Problem {
            line: newlines(&text[..blank(text)]),
            what,
        })
    });
    if document.is_ok() {
        source.consume(length);
    }
    Ok(document.map(Some))
}

fn next_yaml<R: Read>(path: &Path, source: &mut Source<R>) -> Found {
    let length = match source.next_yaml()? {
        Next::End => return Ok(Ok(None)),
        Next::Document(length) => length,
        Next::Broken(what) => return Ok(Err(broken(source, what))),
    };
    let document = yaml_document(path, source.line(), &source.unused()[..length]);
    if document.is_ok() {
        source.consume(length);
    }
    Ok(document.map(Some))
}

fn yaml_document(path: &Path, line: u64, text: &[u8]) -> Result<Option<Document>, Problem> {
    let text = str::from_utf8(text).map_err(|error| Problem {
        line: newlines(&text[..error.valid_up_to()]),
        what: "this is no UTF-8".to_owned(),
    })?;
    let document = yaml::parse(text)?;
    if let Some(unread) = document.unread {
        let line = line + unread;
        tracing::warn!(
            ?path,
            line,
            "no `---` is before this line, so it is no part of the catalog; catalogd leaves it out too"
        );
    }
    meta::document(&document.value()?).map_err(|what| Problem {
        line: document.line(),
        what,
    })
}

/// What can't be told apart is wrong where it begins.
fn broken<R: Read>(source: &Source<R>, what: &str) -> Problem {
    let unused = source.unused();
    Problem {
        line: newlines(&unused[..blank(unused)]),
        what: what.to_owned(),
    }
}

/// How many bytes of white space a text begins with.
fn blank(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}
