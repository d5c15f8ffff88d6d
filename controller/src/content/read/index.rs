//! Which document is where.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader},
    path::Path,
};

use serde::Deserialize;

use super::{Query, Section};

/// The file: of each line where it is, how long it is with its newline, and its schema, package and name.
#[derive(Deserialize)]
struct Stored {
    documents: Vec<(u64, u64, String, String, String)>,
}

/// The documents of a content. A catalog has up to 100,000, of which most share their schema and package, so
/// strings are kept once.
#[derive(Debug)]
pub(super) struct Index {
    documents: Box<[Document]>,
    /// All strings; the first is empty.
    strings: Box<[Box<str>]>,
}

/// One line, with its strings by number.
#[derive(Debug)]
struct Document {
    section: Section,
    schema: u32,
    package: u32,
    name: u32,
}

/// The number of the string that is empty.
const EMPTY: u32 = 0;

impl Index {
    /// Reads the index of a content that has so many bytes.
    ///
    /// # Errors
    /// The file can't be read, or speaks of bytes that are not there.
    pub(super) fn load(path: &Path, length: u64) -> io::Result<Self> {
        let stored: Stored = serde_json::from_reader(BufReader::new(File::open(path)?))?;
        let mut numbers = Numbers::default();
        numbers.of(String::new())?;
        let mut documents = Vec::with_capacity(stored.documents.len());
        let mut end = 0;
        for (offset, bytes, schema, package, name) in stored.documents {
            let next = offset
                .checked_add(bytes)
                .filter(|next| *next <= length && offset >= end);
            end = next.ok_or_else(|| {
                let told = format!("a line of {bytes} bytes at {offset} can't be part of {length} bytes");
                io::Error::new(io::ErrorKind::InvalidData, told)
            })?;
            documents.push(Document {
                section: Section {
                    offset,
                    length: bytes,
                },
                schema: numbers.of(schema)?,
                package: numbers.of(package)?,
                name: numbers.of(name)?,
            });
        }
        Ok(Self {
            documents: documents.into(),
            strings: numbers.into_strings(),
        })
    }

    /// The sections of a content of so many bytes that a query asks for.
    pub(super) fn find(&self, query: &Query, length: u64) -> Vec<Section> {
        let wanted = [&query.schema, &query.package, &query.name]
            .map(|value| value.as_deref().filter(|value| !value.is_empty()));
        if wanted == [None; 3] {
            let whole = Section { offset: 0, length };
            return Vec::from_iter((length > 0).then_some(whole));
        }
        let mut numbers = [None; 3];
        for (number, value) in numbers.iter_mut().zip(wanted) {
            let Some(value) = value else { continue };
            match self.number(value) {
                Some(found) => *number = Some(found),
                None => return Vec::new(),
            }
        }
        let [schema, package, name] = numbers;
        let is = |wanted: Option<u32>, number| wanted.is_none_or(|wanted| wanted == number);
        let found = self.documents.iter().filter(|document| {
            document.schema != EMPTY
                && is(schema, document.schema)
                && is(package, document.package)
                && is(name, document.name)
        });
        let mut sections: Vec<Section> = Vec::new();
        for Document { section, .. } in found {
            match sections.last_mut() {
                Some(last) if last.offset + last.length == section.offset => last.length += section.length,
                _ => sections.push(*section),
            }
        }
        sections
    }

    fn number(&self, value: &str) -> Option<u32> {
        let position = self.strings.iter().position(|string| **string == *value)?;
        u32::try_from(position).ok()
    }
}

/// Numbers strings in the order in which they come.
#[derive(Default)]
struct Numbers(HashMap<Box<str>, u32>);

impl Numbers {
    fn of(&mut self, string: String) -> io::Result<u32> {
        let next = u32::try_from(self.0.len()).map_err(io::Error::other)?;
        Ok(*self.0.entry(string.into()).or_insert(next))
    }

    fn into_strings(self) -> Box<[Box<str>]> {
        let mut strings: Vec<_> = self.0.into_iter().collect();
        strings.sort_unstable_by_key(|(_, number)| *number);
        strings.into_iter().map(|(string, _)| string).collect()
    }
}
