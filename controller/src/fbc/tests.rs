use std::{
    env, fs,
    path::{Path, PathBuf},
};

use puller_client::api;
use tempfile::TempDir;

use super::*;

mod properties;
mod streams;
mod trees;

/// A volume with one tree, and the catalog is all of it.
pub(crate) struct Volume(TempDir);

impl Volume {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir_all(directory.path().join("tree")).unwrap();
        Self(directory)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("tree")
    }

    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn open(&self) -> ContentDir {
        let image = api::Image {
            content: Some(api::Content {
                path: "tree".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        ContentDir::open(self.0.path(), &image).unwrap()
    }

    fn lines(&self) -> Result<String, RenderError> {
        let mut lines = String::new();
        let mut emit = |document: Document| {
            lines += &document.line;
            lines.push('\n');
            Ok(())
        };
        render(&self.open(), Path::new(""), &mut emit)?;
        Ok(lines)
    }
}

/// Shared test data; None, with a line that says so, where it is missing.
pub(crate) fn data(name: &str) -> Option<PathBuf> {
    let directory = env::var_os("PULLER_TEST_DATA").map(PathBuf::from);
    let directory =
        directory.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    let path = directory.join(name);
    if !path.exists() {
        println!(
            "skipped: {} is missing; PULLER_TEST_DATA names its directory",
            path.display()
        );
        return None;
    }
    Some(path)
}

/// A catalog of the shared test data.
pub(crate) fn community(name: &str) -> Option<Volume> {
    let archive = zstd::Decoder::new(fs::File::open(data(name)?).unwrap()).unwrap();
    let volume = Volume::new();
    tar::Archive::new(archive).unpack(volume.path()).unwrap();
    Some(volume)
}

/// Lines are compared one by one: a difference in megabytes would tell nothing.
fn assert_same(lines: &str, expected: &str) {
    for (number, (line, expected)) in lines.lines().zip(expected.lines()).enumerate() {
        if line != expected {
            let at = line
                .bytes()
                .zip(expected.bytes())
                .take_while(|(one, other)| one == other)
                .count();
            let around = |line: &str| {
                let end = line.len().min(at + 80);
                String::from_utf8_lossy(&line.as_bytes()[at.saturating_sub(80)..end]).into_owned()
            };
            panic!(
                "line {}: {}\n   is not {}",
                number + 1,
                around(line),
                around(expected)
            );
        }
    }
    assert_eq!(lines.len(), expected.len());
}

#[test]
fn a_published_catalog_is_rendered_as_catalogd_does() {
    let Some(volume) = community("community-v4.20.fbc.tar.zst") else {
        return;
    };
    let Some(expected) = data("community-v4.20.all.jsonl.zst") else {
        return;
    };
    let expected = zstd::decode_all(fs::File::open(expected).unwrap()).unwrap();
    assert_same(&volume.lines().unwrap(), str::from_utf8(&expected).unwrap());
}

#[test]
fn odd_documents_are_rendered_as_catalogd_does_but_for_whole_numbers() {
    let Some(edge) = data("fbc-edge") else { return };
    let volume = Volume::new();
    let mut ahead = vec![PathBuf::new()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(edge.join("configs").join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                fs::create_dir_all(volume.path().join(&path)).unwrap();
                ahead.push(path);
            } else {
                fs::copy(entry.path(), volume.path().join(&path)).unwrap();
            }
        }
    }
    let expected = fs::read_to_string(edge.join("expected.all.jsonl")).unwrap();
    let expected = expected
        .replace("9007199254740992", "9007199254740993")
        .replace("12345678901234567000", "12345678901234567890");
    assert_same(&volume.lines().unwrap(), &expected);
}
