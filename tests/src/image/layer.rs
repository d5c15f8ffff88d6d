//! Layers: entries, packed and compressed.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use flate2::{read::MultiGzDecoder, write::GzEncoder};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::{Blob, Entry, media_type, sha256};

/// How a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// A plain tar archive.
    None,
    /// gzip, the usual.
    Gzip,
    /// zstd.
    Zstd,
}

/// A layer in the making.
#[derive(Debug, Clone)]
pub struct Layer {
    archive: Vec<u8>,
    compression: Compression,
    members: usize,
    media_type: Option<String>,
    wrong_diff_id: bool,
    title: Option<String>,
    noise: u64,
}

/// A layer as bytes, with what the config says of it.
#[derive(Debug, Clone)]
pub struct BuiltLayer {
    /// The compressed bytes.
    pub blob: Blob,
    /// The digest of the uncompressed bytes, or what the scenario wants the config to say.
    pub diff_id: String,
}

impl Layer {
    fn new(compression: Compression) -> Self {
        Self {
            archive: Vec::new(),
            compression,
            members: 1,
            media_type: None,
            wrong_diff_id: false,
            title: None,
            noise: 0,
        }
    }

    /// A gzip layer.
    pub fn gzip() -> Self {
        Self::new(Compression::Gzip)
    }

    /// A zstd layer.
    pub fn zstd() -> Self {
        Self::new(Compression::Zstd)
    }

    /// A layer that is not compressed.
    pub fn plain() -> Self {
        Self::new(Compression::None)
    }

    /// A layer of these very bytes, archive or not, with its diffID computed from them as they are.
    pub fn of_bytes(media_type: &str, bytes: impl AsRef<[u8]>) -> BuiltLayer {
        let bytes = bytes.as_ref().to_vec();
        BuiltLayer {
            diff_id: sha256(&bytes),
            blob: Blob::new(media_type, bytes),
        }
    }

    /// Adds an entry that the other methods would not make.
    #[must_use]
    pub fn raw_entry(mut self, entry: Entry) -> Self {
        entry.write_to(&mut self.archive);
        self
    }

    /// Adds bytes to the archive that need not be an entry.
    #[must_use]
    pub fn raw_bytes(mut self, bytes: &[u8]) -> Self {
        self.archive.extend_from_slice(bytes);
        self
    }

    /// Adds a file, mode 0644. Its directories need no entry of their own.
    #[must_use]
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.raw_entry(Entry::file(path, content))
    }

    /// Adds a file, mode 0755.
    #[must_use]
    pub fn executable(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.raw_entry(Entry::file(path, content).mode(0o755))
    }

    /// Adds a directory, mode 0755.
    #[must_use]
    pub fn dir(self, path: &str) -> Self {
        self.raw_entry(Entry::dir(path))
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.raw_entry(Entry::symlink(path, target))
    }

    /// Adds a hard link.
    #[must_use]
    pub fn hardlink(self, path: &str, target: &str) -> Self {
        self.raw_entry(Entry::hardlink(path, target))
    }

    /// Removes what lower layers have at this path.
    #[must_use]
    pub fn whiteout(self, path: &str) -> Self {
        let marker = match path.rsplit_once('/') {
            Some((parent, name)) => format!("{parent}/.wh.{name}"),
            None => format!(".wh.{path}"),
        };
        self.raw_entry(Entry::file(marker, ""))
    }

    /// Removes what lower layers have in this directory.
    #[must_use]
    pub fn opaque(self, directory: &str) -> Self {
        self.raw_entry(Entry::file(format!("{directory}/.wh..wh..opq"), ""))
    }

    /// Adds `count` files of `size` random bytes each, `noise-…/…`: they do not compress, and they
    /// are the same in every run. A second call adds other files with other bytes.
    #[must_use]
    pub fn noise(mut self, count: usize, size: usize) -> Self {
        self.noise += 1;
        let series = self.noise;
        // The bytes depend on what is in the layer already, so that two layers' noises differ.
        let mut random =
            StdRng::seed_from_u64(series ^ (self.archive.len() as u64) << 8 ^ (size as u64) << 40);
        let mut content = vec![0; size];
        self = self.dir(&format!("noise-{series}"));
        for n in 0..count {
            random.fill_bytes(&mut content);
            self = self.file(&format!("noise-{series}/{n:05}"), &content);
        }
        self
    }

    /// Adds all entries of a tar archive below a directory, names, modes and contents as they are
    /// there.
    #[must_use]
    pub fn archive_under(mut self, directory: &str, archive: &[u8]) -> Self {
        for entry in tar::Archive::new(archive).entries().expect("a tar archive") {
            let mut entry = entry.expect("an entry");
            let name = String::from_utf8(entry.path_bytes().into_owned()).expect("a name in UTF-8");
            let name = format!("{directory}/{}", name.trim_start_matches("./"));
            let mode = entry.header().mode().expect("a mode");
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("content");
            match entry.header().entry_type() {
                tar::EntryType::Directory => self = self.raw_entry(Entry::dir(name).mode(mode)),
                tar::EntryType::Regular => self = self.raw_entry(Entry::file(name, content).mode(mode)),
                tar::EntryType::XGlobalHeader => {}
                other => panic!("{name}: no use for an entry of type {other:?}"),
            }
        }
        self
    }

    /// Adds one file or link of this machine under the same path; says whether it could be read and
    /// is of a kind that belongs into a layer.
    pub fn add_from_machine(&mut self, path: &Path) -> bool {
        let Ok(metadata) = path.symlink_metadata() else {
            return false;
        };
        let name = path.strip_prefix("/").unwrap_or(path).to_str().map(str::to_owned);
        let Some(name) = name else { return false };
        let mode = metadata.permissions().mode() & 0o777;
        let entry = if metadata.is_symlink() {
            let Ok(target) = fs::read_link(path) else {
                return false;
            };
            Entry::symlink(name, target.as_os_str().as_encoded_bytes())
        } else if metadata.is_dir() {
            Entry::dir(name).mode(mode)
        } else if metadata.is_file() {
            let Ok(content) = fs::read(path) else { return false };
            Entry::file(name, content).mode(mode)
        } else {
            return false;
        };
        entry.write_to(&mut self.archive);
        true
    }

    /// Compresses in this many gzip members or zstd frames, one after the other.
    #[must_use]
    pub fn members(mut self, members: usize) -> Self {
        self.members = members.max(1);
        self
    }

    /// The config will tell another diffID than the bytes have.
    #[must_use]
    pub fn wrong_diff_id(mut self) -> Self {
        self.wrong_diff_id = true;
        self
    }

    /// The descriptor will tell this media type, whatever the bytes are.
    #[must_use]
    pub fn media_type(mut self, media_type: &str) -> Self {
        self.media_type = Some(media_type.to_owned());
        self
    }

    /// Sets the descriptor's title annotation: the file name in an artifact.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// Packs and compresses.
    pub fn build(mut self) -> BuiltLayer {
        // An archive ends with two blocks of zeros.
        self.archive.resize(self.archive.len() + 1024, 0);
        let diff_id = sha256(if self.wrong_diff_id {
            b"another archive"
        } else {
            &self.archive
        });
        let part = self.archive.len().div_ceil(self.members);
        let (of_its_kind, bytes) = match self.compression {
            Compression::None => (media_type::LAYER, self.archive),
            Compression::Gzip => (
                media_type::LAYER_GZIP,
                self.archive.chunks(part).flat_map(gzip).collect(),
            ),
            Compression::Zstd => (
                media_type::LAYER_ZSTD,
                self.archive
                    .chunks(part)
                    .flat_map(|part| zstd::encode_all(part, 3).expect("memory"))
                    .collect(),
            ),
        };
        let mut blob = Blob::new(self.media_type.as_deref().unwrap_or(of_its_kind), bytes);
        if let Some(title) = self.title {
            blob.annotations
                .insert("org.opencontainers.image.title".to_owned(), title);
        }
        BuiltLayer { blob, diff_id }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

impl BuiltLayer {
    /// The digest of the compressed bytes.
    pub fn digest(&self) -> &str {
        &self.blob.digest
    }

    /// The archive, decompressed.
    ///
    /// # Panics
    /// The bytes are not what their media type says.
    pub fn archive(&self) -> Vec<u8> {
        let bytes = &self.blob.bytes[..];
        match self.blob.media_type.as_str() {
            media_type::LAYER => bytes.to_vec(),
            media_type::LAYER_ZSTD => zstd::decode_all(bytes).expect("zstd"),
            _ => {
                let mut archive = Vec::new();
                MultiGzDecoder::new(bytes)
                    .read_to_end(&mut archive)
                    .expect("gzip");
                archive
            }
        }
    }

    /// The compressed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.blob.bytes
    }

    /// Compressed bytes.
    pub fn size(&self) -> u64 {
        self.blob.size()
    }
}

impl From<Layer> for BuiltLayer {
    fn from(layer: Layer) -> Self {
        layer.build()
    }
}

impl From<&BuiltLayer> for BuiltLayer {
    fn from(layer: &BuiltLayer) -> Self {
        layer.clone()
    }
}
