//! What a start makes of the volume that it finds. Each step may be cut off and done again.

use std::{collections::HashMap, ffi::CString, io};

use rustix::fs::FileType;

use super::{
    crash::{self, Point},
    files,
    publish::MODE_PUBLISHED,
    record::ImageRecord,
    records::{self, SetAside},
    space::digest_of,
    trash::Trash,
    volume::Dirs,
};
use crate::domain::{Content, Phase};

/// What a start has found.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The Images.
    pub images: Vec<ImageRecord>,
    /// The published contents, each with its tree.
    pub contents: Vec<Content>,
    /// Records that do not hold and were set aside.
    pub set_aside: u64,
    /// Trees in the making, trees without a record, and foreign files among the layers, that were
    /// removed.
    pub removed: u64,
    /// Images that lost their content, since it is not there.
    pub bereft: u64,
}

/// Puts the volume in order and reads what is on it.
pub(super) fn recover(dirs: &Dirs, trash: &Trash, epoch: u64) -> io::Result<Recovered> {
    let mut found = Recovered::default();
    let mut aside = SetAside {
        dir: &dirs.set_aside,
        trash,
        epoch,
        count: 0,
    };
    for name in files::names(&dirs.private)? {
        if name.to_bytes().ends_with(files::TEMPORARY.as_bytes()) {
            trash.put(&dirs.private, &name)?;
        }
    }
    for name in files::names(&dirs.trees)? {
        trash.put(&dirs.trees, &name)?;
        found.removed += 1;
    }
    found.removed += clean_blobs(dirs, trash)?;
    crash::at(Point::LeftoversTrashed);
    let contents = contents(dirs, trash, &mut aside, &mut found.removed)?;
    crash::at(Point::ContentsChecked);
    let images = records::load(
        &dirs.images,
        |image: &ImageRecord| image.id().to_string(),
        &mut aside,
        trash,
    )?;
    for (_, mut image) in images {
        if let Some(name) = &image.content
            && !contents.contains_key(name)
        {
            tracing::warn!(image = %image.id(), name, "the content of an image is gone; it has to be pulled again");
            image.content = None;
            if image.phase == Phase::Unpacked {
                image.phase = Phase::Initiated;
            }
            found.bereft += 1;
        }
        found.images.push(image);
    }
    found.contents = contents.into_values().collect();
    aside.prune()?;
    found.set_aside = aside.count;
    Ok(found)
}

/// Layers are kept, since a pull may want to go on with them; what can't be one is removed.
fn clean_blobs(dirs: &Dirs, trash: &Trash) -> io::Result<u64> {
    let mut removed = 0;
    for name in files::names(&dirs.blobs)? {
        let kind = files::kind(&dirs.blobs, &name)?;
        if kind != Some(FileType::RegularFile) || digest_of(&name).is_none() {
            trash.put(&dirs.blobs, &name)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The contents of which both record and tree are there.
fn contents(
    dirs: &Dirs,
    trash: &Trash,
    aside: &mut SetAside<'_>,
    removed: &mut u64,
) -> io::Result<HashMap<String, Content>> {
    let mut contents = HashMap::new();
    for (name, record) in records::load(&dirs.contents, Content::name, aside, trash)? {
        match files::kind(&dirs.content, name.as_str())? {
            Some(FileType::Directory) => {
                // The last step of a publication that a crash may have cut off.
                let tree = files::open_dir(&dirs.content, name.as_str())?;
                files::set_mode(tree, MODE_PUBLISHED)?;
                contents.insert(name, record);
            }
            other => {
                let file = CString::new(records::file_name(&name))?;
                let why = match other {
                    None => "its tree is not there",
                    Some(_) => "what stands in its tree's place is no directory",
                };
                aside.put(&dirs.contents, &file, why)?;
            }
        }
    }
    for name in files::names(&dirs.content)? {
        if !name.to_str().is_ok_and(|name| contents.contains_key(name)) {
            tracing::info!(?name, "content/ holds something without a record; it is removed");
            trash.put(&dirs.content, &name)?;
            *removed += 1;
        }
    }
    Ok(contents)
}
