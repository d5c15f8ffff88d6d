//! Overlapping images under tags that move.

use std::{collections::BTreeMap, sync::Arc, sync::Mutex};

use rand::{RngExt as _, rngs::StdRng, seq::SliceRandom as _};

use super::lock;
use crate::{
    image::{BuiltLayer, Image, Layer},
    scripted::ScriptedRegistry,
    tree::Tree,
};

/// Layers that the images are made of.
const LAYERS: usize = 10;
/// Repositories, so that layers are shared within one and between two.
const REPOSITORIES: usize = 4;
/// Tags of each repository.
const TAGS: usize = 5;
/// What a tag may stand for.
const VERSIONS: usize = 3;
/// The path that some wishes select; every layer has a part of it.
const SELECTION: &str = "common";

/// What may be wished, and what the registry holds under it.
#[derive(Debug)]
pub struct Pool {
    tags: Vec<Tag>,
    /// All wishes; several may be of one tag.
    pub subjects: Vec<Subject>,
}

#[derive(Debug)]
struct Tag {
    name: String,
    images: Vec<Image>,
    /// The digest that it stands for now.
    digest: Mutex<String>,
}

/// A wish, and what may become of it.
#[derive(Debug)]
pub struct Subject {
    /// The full reference.
    pub reference: String,
    /// The path that is selected; none: all.
    pub selection: Option<&'static str>,
    tag: usize,
    /// By manifest digest, what is to be published.
    trees: BTreeMap<String, Arc<Tree>>,
}

impl Pool {
    /// Makes the images and puts them into the registry.
    pub fn new(registry: &ScriptedRegistry, random: &mut StdRng) -> Self {
        let layers: Vec<BuiltLayer> = (0..LAYERS).map(layer).collect();
        let mut tags = Vec::new();
        let mut subjects = Vec::new();
        for number in 0..REPOSITORIES * TAGS {
            let name = format!("team-{}/app:v{}", number % REPOSITORIES, number / REPOSITORIES);
            let images: Vec<Image> = (0..VERSIONS)
                .map(|version| {
                    let mut chosen: Vec<&BuiltLayer> = layers.iter().collect();
                    chosen.shuffle(random);
                    chosen.truncate(random.random_range(1..=4));
                    let own = Layer::gzip().file("common/name", format!("{name} {version}"));
                    chosen
                        .into_iter()
                        .fold(Image::new(), |image, layer| image.layer(layer.clone()))
                        .layer(own)
                })
                .collect();
            for image in &images {
                registry.hold(&name, image);
            }
            for selection in [None, Some(SELECTION)] {
                let tree = |image: &Image| match selection {
                    None => Tree::of_image(image),
                    Some(path) => Tree::of_image(image).selected(path),
                };
                subjects.push(Subject {
                    reference: registry.reference(&name),
                    selection,
                    tag: number,
                    trees: images
                        .iter()
                        .map(|image| (image.digest(), Arc::new(tree(image))))
                        .collect(),
                });
            }
            let digest = images.last().map(Image::digest).unwrap_or_default();
            tags.push(Tag {
                name,
                images,
                digest: Mutex::new(digest),
            });
        }
        Self { tags, subjects }
    }

    /// Lets one tag stand for something else, which it may have stood for before.
    pub fn move_a_tag(&self, registry: &ScriptedRegistry, random: &mut StdRng) {
        let tag = &self.tags[random.random_range(0..self.tags.len())];
        let image = &tag.images[random.random_range(0..tag.images.len())];
        registry.hold(&tag.name, image);
        *lock(&tag.digest) = image.digest();
    }

    /// The manifest digest that a subject's tag stands for now.
    pub fn digest_of(&self, subject: &Subject) -> String {
        lock(&self.tags[subject.tag].digest).clone()
    }
}

impl Subject {
    /// What is published of a manifest; none: the tag never stood for it.
    pub fn tree(&self, manifest: &str) -> Option<Arc<Tree>> {
        self.trees.get(manifest).cloned()
    }
}

/// Some tens to hundreds of kilobytes: at the registry's pace, a pull takes up to some seconds.
fn layer(n: usize) -> BuiltLayer {
    let layer = match n % 3 {
        0 => Layer::zstd(),
        1 => Layer::gzip(),
        _ => Layer::gzip().members(3),
    };
    let layer = layer
        .file(&format!("common/layer-{n}"), n.to_string())
        .file("common/top", format!("layer {n} was the last"))
        .symlink(&format!("link-{n}"), &format!("common/layer-{n}"));
    layer.noise(8 + 4 * n, 3_000 + 700 * n).build()
}
