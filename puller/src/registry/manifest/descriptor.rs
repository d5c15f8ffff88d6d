//! Descriptors and layers.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use oci_client::manifest::{
    IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE, IMAGE_LAYER_GZIP_MEDIA_TYPE,
    IMAGE_LAYER_MEDIA_TYPE, IMAGE_LAYER_NONDISTRIBUTABLE_GZIP_MEDIA_TYPE,
    IMAGE_LAYER_NONDISTRIBUTABLE_MEDIA_TYPE,
};
use serde::{Deserialize, de::IgnoredAny};

use super::{essence, fault, texts, unsupported};
use crate::{
    domain::{Digest, Reason},
    error::Fault,
};

/// Layers by zstd; oci-client has no name for them.
const LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
const LAYER_NONDISTRIBUTABLE_ZSTD: &str = "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd";
const DOCKER_LAYER_ZSTD: &str = "application/vnd.docker.image.rootfs.diff.tar.zstd";
/// Docker's layers that were to be fetched from somewhere else.
const DOCKER_FOREIGN: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar";
const DOCKER_FOREIGN_GZIP: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";

/// A blob that says that there is nothing (image-spec, "Guidance for an Empty Descriptor").
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// How the media types of archives end, whoever has made them up: charts, modules, bundles.
const TAR_SUFFIXES: [&str; 6] = [".tar", "+tar", "tar+gzip", "tar.gzip", "tar+zstd", "tar.zstd"];

/// The name that a single file is kept under.
const TITLE: &str = "org.opencontainers.image.title";

/// Where bytes are and what they must be, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Without parameters, in lower case.
    pub media_type: String,
    /// Of the bytes.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
    /// The bytes themselves, if the descriptor held them; they match digest and size.
    pub data: Option<Bytes>,
    /// `org.opencontainers.image.title` and others, as they came.
    pub annotations: BTreeMap<String, String>,
    /// Whether the bytes may not be in the registry but at URLs elsewhere, which are not asked.
    pub foreign: bool,
}

/// A layer and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The compressed bytes.
    pub descriptor: Descriptor,
    /// What they are.
    pub form: LayerForm,
}

/// What a layer's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerForm {
    /// An archive, perhaps compressed: how is seen from its first bytes, since media types lie.
    Tar,
    /// One file of an artifact, by the name that its annotation gives. The name is as it came and must
    /// be checked before it is used.
    File {
        /// `org.opencontainers.image.title`.
        title: Option<String>,
    },
    /// Nothing: an artifact that is all annotations has such a layer. It is not fetched.
    Empty,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a descriptor")]
pub(super) struct WireDescriptor {
    #[serde(default)]
    media_type: Option<String>,
    digest: String,
    size: i64,
    #[serde(default)]
    urls: Option<Vec<IgnoredAny>>,
    #[serde(default, deserialize_with = "texts")]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    data: Option<String>,
}

impl WireDescriptor {
    /// Whether it says that it is an image's layer.
    pub(super) fn is_tar(&self) -> bool {
        self.media_type
            .as_deref()
            .is_some_and(|media_type| is_tar(&essence(media_type)))
    }
}

impl Descriptor {
    /// `what` names the descriptor, such as `layer 3`.
    pub(super) fn check(wire: WireDescriptor, what: &str, asked: &str) -> Result<Self, Fault> {
        let unsound = |problem: String| unsupported(asked, format!("its {what} is unsound: {problem}"));
        let digest: Digest = wire.digest.parse().map_err(|error| unsound(format!("{error}")))?;
        let size = u64::try_from(wire.size).map_err(|_| unsound(format!("its size is {}", wire.size)))?;
        let media_type = essence(wire.media_type.as_deref().unwrap_or_default());
        // RFC 6838 section 4.2: a type and a subtype of at most 127 characters.
        let sound = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&b);
        if media_type.len() > 255 || !media_type.bytes().all(sound) {
            return Err(unsound(format!(
                "its media type is {:?}",
                fault::quoted(&media_type)
            )));
        }
        let data = wire.data.filter(|data| !data.is_empty() || size == 0);
        let data = data
            .map(|data| inline(&data, &digest, size, what, asked))
            .transpose()?;
        Ok(Self {
            foreign: is_foreign(&media_type) || wire.urls.is_some_and(|urls| !urls.is_empty()),
            media_type,
            digest,
            size,
            data,
            annotations: wire.annotations,
        })
    }

    /// The fault of a foreign layer that the registry does not have: the URLs that a manifest names
    /// are not asked.
    pub fn refused_as_foreign(&self, asked: &str) -> Fault {
        Fault::new(
            Reason::UnsupportedMediaType,
            asked,
            format!(
                "the layer {} ({}) is a foreign one: it is not in the registry, and the URLs that the manifest names for it are not asked",
                self.digest, self.media_type
            ),
            "push the image with its foreign layers",
        )
    }
}

fn inline(data: &str, digest: &Digest, size: u64, what: &str, asked: &str) -> Result<Bytes, Fault> {
    let mismatch = |happened: String| {
        Fault::new(
            Reason::DigestMismatch,
            asked,
            happened,
            "have the manifest made anew: its inline data is wrong",
        )
    };
    let bytes = STANDARD
        .decode(data)
        .map_err(|_| mismatch(format!("the data of its {what} is not base64")))?;
    if bytes.len() as u64 != size || digest.of_same_kind(&bytes) != *digest {
        return Err(mismatch(format!(
            "the data of its {what} is not what its digest and size say"
        )));
    }
    Ok(bytes.into())
}

impl Layer {
    pub(super) fn of_image(wire: WireDescriptor, position: usize, asked: &str) -> Result<Self, Fault> {
        let what = name(position);
        let descriptor = Descriptor::check(wire, &what, asked)?;
        if !is_tar(&descriptor.media_type) {
            return Err(Fault::new(
                Reason::UnsupportedMediaType,
                asked,
                format!("the media type of its {what} is {:?}", descriptor.media_type),
                "layers are tar archives, plain or compressed with gzip or zstd",
            ));
        }
        Ok(Self {
            descriptor,
            form: LayerForm::Tar,
        })
    }

    pub(super) fn of_artifact(wire: WireDescriptor, position: usize, asked: &str) -> Result<Self, Fault> {
        let descriptor = Descriptor::check(wire, &name(position), asked)?;
        let media_type = descriptor.media_type.as_str();
        let form = if media_type == EMPTY {
            LayerForm::Empty
        } else if is_tar(media_type) || TAR_SUFFIXES.iter().any(|suffix| media_type.ends_with(suffix)) {
            LayerForm::Tar
        } else {
            LayerForm::File {
                title: descriptor.annotations.get(TITLE).cloned(),
            }
        };
        Ok(Self { descriptor, form })
    }
}

/// As a person counts.
fn name(position: usize) -> String {
    format!("layer {}", position + 1)
}

fn is_tar(media_type: &str) -> bool {
    matches!(
        media_type,
        IMAGE_LAYER_MEDIA_TYPE
            | IMAGE_LAYER_GZIP_MEDIA_TYPE
            | LAYER_ZSTD
            | IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE
            | IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE
            | DOCKER_LAYER_ZSTD
    ) || is_foreign(media_type)
}

fn is_foreign(media_type: &str) -> bool {
    matches!(
        media_type,
        IMAGE_LAYER_NONDISTRIBUTABLE_MEDIA_TYPE
            | IMAGE_LAYER_NONDISTRIBUTABLE_GZIP_MEDIA_TYPE
            | LAYER_NONDISTRIBUTABLE_ZSTD
            | DOCKER_FOREIGN
            | DOCKER_FOREIGN_GZIP
    )
}
