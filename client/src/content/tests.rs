use std::{
    fs,
    io::{Read as _, Seek as _},
    os::unix::fs::symlink,
};

use tempfile::TempDir;

use super::*;

/// A volume with one tree, and the Image that it is of.
struct Volume {
    directory: TempDir,
    image: api::Image,
}

impl Volume {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let image = api::Image {
            id: "one".into(),
            content: Some(api::Content {
                manifest_digest: "sha256:1".into(),
                path: "content/sha256-1".into(),
                selected: "configs".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        fs::create_dir_all(directory.path().join("content/sha256-1/configs/deep")).unwrap();
        fs::write(directory.path().join("content/secret"), "another tree's").unwrap();
        let volume = Self { directory, image };
        volume.file("configs/b.yaml", "b");
        volume.file("configs/a.yaml", "a");
        volume.file("configs/deep/c.yaml", "c");
        volume
    }

    fn tree(&self) -> PathBuf {
        self.directory.path().join("content/sha256-1")
    }

    fn file(&self, path: &str, text: &str) {
        fs::write(self.tree().join(path), text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        symlink(target, self.tree().join(path)).unwrap();
    }

    fn open(&self) -> ContentDir {
        ContentDir::open(self.directory.path(), &self.image).unwrap()
    }
}

fn kind_of<T: std::fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn paths_are_those_of_the_image() {
    let volume = Volume::new();
    let content = volume.open();
    assert_eq!(content.manifest_digest(), "sha256:1");
    for path in [
        "configs/a.yaml",
        "/configs/a.yaml",
        "configs/../configs/./a.yaml",
        "../../configs/a.yaml",
    ] {
        assert_eq!(content.read(path).unwrap(), b"a", "{path}");
    }
    assert_eq!(content.metadata("configs/a.yaml").unwrap().len(), 1);
    assert!(content.metadata("").unwrap().is_dir());
    assert_eq!(kind_of(content.read("configs")), io::ErrorKind::IsADirectory);
    assert_eq!(
        kind_of(content.read("configs/a.yaml/")),
        io::ErrorKind::NotADirectory
    );
    assert_eq!(
        kind_of(content.read_dir("configs/a.yaml")),
        io::ErrorKind::NotADirectory
    );
    let missing = content.read("configs/\u{1b}none").unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let text = missing.to_string();
    assert!(text.contains("none") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn links_are_followed_as_in_the_image_and_never_out_of_it() {
    let volume = Volume::new();
    fs::create_dir(volume.tree().join("etc")).unwrap();
    volume.file("etc/passwd", "the image's");
    volume.link("absolute", "/etc/passwd");
    volume.link("up", "../../../../etc/passwd");
    volume.link("directory", "/etc");
    volume.link("chain", "directory/passwd");
    for path in ["absolute", "up", "directory/passwd", "chain"] {
        assert_eq!(content_text(&volume, path), "the image's", "{path}");
    }
    volume.link("magic", "/proc/self/root");
    volume.link("host", "/etc/hostname");
    volume.link("neighbour", "../secret");
    volume.link("dangling", "nowhere");
    let content = volume.open();
    for path in [
        "magic",
        "magic/etc/passwd",
        "host",
        "neighbour",
        "dangling",
        "../secret",
    ] {
        assert_eq!(kind_of(content.read(path)), io::ErrorKind::NotFound, "{path}");
    }
    volume.link("loop", "pool");
    volume.link("pool", "loop");
    assert!(content.read("loop").is_err() && content.read_dir("loop").is_err());
}

fn content_text(volume: &Volume, path: &str) -> String {
    String::from_utf8(volume.open().read(path).unwrap()).unwrap()
}

#[test]
fn special_files_are_refused_and_not_waited_for() {
    let volume = Volume::new();
    let mode = Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        volume.tree().join("pipe"),
        FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(volume.tree().join("socket")).unwrap();
    let content = volume.open();
    assert_eq!(kind_of(content.read("pipe")), io::ErrorKind::InvalidInput);
    assert!(content.read("socket").is_err());
    let kinds: Vec<_> = content
        .read_dir("")
        .unwrap()
        .into_iter()
        .map(|entry| entry.kind)
        .collect();
    assert_eq!(
        kinds,
        [ContentKind::Directory, ContentKind::Other, ContentKind::Other]
    );
}

#[test]
fn a_walk_tells_all_in_order_and_follows_no_link() {
    let volume = Volume::new();
    volume.link("configs/deep/up", "..");
    volume.link("selected", "configs");
    let content = volume.open();
    let walked = |path: &Path| -> Vec<(String, ContentKind)> {
        content
            .walk(path)
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.path.to_str().unwrap().to_owned(), entry.kind))
            .collect()
    };
    let expected = |below: &str| {
        [
            ("a.yaml", ContentKind::File),
            ("b.yaml", ContentKind::File),
            ("deep", ContentKind::Directory),
            ("deep/c.yaml", ContentKind::File),
            ("deep/up", ContentKind::Link),
        ]
        .map(|(path, kind)| (format!("{below}/{path}"), kind))
    };
    assert_eq!(walked(content.selected()), expected("configs"));
    assert_eq!(walked(Path::new("selected")), expected("selected"));
    assert_eq!(walked(Path::new("configs/deep/up")), expected("configs/deep/up"));
    let nowhere: Vec<_> = content.walk("nowhere").map(kind_of).collect();
    assert_eq!(nowhere, [io::ErrorKind::NotFound]);
}

#[test]
fn what_was_opened_stays_what_it_is() {
    let volume = Volume::new();
    let content = volume.open();
    let mut file = content.open_file("configs/a.yaml").unwrap();

    // Deleted, and another tree in its place.
    let trash = volume.directory.path().join("trash");
    fs::rename(volume.tree(), &trash).unwrap();
    assert_eq!(content.read("configs/b.yaml").unwrap(), b"b");
    fs::create_dir_all(volume.tree().join("configs")).unwrap();
    volume.file("configs/b.yaml", "another b");
    fs::remove_dir_all(&trash).unwrap();

    assert_eq!(kind_of(content.read("configs/b.yaml")), io::ErrorKind::NotFound);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), file.stream_position().unwrap()), ("a", 1));
}

#[test]
fn what_is_no_content_is_said() {
    let volume = Volume::new();
    let open = |image: &api::Image| ContentDir::open(volume.directory.path(), image).unwrap_err();
    let mut image = volume.image.clone();

    fs::rename(volume.tree(), volume.directory.path().join("trash")).unwrap();
    let error = open(&image);
    assert!(matches!(error, ContentError::Gone { .. }), "{error}");
    // A link in its place is none of the puller's.
    symlink("/etc", volume.tree()).unwrap();
    let error = open(&image);
    assert!(matches!(error, ContentError::Io { .. }), "{error}");

    for path in ["", "/etc", "../etc", "content/../..", "."] {
        image.content.as_mut().unwrap().path = path.into();
        let error = open(&image);
        assert!(
            matches!(error, ContentError::InvalidPath { .. }),
            "{path}: {error}"
        );
    }
    image.content = None;
    image.set_phase(api::Phase::Pulling);
    let text = open(&image).to_string();
    assert_eq!(text, "the Image one has no content yet: its phase is PULLING");
}
