//! A tree, from top to bottom.

use std::{io, path::Path};

use super::{ContentDir, ContentEntry, ContentKind};

/// All that is below a directory; see [`ContentDir::walk`]. It goes on after an error, without what is
/// below the directory that could not be read.
#[derive(Debug)]
pub struct Walk<'a> {
    content: &'a ContentDir,
    /// What is still to be told; the last comes first.
    ahead: Vec<io::Result<ContentEntry>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(content: &'a ContentDir, path: &Path) -> Self {
        let mut walk = Self {
            content,
            ahead: Vec::new(),
        };
        walk.enter(path);
        walk
    }

    fn enter(&mut self, path: &Path) {
        match self.content.read_dir(path) {
            Ok(entries) => self.ahead.extend(entries.into_iter().rev().map(Ok)),
            Err(error) => self.ahead.push(Err(error)),
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = io::Result<ContentEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.ahead.pop()?;
        if let Ok(entry) = &next
            && entry.kind == ContentKind::Directory
        {
            self.enter(&entry.path);
        }
        Some(next)
    }
}
