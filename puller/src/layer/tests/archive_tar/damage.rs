//! Damage to archives that gets past their checksums.

use rand::{Rng, RngExt as _, rngs::StdRng, seq::IndexedRandom as _};

use super::super::build::{BLOCK, checksum};

/// The fields of a header: where each ends, in ustar and in GNU's own format.
const USTAR: [(usize, &str); 17] = [
    (100, "name"),
    (108, "mode"),
    (116, "uid"),
    (124, "gid"),
    (136, "size"),
    (148, "mtime"),
    (156, "checksum"),
    (157, "type"),
    (257, "link"),
    (265, "magic"),
    (297, "uname"),
    (329, "gname"),
    (337, "device"),
    (345, "device"),
    (500, "prefix"),
    (508, "unused"),
    (512, "star"),
];
const GNU: [(usize, &str); 6] = [
    (369, "times"),
    (386, "unused"),
    (482, "sparse"),
    (483, "extended"),
    (495, "real size"),
    (512, "unused"),
];

/// Ends of the keys of records that matter.
const USED: [&str; 8] = [
    "path=",
    "size=",
    "name=",
    "map=",
    "offset=",
    "numbytes=",
    "major=",
    "minor=",
];

/// Bytes that mean something to readers.
const TELLING: [u8; 16] = *b"\0 019+-=,\nxgLS\x80\xff";

/// Damages an archive once, and says what it has hit.
pub(super) fn damage(archive: &mut Vec<u8>, rng: &mut StdRng) -> &'static str {
    let headers: Vec<usize> = (0..archive.len() / BLOCK)
        .map(|block| block * BLOCK)
        .filter(|at| is_header(&archive[*at..at + BLOCK]))
        .collect();
    let Some(&at) = headers.choose(rng) else {
        return "nothing";
    };
    match rng.random_range(0..20) {
        0 => {
            let len = rng.random_range(0..archive.len());
            archive.truncate(len);
            "end"
        }
        1 => {
            let block = archive[at..at + BLOCK].to_vec();
            archive.splice(at..at, block);
            "header doubled"
        }
        2 => {
            archive.drain(at..at + BLOCK);
            "header removed"
        }
        3 => {
            archive.splice(at..at, [0; BLOCK]);
            "zeros inserted"
        }
        // What follows these is not data, but describes an entry.
        4..10 if b"xgLKS".contains(&archive[at + 156]) && archive.len() >= at + 2 * BLOCK => {
            let text = &archive[at + BLOCK..at + 2 * BLOCK];
            let used = text.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
            let offset = rng.random_range(0..used);
            let hit = match archive[at + 156] {
                b'x' => record(text, offset),
                b'g' => "global record",
                b'S' => "sparse map",
                _ => "long name",
            };
            change(&mut archive[at + BLOCK + offset], rng);
            hit
        }
        _ => {
            let header: &mut [u8; BLOCK] = archive[at..].first_chunk_mut().expect("it is a block");
            let offset = rng.random_range(0..BLOCK);
            change(&mut header[offset], rng);
            checksum(header);
            field(offset, header)
        }
    }
}

fn change(byte: &mut u8, rng: &mut StdRng) {
    *byte = match rng.random_range(0..3) {
        0 => *byte ^ (1 << rng.random_range(0..8)),
        1 => *TELLING.choose(rng).expect("there are some"),
        _ => (rng.next_u32() & 0xff) as u8,
    };
}

/// Which kind of record is at the offset: GNU tar's have no newlines in them.
fn record(records: &[u8], offset: usize) -> &'static str {
    let before = records[..offset].split(|byte| *byte == b'\n').next_back();
    let after = records[offset..].split(|byte| *byte == b'\n').next();
    let record = [before.unwrap_or_default(), after.unwrap_or_default()].concat();
    let is_used = |key: &str| record.windows(key.len()).any(|part| part == key.as_bytes());
    if USED.into_iter().any(is_used) {
        "record"
    } else {
        "unused record"
    }
}

fn is_header(block: &[u8]) -> bool {
    let mut summed: [u8; BLOCK] = block.try_into().expect("a block");
    checksum(&mut summed);
    block[0] != 0 && summed[148..154] == block[148..154]
}

fn field(offset: usize, header: &[u8; BLOCK]) -> &'static str {
    let gnu = header[257..265] == *b"ustar  \0" && offset >= 345;
    let fields = if gnu { &GNU[..] } else { &USTAR[..] };
    let found = fields.iter().find(|(end, _)| offset < *end);
    match (found.expect("the last ends with the block").1, header[156]) {
        ("mode", b'x' | b'g' | b'L' | b'K') => "mode of an extension",
        ("size", b'1'..=b'6') => "size of no data",
        (field, _) => field,
    }
}
