//! PAX records (POSIX pax, "Extended Header"): `length key=value\n`, where the value may hold anything.

use super::sparse::PaxSparse;

/// What is used of an entry's records. Of several with one key the last holds; an empty value takes an
/// earlier one back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) linkpath: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// Whether the owner is another than root.
    pub(super) uid: Option<bool>,
    /// Whether the group is another than root's.
    pub(super) gid: Option<bool>,
    pub(super) xattrs: u64,
    pub(super) sparse: PaxSparse,
    pub(super) sparse_name: Option<Vec<u8>>,
}

impl Pax {
    pub(super) fn parse(mut records: &[u8]) -> Result<Self, &'static str> {
        let mut pax = Self::default();
        while !records.is_empty() {
            let Record { key, value, rest } = record(records)?;
            records = rest;
            pax.add(key, value)?;
        }
        Ok(pax)
    }

    /// Whether they change which entries there are, or what is in them.
    pub(super) fn is_about_entries(&self) -> bool {
        self.path.is_some()
            || self.linkpath.is_some()
            || self.size.is_some()
            || self.sparse_name.is_some()
            || self.sparse != PaxSparse::default()
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        match key {
            b"path" => self.path = text(value)?,
            b"linkpath" => self.linkpath = text(value)?,
            b"GNU.sparse.name" => self.sparse_name = text(value)?,
            b"size" => self.size = number(value)?,
            b"uid" => self.uid = owned(value),
            b"gid" => self.gid = owned(value),
            _ if key.starts_with(b"SCHILY.xattr.") || key.starts_with(b"LIBARCHIVE.xattr.") => {
                self.xattrs += 1;
            }
            _ => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    self.sparse.add(key, value)?;
                }
            }
        }
        Ok(())
    }
}

struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
    /// What follows it.
    rest: &'a [u8],
}

fn record(records: &[u8]) -> Result<Record<'_>, &'static str> {
    const PROBLEM: &str = "a record is not \"length key=value\" and a newline";
    let space = records.iter().position(|byte| *byte == b' ').ok_or(PROBLEM)?;
    let len = decimal(&records[..space])
        .and_then(|len| usize::try_from(len).ok())
        .ok_or(PROBLEM)?;
    let record = records
        .get(..len)
        .and_then(|record| record.get(space + 1..))
        .ok_or(PROBLEM)?;
    let record = record.strip_suffix(b"\n").ok_or(PROBLEM)?;
    let equals = record.iter().position(|byte| *byte == b'=').ok_or(PROBLEM)?;
    Ok(Record {
        key: &record[..equals],
        value: &record[equals + 1..],
        rest: &records[len..],
    })
}

pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    // `parse` alone would take a plus sign.
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn number(value: &[u8]) -> Result<Option<u64>, &'static str> {
    if value.is_empty() {
        return Ok(None);
    }
    decimal(value).map(Some).ok_or("a size is not a number")
}

/// Owners are not taken over, so one that is negative or out of range is just another than root.
fn owned(value: &[u8]) -> Option<bool> {
    (!value.is_empty()).then(|| decimal(value) != Some(0))
}

fn text(value: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    if value.contains(&0) {
        return Err("a name holds a NUL");
    }
    Ok((!value.is_empty()).then(|| value.to_vec()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_binary_attribute_does_not_hide_what_follows() {
        let pax = Pax::parse(b"26 SCHILY.xattr.user.x=\n\n\n13 size=4096\n").unwrap();
        assert_eq!((pax.xattrs, pax.size), (1, Some(4096)));
    }

    #[test]
    fn the_last_record_holds_and_an_empty_one_takes_back() {
        let pax = Pax::parse(b"9 path=a\n9 path=b\n10 size=7\n8 size=\n").unwrap();
        assert_eq!((pax.path.as_deref(), pax.size), (Some(&b"b"[..]), None));
    }

    #[test]
    fn refuses_what_is_no_record() {
        for records in [
            &b"9 path=a"[..],
            b"8 path=a\n",
            b"11 path=a\n",
            b"path=a\n",
            b"+9 path=a\n",
            b"7 path\n",
            b"0 \n",
            b"99999999999999999999999 a=b\n",
            b"11 path=a\0b\n",
            b"11 size=-1\n",
        ] {
            assert!(
                Pax::parse(records).is_err(),
                "{:?}",
                records.escape_ascii().to_string()
            );
        }
    }

    proptest! {
        #[test]
        fn never_panics(records in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Pax::parse(&records);
        }

        #[test]
        fn reads_what_was_written(value in prop::collection::vec(1..=255_u8, 1..200)) {
            let mut len = value.len() + 7;
            while len != value.len() + 7 + len.to_string().len() {
                len = value.len() + 7 + len.to_string().len();
            }
            let mut record = format!("{len} path=").into_bytes();
            record.extend_from_slice(&value);
            record.push(b'\n');
            prop_assert_eq!(Pax::parse(&record).unwrap().path, Some(value));
        }
    }
}
