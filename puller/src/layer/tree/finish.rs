//! The end: final modes, and a look at every link.

use std::{mem::MaybeUninit, sync::Arc};

use rustix::{
    fd::OwnedFd,
    fs::{FileType, Mode},
    io::Errno,
};

use crate::{domain::Reason, error::Fault};

use super::{
    super::dirs::{Dir, Step},
    Summary, Tree, fault,
    parents::MAX_LINKS,
    path, quoted,
    remove::{NAMES, each_name, open},
};

/// Published directories: read and entered by all, written by none.
const FINAL_MODE: Mode = Mode::from_raw_mode(0o555);

impl Tree {
    /// Sets final modes (files have theirs already; directories get 0555, deepest first; the root stays
    /// as it is, for whoever publishes it), and checks that the selection was found and where links lead.
    ///
    /// # Errors
    /// `selection not found`; `unsafe layer` where a link leads out of the tree and the options refuse
    /// that; `limit exceeded` where links have made the tree deeper than its entries; the volume.
    pub fn finish(mut self) -> Result<Summary, Fault> {
        "the image".clone_into(&mut self.layer);
        self.drain()?;
        self.check_selection()?;
        self.dirs.forget();
        let mut walk = Walk {
            tree: &self,
            path: Vec::new(),
            buffer: vec![MaybeUninit::uninit(); NAMES],
            links: 0,
        };
        let root = open(&self.root.fd, b".").map_err(|errno| self.volume("open", b"/", errno))?;
        walk.directory(&root, 0)?;
        let escaping_links = walk.links;
        Ok(Summary {
            escaping_links,
            ..self.totals
        })
    }

    /// Whether a link that is `depth` directories below the root leads out of the tree, for a reader who
    /// follows links as they are or who cleans paths as text.
    fn leads_out(&self, target: &[u8], depth: usize, parent: &OwnedFd) -> Result<bool, Fault> {
        if target.starts_with(b"/") {
            return Ok(true);
        }
        let (mut at, mut went_down, mut turned) = (depth, false, false);
        for part in path::parts(target) {
            if part == b".." {
                turned |= went_down;
                let Some(above) = at.checked_sub(1) else {
                    return Ok(true);
                };
                at = above;
            } else {
                went_down = true;
                at += 1;
            }
        }
        // Up and then down is just that, since every link on the way down is judged by itself. Up again
        // after going down depends on what is there.
        if !turned {
            return Ok(false);
        }
        let volume = |errno| self.volume("follow the link to", target, errno);
        let parent = open(parent, b".")
            .and_then(|fd| Dir::new(fd, 0))
            .map_err(volume)?;
        self.walks_out(Arc::new(parent), target)
    }

    fn walks_out(&self, mut dir: Arc<Dir>, target: &[u8]) -> Result<bool, Fault> {
        let mut ahead: Vec<Vec<u8>> = path::parts(target).rev().map(<[u8]>::to_vec).collect();
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == b".." {
                if dir.id == self.root.id {
                    return Ok(true);
                }
                dir = self.above(&dir)?;
                continue;
            }
            match dir
                .open(&part, 0)
                .map_err(|errno| self.volume("open", &part, errno))?
            {
                Step::Dir(next) => dir = next,
                // Nothing is ever added to the tree: this leads nowhere.
                Step::Missing | Step::File => return Ok(false),
                Step::Link => {
                    links += 1;
                    let target = rustix::fs::readlinkat(&dir.fd, &part[..], Vec::new())
                        .map_err(|errno| self.volume("read the link", &part, errno))?;
                    if target.as_bytes().starts_with(b"/") {
                        return Ok(true);
                    }
                    if links > MAX_LINKS {
                        return Ok(false);
                    }
                    ahead.extend(path::parts(target.as_bytes()).rev().map(<[u8]>::to_vec));
                }
            }
        }
        Ok(false)
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    path: Vec<u8>,
    buffer: Vec<MaybeUninit<u8>>,
    links: u64,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &OwnedFd, depth: usize) -> Result<(), Fault> {
        self.tree
            .limits
            .check_depth(&self.tree.layer, depth.saturating_sub(1))?;
        let (mut directories, mut links) = (Vec::new(), Vec::new());
        each_name(dir, &mut self.buffer, |name, kind| {
            match kind {
                FileType::Directory => directories.push(name.to_vec()),
                FileType::Symlink => links.push(name.to_vec()),
                _ => {}
            }
            Ok(())
        })
        .map_err(|errno| self.volume("read the directory", errno))?;
        for name in links {
            self.link(dir, &name, depth)?;
        }
        for name in directories {
            let len = self.path.len();
            self.path.push(b'/');
            self.path.extend_from_slice(&name);
            let child = open(dir, &name).map_err(|errno| self.volume("open", errno))?;
            self.directory(&child, depth + 1)?;
            rustix::fs::fchmod(&child, FINAL_MODE).map_err(|errno| self.volume("set the mode of", errno))?;
            self.path.truncate(len);
        }
        Ok(())
    }

    fn link(&mut self, dir: &OwnedFd, name: &[u8], depth: usize) -> Result<(), Fault> {
        let target = rustix::fs::readlinkat(dir, name, Vec::new())
            .map_err(|errno| self.volume("read a link in", errno))?;
        if !self.tree.leads_out(target.as_bytes(), depth, dir)? {
            return Ok(());
        }
        self.links += 1;
        if !self.tree.refuse_escaping_links {
            return Ok(());
        }
        let link = [&self.path[..], b"/", name].concat();
        Err(Fault::new(
            Reason::UnsafeLayer,
            "unpack the image without links that leave it",
            format!(
                "the link {} leads to {}, out of the tree",
                quoted(&link),
                quoted(target.as_bytes())
            ),
            "build the image with relative links, or allow such links in the wish",
        ))
    }

    fn volume(&self, what: &str, errno: Errno) -> Fault {
        fault::volume(&self.tree.layer, what, &self.path, errno)
    }
}
