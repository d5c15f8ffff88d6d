//! What containers-registries.conf(5), version 2, says: where the images of a registry are to be had,
//! which are blocked, and what names without a registry stand for.
//!
//! The main file may be extended by drop-in files in the directory beside it (`registries.conf.d`), as
//! containers-registries.conf.d(5) has it. All of them are read again when one of them changes; where
//! they can't be used, what they said before stays in force.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

mod file;
mod table;

pub use file::InvalidRoutes;
pub use table::{Endpoint, Route};

use file::File;
pub(crate) use table::Table;

use super::stamp::Stamp;
use crate::domain::{Reference, reference::InvalidReference};

/// The files are looked at again at most this often: every request asks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The routes to all registries, as the files say.
#[derive(Debug, Default)]
pub struct Routes {
    main: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    table: Arc<Table>,
    seen: Vec<(PathBuf, Stamp)>,
    /// `None`: there is no file to be looked at.
    looked: Option<Instant>,
    /// Whether something has changed that nobody has asked for yet.
    news: bool,
}

impl Routes {
    /// The routes of a main file and its drop-in files, none of which needs to exist (yet).
    ///
    /// # Errors
    /// One of them can't be used.
    pub fn read(main: impl Into<PathBuf>) -> Result<Self, InvalidRoutes> {
        let main = main.into();
        let seen = files(&main)?;
        let table = Arc::new(table(&seen)?);
        Ok(Self {
            main,
            current: Mutex::new(Current {
                table,
                seen,
                looked: Some(Instant::now()),
                news: false,
            }),
        })
    }

    /// Where a repository is to be had. `by_tag`: whether the image was asked for by its tag alone.
    pub fn route(&self, registry: &str, repository: &str, by_tag: bool) -> Route {
        self.table().route(registry, repository, by_tag)
    }

    /// Parses a reference; one without a registry is what registries.conf says that it stands for.
    ///
    /// # Errors
    /// It can't be one, or it could stand for several; the text says which part, or for which.
    pub fn reference(&self, text: &str) -> Result<Reference, String> {
        let parse = |text: &str| text.parse().map_err(|error: InvalidReference| error.to_string());
        match self.table().written_out(text)? {
            Some(written_out) => parse(&written_out),
            None => parse(text),
        }
    }

    /// Whether what the files say has changed since this was last asked.
    pub fn have_changed(&self) -> bool {
        std::mem::take(&mut self.looked_at().news)
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.looked_at().table)
    }

    /// What the files say, looked at again if that is due.
    fn looked_at(&self) -> MutexGuard<'_, Current> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current
            .looked
            .is_some_and(|looked| looked.elapsed() >= LOOK_EVERY)
        {
            current.looked = Some(Instant::now());
            current.look_again(&self.main);
        }
        current
    }
}

impl Current {
    fn look_again(&mut self, main: &Path) {
        let seen = match files(main) {
            Ok(seen) if seen == self.seen => return,
            Ok(seen) => seen,
            Err(error) => {
                tracing::warn!(%error, "cannot look at registries.conf; going on with what it said before");
                return;
            }
        };
        match table(&seen) {
            Ok(table) => {
                tracing::info!(file = %main.display(), "registries.conf was read again");
                self.table = Arc::new(table);
                self.news = true;
            }
            Err(error) => {
                tracing::error!(%error, "cannot use registries.conf; going on with what it said before");
            }
        }
        // Also when it can't be used: it is tried again when it changes once more.
        self.seen = seen;
    }
}

/// The files that are there, in the order in which they count.
fn files(main: &Path) -> Result<Vec<(PathBuf, Stamp)>, InvalidRoutes> {
    let mut paths = vec![main.to_owned()];
    let mut directory = main.as_os_str().to_owned();
    directory.push(".d");
    match fs::read_dir(&directory) {
        Ok(entries) => {
            let mut drop_ins = Vec::new();
            for entry in entries {
                let path = entry
                    .map_err(|error| unreadable(Path::new(&directory), &error))?
                    .path();
                if path.extension().is_some_and(|extension| extension == "conf") {
                    drop_ins.push(path);
                }
            }
            drop_ins.sort();
            paths.extend(drop_ins);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(Path::new(&directory), &error)),
    }
    let mut seen = Vec::new();
    for path in paths {
        if let Some(stamp) = Stamp::of(&path).map_err(|error| unreadable(&path, &error))? {
            seen.push((path, stamp));
        }
    }
    Ok(seen)
}

fn table(files: &[(PathBuf, Stamp)]) -> Result<Table, InvalidRoutes> {
    let mut table = Table::default();
    for (path, _) in files {
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let (file, unknown) = File::parse(&text).map_err(|problem| InvalidRoutes::new(path, problem))?;
        if !unknown.is_empty() {
            tracing::warn!(file = %path.display(), keys = unknown.join(", "), "keys that are not known are ignored");
        }
        table.extend(file);
    }
    Ok(table)
}

fn unreadable(path: &Path, error: &io::Error) -> InvalidRoutes {
    InvalidRoutes::new(path, format!("it can't be read: {error}"))
}

#[cfg(test)]
mod tests;
