//! Records as bytes, and as files that hold or are set aside.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::OwnedFd,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    crash::{self, Point},
    files,
    trash::Trash,
};
use crate::domain::Digest;

/// Version of a record's form. A newer one is set aside, since its meaning can't be known.
const FORMAT: u32 = 1;
/// Ends a record's name.
const ENDING: &str = ".json";
/// No record is larger: a wish is at most 64 KiB, and even a thousand claims stay below this.
const LIMIT: u64 = 16 << 20;
/// What was set aside is for a person to look at; older pieces than the newest so many go.
const MAX_SET_ASIDE: usize = 32;
/// A name in `set-aside` is cut to this, so that the prefix fits before it (255 are allowed).
const MAX_NAME: usize = 180;

/// A record with its version and the digest of its text.
#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    format: u32,
    digest: Digest,
    #[serde(borrow)]
    record: &'a RawValue,
}

/// The file's name for a record's.
pub(super) fn file_name(name: &str) -> String {
    format!("{name}{ENDING}")
}

/// A record as it is written.
pub(super) fn encode<T: Serialize>(record: &T) -> io::Result<Vec<u8>> {
    let record = serde_json::value::to_raw_value(record)?;
    let digest = Digest::sha256(record.get().as_bytes());
    let mut bytes = serde_json::to_vec(&Envelope {
        format: FORMAT,
        digest,
        record: &record,
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The record in a file's bytes; or why they are none.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if envelope.format > FORMAT {
        return Err(format!(
            "its format is {}, and {FORMAT} is the newest known",
            envelope.format
        ));
    }
    if Digest::sha256(envelope.record.get().as_bytes()) != envelope.digest {
        return Err("its text is not that of its digest".into());
    }
    serde_json::from_str(envelope.record.get()).map_err(|error| error.to_string())
}

/// All records of a directory that hold, each with its name. The others are set aside; files that were
/// being written when the process died are removed.
pub(super) fn load<T: DeserializeOwned>(
    dir: &OwnedFd,
    name_of: impl Fn(&T) -> String,
    aside: &mut SetAside<'_>,
    trash: &Trash,
) -> io::Result<Vec<(String, T)>> {
    let mut records = Vec::new();
    for name in files::names(dir)? {
        if name.to_bytes().ends_with(files::TEMPORARY.as_bytes()) {
            trash.put(dir, &name)?;
            continue;
        }
        match read(dir, &name, &name_of) {
            Ok(record) => records.push(record),
            Err(why) => aside.put(dir, &name, &why)?,
        }
    }
    Ok(records)
}

fn read<T: DeserializeOwned>(
    dir: &OwnedFd,
    name: &CStr,
    name_of: impl Fn(&T) -> String,
) -> Result<(String, T), String> {
    let bytes = files::read(dir, name, LIMIT)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| String::from("it has just vanished"))?;
    let record = decode(&bytes)?;
    let right = name_of(&record);
    if name.to_bytes() != file_name(&right).as_bytes() {
        return Err(format!("it is the record of {right}, under another name"));
    }
    Ok((right, record))
}

/// The directory of what does not hold.
pub(super) struct SetAside<'a> {
    pub(super) dir: &'a OwnedFd,
    pub(super) trash: &'a Trash,
    pub(super) epoch: u64,
    /// How many were set aside in this run.
    pub(super) count: u64,
}

impl SetAside<'_> {
    /// Takes something out of its directory, with a line in the log.
    pub(super) fn put(&mut self, from: &OwnedFd, name: &CStr, why: &str) -> io::Result<()> {
        let shown = name.to_string_lossy();
        let mut new = format!("{}-{}-", self.epoch, files::unique()).into_bytes();
        new.extend_from_slice(&name.to_bytes()[..name.count_bytes().min(MAX_NAME)]);
        let new = CString::new(new)?;
        tracing::warn!(
            name = ?shown,
            why,
            kept_as = ?new,
            "something on the volume does not hold; it is set aside"
        );
        rustix::fs::renameat(from, name, self.dir, &new)?;
        crash::at(Point::RecordSetAside);
        self.count += 1;
        Ok(())
    }

    /// Lets the oldest go, so that a volume that is damaged again and again does not fill up.
    pub(super) fn prune(&self) -> io::Result<()> {
        let mut names = files::names(self.dir)?;
        if names.len() <= MAX_SET_ASIDE {
            return Ok(());
        }
        names.sort_by_key(|name| age(name));
        let surplus = names.len() - MAX_SET_ASIDE;
        for name in &names[..surplus] {
            self.trash.put(self.dir, name)?;
        }
        Ok(())
    }
}

/// The numbers before the second `-`; what has none counts as oldest.
fn age(name: &CStr) -> (u64, u64) {
    let text = name.to_string_lossy();
    let mut parts = text.split('-').map(|part| part.parse().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        domain::Content,
        store::{ImageRecord, tests::*},
    };

    #[test]
    fn records_come_back_as_they_were() {
        let image = full_image();
        assert_eq!(decode::<ImageRecord>(&encode(&image).unwrap()), Ok(image));
        let content = content(1);
        assert_eq!(decode::<Content>(&encode(&content).unwrap()), Ok(content));
    }

    #[test]
    fn an_older_record_without_todays_fields_loads() {
        let now = "2026-01-02T03:04:05Z";
        let text = format!(
            r#"{{"wish":{{"asked":"quay.io/a/b:v1","reference":"quay.io/a/b:v1",
            "platform":{{"os":"linux","architecture":"amd64"}},"selection":"all",
            "unpack":{{"refuse_escaping_links":false}},"scope":""}},
            "created":"{now}","phase":"initiated","phase_since":"{now}","of_the_future":1}}"#
        );
        let record: Box<RawValue> = serde_json::from_str(&text).unwrap();
        let digest = Digest::sha256(record.get().as_bytes());
        let bytes = format!(r#"{{"format":1,"digest":"{digest}","record":{text}}}"#);
        let loaded: ImageRecord = decode(bytes.as_bytes()).unwrap();
        assert_eq!(
            loaded,
            ImageRecord::new(wish("quay.io/a/b:v1"), now.parse().unwrap())
        );
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        let bytes = String::from_utf8(encode(&content(1)).unwrap()).unwrap();
        let newer = bytes.replace("\"format\":1", "\"format\":2");
        let why = decode::<Content>(newer.as_bytes()).unwrap_err();
        assert!(why.contains("format is 2"), "{why}");
    }

    proptest! {
        #[test]
        fn no_damage_goes_unseen(at in any::<prop::sample::Index>(), with in any::<u8>()) {
            let mut bytes = encode(&full_image()).unwrap();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != with);
            bytes[at] = with;
            // White space around the record's parts is the only thing that may differ.
            if let Ok(record) = decode::<ImageRecord>(&bytes) {
                prop_assert_eq!(record, full_image());
            }
        }

        #[test]
        fn no_truncated_record_is_read(at in any::<prop::sample::Index>()) {
            let bytes = encode(&full_image()).unwrap();
            let cut = &bytes[..at.index(bytes.len() - 1)];
            prop_assert!(decode::<ImageRecord>(cut).is_err());
        }

        #[test]
        fn bytes_from_anywhere_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode::<ImageRecord>(&bytes).is_err());
        }
    }
}
