//! The parts of a wish, as they are typed.

use puller_client::{Key, api};

use crate::domain::{ImageId, Platform};

/// What makes an Image that Image.
#[derive(Debug, Clone, clap::Args)]
pub struct WishArgs {
    /// The platform to pick, such as linux/amd64 or linux/arm/v7 [default: the daemon's own]
    #[arg(long, value_name = "OS/ARCH", help_heading = "Wish")]
    pub platform: Option<Platform>,
    /// Write only this path of the image
    #[arg(long, value_name = "PATH", help_heading = "Wish", conflicts_with = "label")]
    pub path: Option<String>,
    /// Write only the path that this label of the image's config names
    #[arg(long, value_name = "LABEL", help_heading = "Wish")]
    pub label: Option<String>,
    /// Fail when a symbolic link of the result leads out of the tree
    #[arg(long, help_heading = "Wish")]
    pub refuse_escaping_links: bool,
    /// The name under which the credentials for this pull are kept [default: the claimant where credentials are sent,
    /// else the daemon's own]
    #[arg(long, value_name = "NAME", help_heading = "Wish")]
    pub scope: Option<String>,
}

impl WishArgs {
    pub(super) fn wish(self, reference: String) -> api::Wish {
        let Self {
            platform,
            path,
            label,
            refuse_escaping_links,
            scope,
        } = self;
        let kind = match (path, label) {
            (Some(path), _) => Some(api::selection::Kind::Path(path)),
            (None, label) => label.map(api::selection::Kind::Label),
        };
        api::Wish {
            reference,
            platform: platform.map(
                |Platform {
                     os,
                     architecture,
                     variant,
                 }| api::Platform {
                    os,
                    architecture,
                    variant,
                },
            ),
            selection: kind.map(|kind| api::Selection { kind: Some(kind) }),
            unpack: refuse_escaping_links.then_some(api::UnpackOptions {
                refuse_escaping_links,
            }),
            credential_scope: scope,
        }
    }

    /// An id is told from a reference by its form: hex digits alone name no registry.
    pub(super) fn key(self, id_or_image: String) -> Key {
        match id_or_image.parse::<ImageId>() {
            Ok(id) => Key::Id(id.to_string()),
            Err(_) => Key::Wish(self.wish(id_or_image)),
        }
    }
}
