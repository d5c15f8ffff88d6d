//! What somebody wants, and the identity that follows from it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{digest::Digest, platform::Platform, reference::Reference};

/// Hex digits of an [`ImageId`]: 80 bits, enough that ten thousand Images never collide.
const ID_LEN: usize = 20;

/// Identifies an [`Image`](crate::machine) for as long as it exists; made from its wish's identity,
/// so the same wish has the same id after a restart too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageId(String);

/// The text is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id {0:?} is not valid: it is the {ID_LEN} hex digits that Fetch and List give")]
pub struct InvalidId(String);

impl FromStr for ImageId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != ID_LEN || !digits {
            return Err(InvalidId(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for ImageId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<ImageId> for String {
    fn from(id: ImageId) -> Self {
        id.0
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name under which credentials are kept, never their value. Empty: the daemon's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scope(pub String);

impl Scope {
    /// Whether the daemon's own credentials are meant.
    pub fn is_daemon(&self) -> bool {
        self.0.is_empty()
    }
}

/// The part of an image that is written to disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// All of it.
    #[default]
    All,
    /// A path in the image, without a leading or trailing `/`, and without `.` and `..`.
    Path(String),
    /// The config label whose value is the path.
    Label(String),
}

/// Longest path or label of a selection: what Linux allows a path (`PATH_MAX`).
const MAX_SELECTION: usize = 4096;

impl Selection {
    /// A selection by path. `/` is everything.
    ///
    /// # Errors
    /// The path has a `..` in it, a NUL, or is too long; the text says so.
    pub fn path(path: &str) -> Result<Self, String> {
        if path.len() > MAX_SELECTION || path.contains('\0') {
            return Err(format!("it is longer than {MAX_SELECTION} bytes or holds a NUL"));
        }
        let parts: Vec<_> = path
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        if parts.contains(&"..") {
            return Err(format!("{path:?} holds \"..\""));
        }
        Ok(if parts.is_empty() {
            Self::All
        } else {
            Self::Path(parts.join("/"))
        })
    }

    /// A selection by label.
    ///
    /// # Errors
    /// The label is empty or too long; the text says so.
    pub fn label(label: &str) -> Result<Self, String> {
        if label.is_empty() || label.len() > MAX_SELECTION {
            return Err(format!(
                "the label's name is empty or longer than {MAX_SELECTION} bytes"
            ));
        }
        Ok(Self::Label(label.to_owned()))
    }
}

/// How an image is unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UnpackOptions {
    /// Fail when a symbolic link in the result leads out of the tree.
    pub refuse_escaping_links: bool,
}

/// What somebody wants. Everything in it is part of the identity, except how the reference was
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The reference as it was first asked.
    pub asked: String,
    /// The same in its full form.
    pub reference: Reference,
    /// Which image of an index.
    pub platform: Platform,
    /// Which part of the image.
    pub selection: Selection,
    /// How to unpack.
    pub unpack: UnpackOptions,
    /// Whose credentials.
    pub scope: Scope,
}

impl Wish {
    /// The identity's name.
    pub fn id(&self) -> ImageId {
        // Every part is preceded by its length, so that no two wishes can give the same text.
        let selection = match &self.selection {
            Selection::All => String::from("all"),
            Selection::Path(path) => format!("path {path}"),
            Selection::Label(label) => format!("label {label}"),
        };
        let mut text = String::from("puller.v1");
        for part in [
            self.reference.to_string(),
            self.platform.to_string(),
            selection,
            self.unpack.refuse_escaping_links.to_string(),
            self.scope.0.clone(),
        ] {
            text.push_str(&format!(" {}:{part}", part.len()));
        }
        ImageId(Digest::sha256(text.as_bytes()).hex()[..ID_LEN].to_owned())
    }

    /// Bytes of the wish's texts, for the limit on a wish's size.
    pub fn size(&self) -> usize {
        let selection = match &self.selection {
            Selection::All => 0,
            Selection::Path(text) | Selection::Label(text) => text.len(),
        };
        self.asked.len() + selection + self.scope.0.len()
    }
}

/// Names the published tree of an image: by manifest digest, selected path and unpack options, so
/// that two wishes which come to the same content share one tree.
pub fn content_name(manifest: &Digest, selected: &str, unpack: &UnpackOptions) -> String {
    let mut name = manifest.file_name();
    if !selected.is_empty() || unpack.refuse_escaping_links {
        let options = format!("{}\0{selected}", unpack.refuse_escaping_links);
        name.push('-');
        name.push_str(&Digest::sha256(options.as_bytes()).hex()[..ID_LEN]);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish {
        Wish {
            asked: "quay.io/a/b:v1".into(),
            reference: "quay.io/a/b:v1".parse().unwrap(),
            platform: "linux/amd64".parse().unwrap(),
            selection: Selection::All,
            unpack: UnpackOptions::default(),
            scope: Scope::default(),
        }
    }

    #[test]
    fn each_part_but_the_spelling_changes_the_id() {
        let id = wish().id();
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        let spelled = Wish {
            asked: "QUAY.io/a/b:v1".into(),
            ..wish()
        };
        assert_eq!(spelled.id(), id);
        for other in [
            Wish {
                reference: "quay.io/a/b:v2".parse().unwrap(),
                ..wish()
            },
            Wish {
                platform: "linux/arm64".parse().unwrap(),
                ..wish()
            },
            Wish {
                selection: Selection::Path("configs".into()),
                ..wish()
            },
            Wish {
                selection: Selection::Label("configs".into()),
                ..wish()
            },
            Wish {
                unpack: UnpackOptions {
                    refuse_escaping_links: true,
                },
                ..wish()
            },
            Wish {
                scope: Scope("team".into()),
                ..wish()
            },
        ] {
            assert_ne!(other.id(), id, "{other:?}");
        }
    }

    #[test]
    fn a_selected_path_is_cleaned_and_cannot_leave_the_image() {
        assert_eq!(
            Selection::path("/configs/"),
            Ok(Selection::Path("configs".into()))
        );
        assert_eq!(Selection::path("./a//b/."), Ok(Selection::Path("a/b".into())));
        assert_eq!(Selection::path("/"), Ok(Selection::All));
        assert!(Selection::path("a/../../b").is_err());
        assert!(Selection::label("").is_err());
    }

    #[test]
    fn content_is_shared_where_it_is_the_same() {
        let digest = Digest::sha256(b"manifest");
        let plain = UnpackOptions::default();
        let strict = UnpackOptions {
            refuse_escaping_links: true,
        };
        assert_eq!(content_name(&digest, "", &plain), digest.file_name());
        let names = [
            content_name(&digest, "", &plain),
            content_name(&digest, "", &strict),
            content_name(&digest, "configs", &plain),
            content_name(&digest, "configs", &strict),
        ];
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name));
        }
    }
}
