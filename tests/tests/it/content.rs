//! What the client reads of published content: the image's tree, and nothing beside it.

use std::{
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use puller_client::{ContentDir, ContentError, ContentKind};
use puller_tests::{
    image::{Image, Layer},
    puller::Puller,
    scripted::ScriptedRegistry,
    wait::eventually,
};
use tempfile::TempDir;

/// What a Fetch's `max_age` is at least.
const LEAST_AGE: Duration = Duration::from_secs(10);

/// The volume by another path, as another container has it.
fn mount(puller: &Puller, directory: &TempDir) -> PathBuf {
    let path = directory.path().join("mounted");
    symlink(puller.volume(), &path).expect("a link");
    path
}

#[tokio::test]
async fn an_image_is_read_within_its_own_tree() {
    let layer = Layer::gzip()
        .file("etc/passwd", "the image's")
        .file("usr/lib/os-release", "NAME=scenario")
        .symlink("etc/os-release", "../usr/lib/os-release")
        .symlink("lib", "/usr/lib")
        .symlink("absolute", "/etc/passwd")
        .symlink("up", "../../../../../etc/passwd")
        .symlink("host", "/proc/self/root/etc/passwd")
        .symlink("neighbour", "../../private/epoch");
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let image = puller
        .pull(&registry.hold("team/app:v1", Image::new().layer(layer)))
        .await;
    let directory = TempDir::new().expect("a directory");
    let content = ContentDir::open(mount(&puller, &directory), &image).expect("it is published");

    for (path, text) in [
        ("/etc/os-release", "NAME=scenario"),
        ("lib/os-release", "NAME=scenario"),
        ("absolute", "the image's"),
        ("up", "the image's"),
    ] {
        let read = content.read(path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read, text.as_bytes(), "{path}");
    }
    for path in ["host", "neighbour", "../../private/epoch"] {
        let error = content.read(path).expect_err("it is not in the tree");
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}: {error}");
    }
}

#[tokio::test]
async fn what_is_selected_is_walked_file_by_file() {
    let layer = Layer::gzip()
        .file("configs/a/catalog.yaml", "a")
        .file("configs/b.json", "b")
        .file("elsewhere/c", "c");
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", Image::new().layer(layer));
    let puller = Puller::start().await;
    let image = puller.fetch(&reference).path("/configs").await;
    let image = puller.unpacked(&image.id).await;
    let content = ContentDir::open(puller.volume(), &image).expect("it is published");
    let files: Vec<PathBuf> = content
        .walk(content.selected())
        .map(|entry| entry.expect("the tree is readable"))
        .filter(|entry| entry.kind == ContentKind::File)
        .map(|entry| entry.path)
        .collect();
    let expected = ["configs/a/catalog.yaml", "configs/b.json"].map(PathBuf::from);
    assert_eq!(files, expected);
}

#[tokio::test]
async fn superseded_content_is_readable_for_as_long_as_it_is_in_use() {
    let grace = Duration::from_secs(1);
    let (old, new) = (
        Image::new().layer(Layer::gzip().file("version", "old")),
        Image::new().layer(Layer::gzip().file("version", "new")),
    );
    let registry = ScriptedRegistry::start().await;
    let reference = registry.hold("team/app:v1", &old);
    let puller = Puller::start().grace_period(grace).await;
    let image = puller.pull(&reference).await;
    let reading = ContentDir::open(puller.volume(), &image).expect("it is published");

    registry.hold("team/app:v1", &new);
    tokio::time::sleep(LEAST_AGE).await;
    let fetch = puller.fetch(&reference).max_age(LEAST_AGE);
    fetch.in_use(reading.manifest_digest()).await;
    let newer = puller
        .wait_for(&image.id, "the new content", |image| {
            let content = image.content.as_ref();
            content.is_some_and(|content| content.manifest_digest == new.digest())
        })
        .await;
    tokio::time::sleep(grace * 3).await;
    assert_eq!(reading.read("version").expect("it is in use"), b"old");

    // No longer named.
    puller.fetch(&reference).await;
    let gone = || ContentDir::open(puller.volume(), &image).err();
    let error = eventually("the end of the old content", gone).await;
    assert!(matches!(error, ContentError::Gone { .. }), "{error}");
    eventually("the end of what is held", || {
        reading.read(Path::new("version")).err()
    })
    .await;
    let reading = ContentDir::open(puller.volume(), &newer).expect("it is published");
    assert_eq!(reading.read("version").expect("it is the current one"), b"new");
}
