//! The targets that read layers: inflate, the walk over an archive, and a whole unpack.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, OnceLock},
};

use super::check_fault;
use crate::{
    domain::{Algorithm, Digest, Digester, Reason},
    error::Fault,
    layer::{
        Inflate, Limits, Summary, Tree, TreeOptions,
        archive::{Archive, Entry},
        bytes::{self, Stream},
    },
};

/// Begins inputs whose tar headers get right checksums before they are read: no mutation of a header
/// would come any further otherwise.
const MEND: u8 = b'!';

/// Bytes of a tar block.
const BLOCK: usize = 512;

/// Bytes that the second reader of [`tar`] and [`inflate`] gets at once: little, and no divisor of
/// anything.
const PIECE: usize = 7;

/// An image small enough for thousands in a second.
const LIMITS: Limits = Limits {
    max_bytes: 1 << 20,
    max_entries: 1000,
    max_depth: 16,
    max_path: 1000,
    max_ratio: 200,
    ratio_floor: 1 << 20,
};

/// What lies beside the root of [`unpack`], which nothing may touch.
const CANARY: &str = "canary";

/// Bytes that come in small pieces, as a stream and as a reader.
struct Pieces(Vec<u8>, usize);

impl Pieces {
    fn there(&self) -> &[u8] {
        let rest = &self.0[self.1..];
        &rest[..rest.len().min(PIECE)]
    }
}

impl Stream for Pieces {
    fn fill(&mut self) -> Result<&[u8], Fault> {
        Ok(self.there())
    }

    fn consume(&mut self, n: usize) {
        self.1 += n;
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.there().len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.there()[..n]);
        self.1 += n;
        Ok(n)
    }
}

/// The input, with the right checksum in all blocks that look like headers if it asks for that.
fn mended(data: &[u8]) -> Vec<u8> {
    let Some((&MEND, archive)) = data.split_first() else {
        return data.to_vec();
    };
    let mut archive = archive.to_vec();
    let (blocks, _) = archive.as_chunks_mut::<BLOCK>();
    for block in blocks.iter_mut().filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    }
    archive
}

/// The fault of a layer: of the layer, and never of ours.
fn check_layer_fault(fault: &Fault) {
    check_fault(fault);
    assert!(
        !matches!(fault.reason, Reason::Internal | Reason::NoSpace),
        "it is not the layer's fault: {fault}"
    );
}

/// A walk over an archive finds the same however its bytes come, and no more entries than blocks.
pub fn tar(data: &[u8]) {
    let archive = mended(data);
    let whole = walk(&archive[..]);
    assert_eq!(walk(Pieces(archive.clone(), 0)), whole);
    match whole {
        Ok(entries) => {
            assert!(entries.len() <= archive.len() / BLOCK);
            entries.iter().for_each(|(entry, read)| check_entry(entry, *read));
        }
        Err(fault) => check_layer_fault(&fault),
    }
}

/// The entries, each with the bytes that the archive held for it.
fn walk(stream: impl Stream) -> Result<Vec<(Entry, u64)>, Fault> {
    let mut archive = Archive::new(stream, "the layer");
    let mut found = Vec::new();
    while let Some(entry) = archive.next()? {
        let mut read = 0;
        loop {
            let n = archive.fill()?.len();
            if n == 0 {
                break;
            }
            read += n as u64;
            archive.consume(n);
        }
        found.push((entry, read));
    }
    Ok(found)
}

/// The pieces of a sparse file are in order, do not overlap, lie in the file and are all there.
fn check_entry(entry: &Entry, read: u64) {
    let Some(extents) = &entry.sparse else {
        return assert_eq!(read, entry.size);
    };
    let mut end = 0;
    for extent in extents {
        assert!(extent.offset >= end, "{entry:?}");
        end = extent.offset.checked_add(extent.len).expect("it ends somewhere");
    }
    assert!(end <= entry.size, "{entry:?}");
    assert_eq!(
        extents.iter().map(|extent| extent.len).sum::<u64>(),
        read,
        "{entry:?}"
    );
}

/// A layer becomes the same bytes however it comes, and no more of them than the limits allow. One that is damaged
/// right where it becomes too large may fail as either: what a library has made of a buffer before it found the damage
/// is not told.
pub fn inflate(data: &[u8]) {
    let whole = inflated(io::Cursor::new(data.to_vec()));
    match inflated(Pieces(data.to_vec(), 0)) {
        Ok(found) => assert_eq!(Ok(found), whole),
        Err(fault) => {
            check_layer_fault(&fault);
            let reasons = whole.map_err(|whole| [fault.reason, whole.reason]);
            let is_fine = reasons.as_ref().is_err_and(|[pieces, whole]| {
                pieces == whole || [*pieces, *whole].contains(&Reason::LimitExceeded)
            });
            assert!(is_fine, "{reasons:?}");
        }
    }
}

fn inflated(source: impl Read + Send + 'static) -> Result<(u64, Option<Digest>), Fault> {
    let inflate = Inflate::spawn(source, &LIMITS, Arc::default())?;
    // Only its algorithm counts.
    let diff_id = Digester::new(Algorithm::Sha256).finish();
    let mut bytes = bytes::Bytes::new(inflate, "the layer", Some(&diff_id), &LIMITS, 0, &Arc::default());
    bytes.drain()?;
    assert!(bytes.read() <= LIMITS.max_bytes);
    Ok((bytes.read(), bytes.digest()))
}

/// Unpacks a layer over one that has a link out of the root, a directory, and files: whatever it is,
/// nothing beside the root changes, and what a tree must not hold is not in it.
pub fn unpack(data: &[u8]) {
    let layer = mended(data);
    let place = tempfile::tempdir().expect("a directory for temporary files");
    let (root, canary) = (place.path().join("root"), place.path().join(CANARY));
    fs::create_dir(&root).expect("a root");
    fs::create_dir(&canary).expect("a neighbour");
    fs::write(canary.join("file"), "alive").expect("a neighbour's file");

    let outcome = tree(&root, layer);
    let nodes = Nodes::of(&root);
    match outcome {
        Ok(summary) => {
            assert_eq!(nodes.odd, Vec::<String>::new());
            assert_eq!(nodes.files, summary.files);
            assert!(summary.size <= LIMITS.max_bytes);
        }
        Err(fault) => check_layer_fault(&fault),
    }
    assert_eq!(fs::read(canary.join("file")).ok().as_deref(), Some(&b"alive"[..]));
    assert_eq!(fs::read_dir(&canary).expect("the neighbour").count(), 1);
    assert_eq!(fs::read_dir(place.path()).expect("the place").count(), 2);
}

fn tree(root: &Path, layer: Vec<u8>) -> Result<Summary, Fault> {
    let dir = fs::File::open(root).expect("the root").into();
    let mut tree = Tree::new(dir, TreeOptions::default(), LIMITS, Arc::default())?;
    for bytes in [below().to_vec(), layer] {
        let inflate = Inflate::spawn(io::Cursor::new(bytes), &LIMITS, Arc::default())?;
        tree.apply(inflate, "the layer", None)?;
    }
    tree.finish()
}

/// The layer below the one that is fuzzed.
fn below() -> &'static [u8] {
    static BELOW: OnceLock<Vec<u8>> = OnceLock::new();
    BELOW.get_or_init(|| {
        let mut builder = tar::Builder::new(Vec::new());
        let mut add = |name: &str, kind, target: &str, data: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o755);
            header.set_size(data.len() as u64);
            if !target.is_empty() {
                header.set_link_name(target).expect("a short target");
            }
            builder.append_data(&mut header, name, data).expect("memory");
        };
        add("d/e/", tar::EntryType::Directory, "", b"");
        add("d/f", tar::EntryType::Regular, "", b"below");
        add("h", tar::EntryType::Link, "d/f", b"");
        add("out", tar::EntryType::Symlink, "../../canary", b"");
        add("to", tar::EntryType::Symlink, "/d/e", b"");
        builder.into_inner().expect("memory")
    })
}

/// What is below a root.
#[derive(Default)]
struct Nodes {
    files: u64,
    /// What no tree may hold: special files, and modes that are not ours.
    odd: Vec<String>,
}

impl Nodes {
    /// Looks at all of it, and leaves directories that whoever made them can remove.
    fn of(root: &Path) -> Self {
        let mut nodes = Self::default();
        let mut ahead = vec![root.to_owned()];
        while let Some(dir) = ahead.pop() {
            let mut entries: Vec<_> = fs::read_dir(&dir).expect("a directory").flatten().collect();
            let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o755));
            while let Some(entry) = entries.pop() {
                let metadata = entry.metadata().expect("it is there");
                let mode = metadata.permissions().mode() & 0o7777;
                let in_order = if metadata.is_dir() {
                    ahead.push(entry.path());
                    mode == 0o555
                } else if metadata.is_file() {
                    nodes.files += 1;
                    mode == 0o444 || mode == 0o555
                } else {
                    metadata.is_symlink()
                };
                if !in_order {
                    nodes.odd.push(format!("{} ({mode:o})", entry.path().display()));
                }
            }
        }
        nodes
    }
}
