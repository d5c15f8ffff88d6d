//! `tests/gotar`, and what it and our own walk see of an archive, in one form.

use std::{
    fmt,
    process::{Command, Stdio},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::super::*;
use crate::layer::{
    archive::{Archive, Entry, Kind},
    fault::quoted,
};

/// Contents beyond this are not hashed: gotar has the same bound.
const MAX_HASHED: u64 = 16 << 20;

/// An entry as a reader sees it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    size: u64,
    executable: bool,
    mode_bits: bool,
    /// Of all bytes, holes included.
    pub(super) content: String,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::HardLink(target) => format!("hard link to {}", quoted(target)),
            Kind::Symlink(target) => format!("link to {}", quoted(target)),
            other => format!("{other:?}"),
        };
        let (name, content) = (quoted(&self.name), self.content.get(..8));
        write!(f, "{name}: {kind} of {} bytes, {content:?},", self.size)?;
        write!(f, " x: {}, bits: {}", self.executable, self.mode_bits)
    }
}

/// All entries that a reader sees before the archive's end, and why it refuses the archive if it does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) entries: Vec<Seen>,
    pub(super) refusal: Option<String>,
}

/// What gotar prints.
#[derive(Deserialize)]
struct Line {
    name: Option<String>,
    #[serde(rename = "type")]
    typeflag: u8,
    size: u64,
    link: Option<String>,
    mode: i64,
    sha256: String,
    end: bool,
    error: String,
}

/// The archives of the seeds from `seed` on, written to `files`, and what they are meant to hold.
pub(super) fn write(seed: u64, files: &[PathBuf]) -> Vec<Listing> {
    run(Command::new(program())
        .args(["write", &seed.to_string()])
        .args(files))
}

/// The archives as archive/tar reads them.
pub(super) fn list(files: &[PathBuf]) -> Vec<Listing> {
    run(Command::new(program()).arg("list").args(files))
}

/// gotar in `target/tools/bin`.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors()
        .map(|directory| directory.join("tools/bin/gotar"))
        .find(|path| path.is_file())
        .expect("target/tools/bin/gotar is missing: `make tools` builds it (it needs Go)")
}

fn run(command: &mut Command) -> Vec<Listing> {
    let output = command.stderr(Stdio::inherit()).output().expect("gotar runs");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    let (mut listings, mut listing) = (Vec::new(), Listing::default());
    for line in output.stdout.split_inclusive(|byte| *byte == b'\n') {
        let line: Line = serde_json::from_slice(line).expect("gotar prints JSON");
        if line.end {
            listing.refusal = (!line.error.is_empty()).then_some(line.error);
            listings.push(std::mem::take(&mut listing));
        } else {
            listing.entries.push(line.seen());
        }
    }
    listings
}

impl Line {
    fn seen(self) -> Seen {
        let bytes = |text: Option<String>| BASE64_STANDARD.decode(text.unwrap_or_default()).unwrap();
        let kind = match self.typeflag {
            b'1' => Kind::HardLink(bytes(self.link)),
            b'2' => Kind::Symlink(bytes(self.link)),
            b'3' | b'4' | b'6' => Kind::Special,
            b'5' | b'D' => Kind::Directory,
            b'V' => Kind::Label,
            // Go gives types that it does not know, too, with their data.
            _ => Kind::File,
        };
        Seen {
            name: bytes(self.name),
            kind,
            size: self.size,
            executable: self.mode & 0o111 != 0,
            mode_bits: self.mode & 0o7000 != 0,
            content: self.sha256,
        }
    }
}

/// The archive as we read it.
pub(super) fn ours(bytes: &[u8]) -> Listing {
    let mut archive = Archive::new(bytes, "layer");
    let mut listing = Listing::default();
    loop {
        let seen = archive.next().and_then(|entry| {
            entry
                .map(|entry| {
                    let content = content(&entry, &mut archive)?;
                    Ok(Seen {
                        name: entry.name,
                        kind: entry.kind,
                        size: entry.size,
                        executable: entry.executable,
                        mode_bits: entry.mode_bits,
                        content,
                    })
                })
                .transpose()
        });
        match seen {
            Ok(Some(seen)) => listing.entries.push(seen),
            Ok(None) => return listing,
            Err(fault) => {
                listing.refusal = Some(fault.happened);
                return listing;
            }
        }
    }
}

fn content(entry: &Entry, archive: &mut Archive<&[u8]>) -> Result<String, Fault> {
    if entry.size > MAX_HASHED {
        return Ok(String::new());
    }
    let mut data = Vec::new();
    loop {
        let bytes = archive.fill()?;
        if bytes.is_empty() {
            break;
        }
        data.extend_from_slice(bytes);
        let n = bytes.len();
        archive.consume(n);
    }
    if let Some(extents) = &entry.sparse {
        let mut whole = vec![0; entry.size as usize];
        let mut rest = &data[..];
        for extent in extents {
            let (piece, after) = rest.split_at(extent.len as usize);
            whole[extent.offset as usize..][..piece.len()].copy_from_slice(piece);
            rest = after;
        }
        data = whole;
    }
    Ok(hex::encode(Sha256::digest(&data)))
}
