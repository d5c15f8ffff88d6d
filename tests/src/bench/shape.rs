//! The image shapes: like real images in size, number of files and how well they compress.

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

use crate::image::{Image, Layer};

/// A kind of image.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its name in the report.
    pub name: &'static str,
    /// What it is like.
    pub like: &'static str,
    layers: usize,
    files: usize,
    /// Uncompressed bytes of all files.
    bytes: usize,
    /// The share of bytes that do not compress, in percent; the rest is like JSON or source text.
    random_percent: u32,
    pub(super) zstd: bool,
}

/// All shapes, by the sizes that the project's figures are given for.
pub const SHAPES: [Shape; 6] = [
    Shape {
        name: "catalog",
        like: "an operator catalog",
        layers: 1,
        files: 400,
        bytes: 226 << 20,
        random_percent: 8,
        zstd: false,
    },
    Shape {
        name: "base",
        like: "a distribution in layers",
        layers: 5,
        files: 32_700,
        bytes: 603 << 20,
        random_percent: 17,
        zstd: false,
    },
    Shape {
        name: "base-zstd",
        like: "the same, compressed by zstd",
        layers: 5,
        files: 32_700,
        bytes: 603 << 20,
        random_percent: 17,
        zstd: true,
    },
    Shape {
        name: "many",
        like: "a tree of small files",
        layers: 1,
        files: 40_000,
        bytes: 120 << 20,
        random_percent: 0,
        zstd: false,
    },
    Shape {
        name: "big",
        like: "a few large files",
        layers: 1,
        files: 76,
        bytes: 1452 << 20,
        random_percent: 31,
        zstd: false,
    },
    Shape {
        name: "small20",
        like: "twenty small layers",
        layers: 20,
        files: 5200,
        bytes: 62 << 20,
        random_percent: 3,
        zstd: false,
    },
];

/// Bytes of text that all files are cut from: far more than a compressor's window, so that no file is
/// found in another one.
const CORPUS: usize = 16 << 20;

/// Files in one directory.
const PER_DIRECTORY: usize = 100;

/// Random and text alternate in pieces of this size.
const PIECE: usize = 16 << 10;

impl Shape {
    /// Makes it, each time the same, smaller by a factor.
    pub fn build(&self, divisor: usize) -> Image {
        let mut random = SmallRng::seed_from_u64(self.files as u64);
        let corpus = corpus(&mut random);
        let files = (self.files / divisor).max(self.layers);
        let size = self.bytes / self.files.max(1);
        let mut number = 0;
        let mut image = Image::new();
        for layer in 0..self.layers {
            let mut archive = if self.zstd { Layer::zstd() } else { Layer::gzip() };
            for at in 0..files / self.layers {
                if at % PER_DIRECTORY == 0 {
                    archive = archive.dir(&directory(layer, at));
                }
                // Between half and one and a half times the mean.
                let size = size / 2 + random.random_range(0..=size);
                let path = format!("{}/file-{number}.json", directory(layer, at));
                archive = archive.file(&path, self.content(&corpus, size, &mut random));
                number += 1;
            }
            image = image.layer(archive);
        }
        image
    }

    fn content(&self, corpus: &[u8], size: usize, random: &mut SmallRng) -> Vec<u8> {
        let mut content = Vec::with_capacity(size);
        while content.len() < size {
            let piece = PIECE.min(size - content.len());
            if random.random_range(0..100) < self.random_percent {
                let start = content.len();
                content.resize(start + piece, 0);
                random.fill(&mut content[start..]);
            } else {
                let start = random.random_range(0..corpus.len() - piece);
                content.extend_from_slice(&corpus[start..start + piece]);
            }
        }
        content
    }
}

fn directory(layer: usize, file: usize) -> String {
    format!("usr/share/layer-{layer}/{:03}", file / PER_DIRECTORY)
}

/// Lines like those of JSON or sources: few words are frequent, many are rare.
fn corpus(random: &mut SmallRng) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..3000)
        .map(|_| {
            (0..random.random_range(3..10))
                .map(|_| random.random_range(b'a'..=b'z'))
                .collect()
        })
        .collect();
    let mut corpus = Vec::with_capacity(CORPUS);
    while corpus.len() < CORPUS {
        // The square makes the first words the frequent ones.
        let frequent = |random: &mut SmallRng| (random.random::<f64>().powi(3) * words.len() as f64) as usize;
        corpus.extend_from_slice(b"    \"");
        corpus.extend_from_slice(&words[frequent(random)]);
        corpus.extend_from_slice(b"\": \"");
        for _ in 0..random.random_range(1..6) {
            corpus.extend_from_slice(&words[frequent(random)]);
            corpus.push(b' ');
        }
        corpus.extend_from_slice(b"\",\n");
    }
    corpus.truncate(CORPUS);
    corpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_the_same_each_time_and_has_its_layers() {
        for shape in SHAPES {
            let image = shape.build(400);
            assert_eq!(image.layers().len(), shape.layers, "{}", shape.name);
            assert_eq!(image.digest(), shape.build(400).digest(), "{}", shape.name);
        }
    }
}
