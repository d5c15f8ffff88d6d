//! Sparse files: the old GNU format and the three PAX formats (GNU tar manual, "Storing Sparse Files").

use super::pax::decimal;

/// A piece of the file that the archive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A sparse file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sparse {
    /// Bytes of the file, holes included.
    pub(super) size: u64,
    /// In rising order.
    pub(super) extents: Vec<Extent>,
}

impl Sparse {
    /// Whether the extents are in order, inside the file, and hold exactly the `stored` bytes.
    pub(super) fn check(&self, stored: u64) -> Result<(), &'static str> {
        let (mut end, mut sum) = (0_u64, 0_u64);
        for extent in &self.extents {
            if extent.offset < end {
                return Err("the pieces of a sparse file overlap or are out of order");
            }
            end = extent
                .offset
                .checked_add(extent.len)
                .ok_or("a piece of a sparse file is too large")?;
            // Pieces do not overlap, so their sum is below `end`.
            sum += extent.len;
        }
        if end > self.size || self.size > i64::MAX as u64 {
            return Err("a sparse file's pieces do not fit its size");
        }
        if sum != stored {
            return Err("a sparse file's pieces are not what the archive holds of it");
        }
        Ok(())
    }
}

/// What PAX records say of a sparse file.
#[derive(Debug)]
pub(super) enum Found {
    /// All.
    Here(Sparse),
    /// The map is at the beginning of the data.
    InData {
        /// Bytes of the file.
        size: u64,
    },
}

/// The `GNU.sparse.` records of an entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PaxSparse {
    any: bool,
    major: Option<u64>,
    minor: Option<u64>,
    size: Option<u64>,
    map: Vec<u64>,
}

impl PaxSparse {
    /// `key` is without its prefix.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        const PROBLEM: &str = "a sparse file's records are not numbers";
        self.any = true;
        match key {
            b"map" => {
                self.map.clear();
                for number in value.split(|byte| *byte == b',').filter(|_| !value.is_empty()) {
                    self.map.push(decimal(number).ok_or(PROBLEM)?);
                }
            }
            // Format 0.0 repeats these two in turn.
            b"offset" if self.map.len().is_multiple_of(2) => self.map.push(decimal(value).ok_or(PROBLEM)?),
            b"numbytes" if !self.map.len().is_multiple_of(2) => self.map.push(decimal(value).ok_or(PROBLEM)?),
            b"offset" | b"numbytes" => return Err("a sparse file's offsets and lengths do not take turns"),
            b"size" | b"realsize" => self.size = Some(decimal(value).ok_or(PROBLEM)?),
            b"major" => self.major = Some(decimal(value).ok_or(PROBLEM)?),
            b"minor" => self.minor = Some(decimal(value).ok_or(PROBLEM)?),
            // The number of pieces: they are counted.
            _ => {}
        }
        Ok(())
    }

    /// `None`: the file is not sparse.
    pub(super) fn finish(self) -> Result<Option<Found>, &'static str> {
        if !self.any {
            return Ok(None);
        }
        let size = self.size.ok_or("a sparse file has no size")?;
        match (self.major, self.minor) {
            (Some(1), Some(0)) => Ok(Some(Found::InData { size })),
            // These two came without a version.
            (None, None) | (Some(0), Some(0 | 1)) if self.map.is_empty() => Err("a sparse file has no map"),
            (None, None) | (Some(0), Some(0 | 1)) => Ok(Some(Found::Here(Sparse {
                size,
                extents: extents(&self.map)?,
            }))),
            _ => Err("its sparse format is not known (0.0, 0.1 and 1.0 are)"),
        }
    }
}

/// The map of format 1.0: a count, then offsets and lengths, each a decimal number and a newline.
#[derive(Default)]
pub(super) struct TextMap {
    count: Option<u64>,
    numbers: Vec<u64>,
    digits: Vec<u8>,
}

impl TextMap {
    /// Adds a block; gives the map when it is complete.
    pub(super) fn add(&mut self, block: &[u8]) -> Result<Option<Vec<Extent>>, &'static str> {
        for byte in block {
            if *byte != b'\n' {
                self.digits.push(*byte);
                continue;
            }
            let number = decimal(&self.digits).ok_or("it does not consist of numbers")?;
            self.digits.clear();
            match self.count {
                None => self.count = Some(number),
                Some(_) => self.numbers.push(number),
            }
            if self.count.and_then(|count| count.checked_mul(2)) == Some(self.numbers.len() as u64) {
                return extents(&self.numbers).map(Some);
            }
        }
        Ok(None)
    }
}

fn extents(numbers: &[u64]) -> Result<Vec<Extent>, &'static str> {
    let (pairs, rest) = numbers.as_chunks();
    if !rest.is_empty() {
        return Err("a sparse file's last offset has no length");
    }
    Ok(pairs
        .iter()
        .map(|&[offset, len]| Extent { offset, len })
        .collect())
}
