//! The files of a catalog.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use puller_client::{ContentDir, ContentEntry, ContentKind};

use super::RenderError;

const IGNORE: &str = ".indexignore";
/// How long such a file may be, and how many patterns there may be: each is tried on every file below.
const MAX_IGNORE: u64 = 64 << 10;
const MAX_PATTERNS: usize = 1000;

/// What files of a directory are left out.
#[derive(Debug)]
struct Ignores {
    directory: PathBuf,
    /// One by one: to Go's go-git the last pattern counts that matches a file or what it is in, and a matcher
    /// of several looks at the file first.
    patterns: Vec<Gitignore>,
    /// What the directories above say.
    above: Option<Rc<Ignores>>,
}

impl Ignores {
    fn read(tree: &ContentDir, file: &Path, above: Option<Rc<Self>>) -> Result<Self, RenderError> {
        let mut text = Vec::new();
        tree.open_file(file)
            .and_then(|file| file.take(MAX_IGNORE + 1).read_to_end(&mut text))
            .map_err(|source| RenderError::read(file, source))?;
        let mut ignores = Self {
            directory: file.parent().unwrap_or(Path::new("")).to_owned(),
            patterns: Vec::new(),
            above,
        };
        let long = text.len() as u64 > MAX_IGNORE;
        for line in String::from_utf8_lossy(&text).lines() {
            // Go's package takes spaces away in front too. What is no pattern matches nothing there.
            let mut builder = GitignoreBuilder::new("");
            if builder.add_line(None, line.trim()).is_ok()
                && let Ok(pattern) = builder.build()
                && !pattern.is_empty()
            {
                ignores.patterns.push(pattern);
            }
        }
        if long || ignores.count() > MAX_PATTERNS {
            return Err(RenderError::Ignore {
                path: file.to_owned(),
            });
        }
        Ok(ignores)
    }

    fn count(&self) -> usize {
        self.patterns.len() + self.above.as_ref().map_or(0, |above| above.count())
    }

    fn ignored(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.directory).unwrap_or(path);
        let said = self.patterns.iter().rev().find_map(|pattern| {
            match pattern.matched_path_or_any_parents(below, false) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        });
        said.unwrap_or_else(|| self.above.as_ref().is_some_and(|above| above.ignored(path)))
    }
}

/// Calls for each file of a catalog, in the order of Go's `WalkDir`: by names, and what is in a directory in the
/// directory's place.
pub(super) fn files(
    tree: &ContentDir,
    root: &Path,
    each: &mut dyn FnMut(&ContentEntry) -> Result<(), RenderError>,
) -> Result<(), RenderError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| RenderError::read(&path, source)
    };
    if !tree.metadata(root).map_err(failed(root))?.is_dir() {
        return each(&ContentEntry {
            path: root.to_owned(),
            kind: ContentKind::File,
        });
    }
    // What is still to be seen; the last comes first.
    let mut ahead = Vec::new();
    let mut next = Some((root.to_owned(), None::<Rc<Ignores>>));
    loop {
        if let Some((directory, mut ignores)) = next.take() {
            let entries = tree.read_dir(&directory).map_err(failed(&directory))?;
            let file = directory.join(IGNORE);
            if entries
                .iter()
                .any(|entry| entry.path == file && entry.kind != ContentKind::Directory)
            {
                ignores = Some(Rc::new(Ignores::read(tree, &file, ignores)?));
            }
            let entries = entries.into_iter().rev();
            ahead.extend(entries.map(|entry| (entry, ignores.clone())));
        }
        let Some((entry, ignores)) = ahead.pop() else {
            return Ok(());
        };
        if entry.kind == ContentKind::Directory {
            next = Some((entry.path, ignores));
        } else if entry.path.file_name().is_none_or(|name| name != IGNORE)
            && !ignores.is_some_and(|ignores| ignores.ignored(&entry.path))
        {
            each(&entry)?;
        }
    }
}
