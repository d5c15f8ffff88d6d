//! The part of an image that is written.
//!
//! What is not selected is parsed and counted like the rest, but never reaches the disk; directories above
//! the selected path are made when something below it is. If one of them is something else in the image (a
//! link, a file), nothing is selected until it is a directory again.

use std::{collections::BTreeSet, sync::Arc};

use rustix::fs::{AtFlags, FileType};

use crate::{domain::Reason, error::Fault};

use super::{
    super::dirs::{Dir, Step},
    Kind, Tree, fault, path, quoted,
};

/// Names at the image's top that a message lists.
const MAX_TOP: usize = 20;

#[derive(Debug)]
pub(super) struct Selected {
    path: Vec<u8>,
    blocked: Option<Blocked>,
    top: BTreeSet<Vec<u8>>,
}

/// A directory above the selected path that is none at present.
#[derive(Debug)]
struct Blocked {
    path: Vec<u8>,
    /// What it is.
    what: String,
    /// The layer that made it so.
    number: u32,
}

impl Selected {
    pub(super) fn new(path: String) -> Self {
        Self {
            path: path.into_bytes(),
            blocked: None,
            top: BTreeSet::new(),
        }
    }
}

impl Tree {
    /// Whether the entry is to be written. One that takes the place of a directory above the selected path
    /// removes what was there.
    pub(super) fn select(&mut self, path: &[u8], kind: &Kind) -> Result<bool, Fault> {
        let Some(selected) = &mut self.selected else {
            return Ok(true);
        };
        let top = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        if selected.top.len() <= MAX_TOP && !selected.top.contains(top) {
            selected.top.insert(top.to_vec());
        }
        if path::is_within(path, &selected.path) {
            return Ok(selected.blocked.is_none());
        }
        if !path::is_within(&selected.path, path) {
            return Ok(false);
        }
        let what = match kind {
            Kind::Directory => {
                selected.blocked.take_if(|blocked| blocked.path == path);
                return Ok(false);
            }
            Kind::Symlink(target) => format!("a symbolic link to {}", quoted(target)),
            Kind::Special => "a special file".to_owned(),
            Kind::File | Kind::HardLink(_) | Kind::Label => "a file".to_owned(),
        };
        selected.blocked = Some(Blocked {
            path: path.to_vec(),
            what,
            number: self.number,
        });
        let (parent, name) = path::split(path);
        if let Some(dir) = self.parent(parent, false)? {
            self.drain()?;
            self.remove(&dir, name, path)?;
        }
        Ok(false)
    }

    /// Lower layers' names for which `is_hidden` holds are hidden: they do not block any more.
    pub(super) fn unblock(&mut self, is_hidden: impl Fn(&[u8]) -> bool) {
        if let Some(selected) = &mut self.selected {
            selected
                .blocked
                .take_if(|blocked| blocked.number < self.number && is_hidden(&blocked.path));
        }
    }

    /// Whether a directory that was reached through a link is the selected one or below it.
    pub(super) fn is_selected(&self, dir: &Arc<Dir>) -> Result<bool, Fault> {
        let Some(selected) = &self.selected else {
            return Ok(true);
        };
        let mut top = Arc::clone(&self.root);
        for part in path::parts(&selected.path) {
            match top
                .open(part, 0)
                .map_err(|errno| self.volume("open", part, errno))?
            {
                Step::Dir(next) => top = next,
                Step::Missing | Step::Link | Step::File => return Ok(false),
            }
        }
        let mut dir = Arc::clone(dir);
        loop {
            if dir.id == top.id {
                return Ok(true);
            }
            if dir.id == self.root.id {
                return Ok(false);
            }
            dir = self.above(&dir)?;
        }
    }

    /// The fault for a hard link whose target was not written because it is not selected.
    pub(super) fn outside_selection(&self, path: &[u8], target: &[u8]) -> Option<Fault> {
        let selected = self.selected.as_ref()?;
        if path::is_within(target, &selected.path) {
            return None;
        }
        Some(Fault::new(
            Reason::SelectionNotFound,
            format!("unpack {} of {}", quoted(&selected.path), self.layer),
            format!(
                "{} is a hard link to {}, which is not selected",
                quoted(path),
                quoted(target)
            ),
            "select a path that holds both, or the whole image",
        ))
    }

    /// Whether the selected path is there, as itself.
    pub(super) fn check_selection(&self) -> Result<(), Fault> {
        let Some(selected) = &self.selected else {
            return Ok(());
        };
        let not_found = |happened: String| {
            Fault::new(
                Reason::SelectionNotFound,
                format!("select {} of the image", quoted(&selected.path)),
                happened,
                "ask for a path that the image has, and for a link's target instead of the link",
            )
        };
        if let Some(Blocked { path, what, .. }) = &selected.blocked {
            return Err(not_found(format!("{} is {what}", quoted(path))));
        }
        let (parent, name) = path::split(&selected.path);
        let mut dir = Arc::clone(&self.root);
        let missing = || {
            not_found(format!(
                "the image does not have it; at its top are {}",
                selected.top_names()
            ))
        };
        for part in path::parts(parent) {
            match dir
                .open(part, 0)
                .map_err(|errno| self.volume("open", part, errno))?
            {
                Step::Dir(next) => dir = next,
                Step::Missing | Step::Link | Step::File => return Err(missing()),
            }
        }
        let stat = match rustix::fs::statat(&dir.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => return Err(missing()),
            Err(errno) => return Err(fault::volume("the image", "look at", &selected.path, errno)),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(());
        }
        let target = rustix::fs::readlinkat(&dir.fd, name, Vec::new())
            .map_err(|errno| fault::volume("the image", "read the link", &selected.path, errno))?;
        Err(not_found(format!(
            "it is a symbolic link to {}",
            quoted(target.as_bytes())
        )))
    }
}

impl Selected {
    fn top_names(&self) -> String {
        if self.top.is_empty() {
            return "no entries".to_owned();
        }
        let names: Vec<_> = self.top.iter().take(MAX_TOP).map(|name| quoted(name)).collect();
        let more = if self.top.len() > MAX_TOP { " and more" } else { "" };
        format!("{}{more}", names.join(", "))
    }
}
