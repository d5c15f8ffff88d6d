//! What a pull has to do: from a digest, through index and manifest, to layers.

use bytes::Bytes;

use crate::{
    domain::{Digest, Reason, Selection, UnpackOptions, Wish, wish::content_name},
    error::Fault,
    layer::Limits,
    registry::{
        Registry, Repository,
        manifest::{self, Config, Descriptor, LayerForm, Manifest},
    },
};

/// Indexes within indexes; more than one is hardly ever seen, and an index could name itself.
const MAX_INDEXES: usize = 4;

/// Layers of one image. Docker's limit is 127; each costs a file, so there has to be one.
const MAX_LAYERS: usize = 1000;

/// What is to be brought and unpacked.
#[derive(Debug, Clone)]
pub(super) struct Pulled {
    /// The digest of the platform's manifest.
    pub(super) manifest: Digest,
    /// By position, the lowest first.
    pub(super) layers: Vec<Layer>,
    /// The path to be written, without slashes around it; empty: all.
    pub(super) selected: String,
    pub(super) unpack: UnpackOptions,
}

#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) digest: Digest,
    /// Compressed bytes.
    pub(super) size: u64,
    /// The compressed bytes, if the manifest held them: the registry need not have them then.
    pub(super) data: Option<Bytes>,
    pub(super) kind: LayerKind,
}

#[derive(Debug, Clone)]
pub(super) enum LayerKind {
    /// An archive, which must hash to the diffID when it is inflated; artifacts have none.
    Archive { diff_id: Option<Digest> },
    /// A file of this name.
    File { title: String },
}

impl Pulled {
    pub(super) fn content_name(&self) -> String {
        content_name(&self.manifest, &self.selected, &self.unpack)
    }

    /// The positions at which each digest stands first.
    pub(super) fn different_layers(&self) -> Vec<usize> {
        let first = |(at, layer): (usize, &Layer)| {
            let seen = self.layers[..at]
                .iter()
                .any(|earlier| earlier.digest == layer.digest);
            (!seen).then_some(at)
        };
        self.layers.iter().enumerate().filter_map(first).collect()
    }
}

/// The manifest that a digest leads to.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Its own digest: another one if an index led to it.
    pub(super) digest: Digest,
    manifest: Found,
    asked: String,
}

/// Goes through indexes to the manifest for the wish's platform.
pub(super) async fn choose(
    registry: &dyn Registry,
    repository: &Repository,
    digest: &Digest,
    wish: &Wish,
) -> Result<Chosen, Fault> {
    let asked = format!("{}/{}@{digest}", repository.registry, repository.path);
    let (digest, manifest) = manifest_of(registry, repository, digest, wish, &asked).await?;
    Ok(Chosen {
        digest,
        manifest,
        asked,
    })
}

/// Asks the registry for the config, and says what it and the manifest ask for.
pub(super) async fn plan(
    registry: &dyn Registry,
    repository: &Repository,
    chosen: Chosen,
    wish: &Wish,
    limits: &Limits,
) -> Result<Pulled, Fault> {
    let Chosen {
        digest,
        manifest,
        asked,
    } = chosen;
    let (layers, selected) = match manifest {
        Found::Image(image) => image_layers(registry, repository, image, wish, &asked).await?,
        Found::Artifact(artifact) => {
            for layer in artifact
                .layers
                .iter()
                .filter(|layer| layer.form != LayerForm::Empty)
            {
                present(registry, repository, &layer.descriptor, &asked).await?;
            }
            artifact_layers(artifact, wish, &asked)?
        }
    };
    let pulled = Pulled {
        manifest: digest,
        layers,
        selected,
        unpack: wish.unpack.clone(),
    };
    check(&pulled, limits, &asked)?;
    Ok(pulled)
}

#[derive(Debug)]
enum Found {
    Image(manifest::Image),
    Artifact(manifest::Artifact),
}

async fn manifest_of(
    registry: &dyn Registry,
    repository: &Repository,
    digest: &Digest,
    wish: &Wish,
    asked: &str,
) -> Result<(Digest, Found), Fault> {
    let mut digest = digest.clone();
    for _ in 0..=MAX_INDEXES {
        let raw = registry.manifest(repository, &digest).await?;
        match Manifest::parse(&raw, asked)? {
            Manifest::Image(image) => return Ok((digest, Found::Image(image))),
            Manifest::Artifact(artifact) => return Ok((digest, Found::Artifact(artifact))),
            Manifest::Index(index) => {
                let picked = index.pick(&wish.platform, asked)?;
                digest = picked.descriptor.clone()?.digest;
            }
        }
    }
    Err(Fault::new(
        Reason::UnsupportedMediaType,
        asked,
        format!("its index leads to another index, more than {MAX_INDEXES} times"),
        "push an index that leads to manifests",
    ))
}

async fn image_layers(
    registry: &dyn Registry,
    repository: &Repository,
    image: manifest::Image,
    wish: &Wish,
    asked: &str,
) -> Result<(Vec<Layer>, String), Fault> {
    let manifest::Image { config, layers } = image;
    let bytes = match config.data {
        Some(data) => data,
        None => {
            registry
                .small_blob(repository, &config.digest, config.size)
                .await?
        }
    };
    let config = Config::parse(&bytes, layers.len(), asked)?;
    let mut planned = Vec::with_capacity(layers.len());
    for (layer, diff_id) in layers.iter().zip(&config.diff_ids) {
        present(registry, repository, &layer.descriptor, asked).await?;
        planned.push(Layer {
            digest: layer.descriptor.digest.clone(),
            size: layer.descriptor.size,
            data: layer.descriptor.data.clone(),
            kind: LayerKind::Archive {
                diff_id: Some(diff_id.clone()),
            },
        });
    }
    let selected = match &wish.selection {
        Selection::All => String::new(),
        Selection::Path(path) => path.clone(),
        Selection::Label(label) => labelled(&config, label, asked)?,
    };
    Ok((planned, selected))
}

/// A layer that may be kept elsewhere is fine if the registry has it all the same.
async fn present(
    registry: &dyn Registry,
    repository: &Repository,
    layer: &Descriptor,
    asked: &str,
) -> Result<(), Fault> {
    if !layer.foreign || layer.data.is_some() {
        return Ok(());
    }
    registry
        .has_blob(repository, &layer.digest)
        .await
        .map_err(|fault| match fault.reason {
            Reason::NotFound => layer.refused_as_foreign(asked),
            _ => fault,
        })
}

fn labelled(config: &Config, label: &str, asked: &str) -> Result<String, Fault> {
    let not_found = |happened: String| {
        let remedy = "select a label that the image has and whose value is a path, or a path itself";
        Fault::new(Reason::SelectionNotFound, asked, happened, remedy)
    };
    let value = config.labels.get(label).ok_or_else(|| {
        let there: Vec<_> = config.labels.keys().take(MAX_NAMED).collect();
        not_found(format!("its config has no label {label:?}; it has {there:?}"))
    })?;
    match Selection::path(value) {
        Ok(Selection::Path(path)) => Ok(path),
        Ok(_) => Ok(String::new()),
        Err(problem) => Err(not_found(format!(
            "the value of its label {label:?} is no path of the image: {problem}"
        ))),
    }
}

/// Labels that a message names.
const MAX_NAMED: usize = 10;

fn artifact_layers(
    artifact: manifest::Artifact,
    wish: &Wish,
    asked: &str,
) -> Result<(Vec<Layer>, String), Fault> {
    let selected = match &wish.selection {
        Selection::All => String::new(),
        Selection::Path(path) => path.clone(),
        Selection::Label(label) => {
            return Err(Fault::new(
                Reason::SelectionNotFound,
                asked,
                format!(
                    "it is an artifact ({}), which has no labels such as {label:?}",
                    artifact.artifact_type
                ),
                "select a path, or everything",
            ));
        }
    };
    let planned = artifact.layers.into_iter().filter_map(|layer| {
        let descriptor = layer.descriptor;
        let kind = match layer.form {
            LayerForm::Empty => return None,
            LayerForm::Tar => LayerKind::Archive { diff_id: None },
            // A file without a name is still wanted: it gets its digest's, which a file can have.
            LayerForm::File { title } => LayerKind::File {
                title: title.unwrap_or_else(|| descriptor.digest.to_string().replace(':', "-")),
            },
        };
        Some(Layer {
            digest: descriptor.digest,
            size: descriptor.size,
            data: descriptor.data,
            kind,
        })
    });
    Ok((planned.collect(), selected))
}

/// What can be known of the limits before the first byte.
fn check(pulled: &Pulled, limits: &Limits, asked: &str) -> Result<(), Fault> {
    let exceeded = |what: &str, is: u64, limit: u64| {
        Fault::new(
            Reason::LimitExceeded,
            asked,
            format!("it has {is} {what}; {limit} are allowed"),
            "pull a smaller image, or raise the limit",
        )
    };
    if pulled.layers.len() > MAX_LAYERS {
        return Err(exceeded("layers", pulled.layers.len() as u64, MAX_LAYERS as u64));
    }
    let sizes = pulled
        .different_layers()
        .into_iter()
        .map(|at| pulled.layers[at].size);
    let compressed = sizes.fold(0, u64::saturating_add);
    if compressed > limits.max_bytes {
        return Err(exceeded("compressed bytes", compressed, limits.max_bytes));
    }
    Ok(())
}
