//! Layers that want out, want too much, or are not what they say: nothing outside the root is touched,
//! the reason is the right one, and the puller goes on.

use std::{io::ErrorKind, path::Path};

use puller_tests::{
    image::{BuiltLayer, Entry, Image, Layer, media_type},
    puller::{self, Phase, Puller, Reason},
    scripted::{Get, Lie, ScriptedRegistry},
    tree::{Kind, Tree, dir, file, symlink},
};

/// A puller, a registry, and a directory around the volume in which nothing may appear.
struct Scene {
    registry: ScriptedRegistry,
    puller: Puller,
    around: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        let around = tempfile::TempDir::new().expect("a temporary directory");
        // Budgets that a test reaches quickly.
        let puller = Puller::start()
            .volume(around.path().join("volume"))
            .flag("--max-image-size", "50MB")
            .flag("--max-entries", "1000");
        Self {
            registry: ScriptedRegistry::start().await,
            puller: puller.await,
            around,
        }
    }

    async fn fetch(&self, name: &str, layers: impl IntoIterator<Item = BuiltLayer>) -> puller::Image {
        let image = layers.into_iter().fold(Image::new(), Image::layer);
        self.puller.fetch(&self.registry.hold(name, &image)).await
    }

    /// Fetches an image that rests as failed for this reason.
    async fn fails(&self, name: &str, layer: Layer, reason: Reason) {
        let fetched = self.fetch(name, [layer.build()]).await;
        let failed = self.puller.failed(&fetched.id).await;
        let error = failed.last_error.expect("a failure has an error");
        assert_eq!(error.reason(), reason, "{name}: {}", error.message);
        assert!(failed.content.is_none(), "{name}: content of a failed pull");
        assert!(failed.next_retry.is_some(), "{name}: a tag is looked at again");
        self.nothing_is_outside();
    }

    /// Fetches an image that is unpacked; its tree.
    async fn unpacks(&self, name: &str, layers: impl IntoIterator<Item = BuiltLayer>) -> Tree {
        let fetched = self.fetch(name, layers).await;
        let unpacked = self.puller.unpacked(&fetched.id).await;
        self.nothing_is_outside();
        Tree::of(self.puller.content(&unpacked))
    }

    /// Nothing was written beside the volume, nor beside the trees in it, nor at the absolute paths that
    /// the layers here name.
    fn nothing_is_outside(&self) {
        // What the puller is taking apart at this moment vanishes while it is looked at.
        let tree = loop {
            match Tree::try_of(self.around.path()) {
                Ok(tree) => break tree,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => panic!("{error}"),
            }
        };
        let outside = tree
            .paths()
            .filter(|path| path.contains("escaped") && !path.starts_with("volume/content/"));
        assert_eq!(outside.count(), 0, "{tree:?}");
        for path in ["/escaped", "/tmp/escaped", "/escaped-target"] {
            assert!(!Path::new(path).exists(), "{path} was written");
        }
    }
}

#[tokio::test]
async fn names_that_climb_out_are_unsafe_and_the_puller_goes_on() {
    let scene = Scene::new().await;
    for (n, name) in [
        "../escaped",
        "../../../../escaped",
        "a/../../escaped",
        "/../escaped",
        "..",
    ]
    .iter()
    .enumerate()
    {
        let layer = Layer::gzip().file("before", "").raw_entry(Entry::file(name, "x"));
        scene
            .fails(&format!("hostile/climb:v{n}"), layer, Reason::UnsafeLayer)
            .await;
    }
    let tree = scene
        .unpacks("fine/app:v1", [Layer::gzip().file("a", "b").build()])
        .await;
    tree.assert_same_as(&Tree::expected([("a", file("b"))]));
}

#[tokio::test]
async fn what_is_written_through_links_lands_inside_the_root() {
    let scene = Scene::new().await;
    let absolute = Layer::gzip()
        .dir("escaped-target")
        .symlink("link", "/escaped-target")
        .symlink("up", "../../../../tmp")
        .dir("tmp");
    let through = Layer::gzip().file("link/escaped", "1").file("up/escaped", "2");
    let tree = scene
        .unpacks("hostile/links:v1", [absolute.build(), through.build()])
        .await;
    tree.assert_same_as(&Tree::expected([
        ("escaped-target", dir()),
        ("escaped-target/escaped", file("1")),
        ("link", symlink("/escaped-target")),
        ("tmp", dir()),
        ("tmp/escaped", file("2")),
        ("up", symlink("../../../../tmp")),
    ]));

    let last = Layer::gzip()
        .symlink("file", "/tmp/escaped")
        .raw_entry(Entry::file("file", "replaced"));
    let tree = scene.unpacks("hostile/links:v2", [last.build()]).await;
    tree.assert_same_as(&Tree::expected([("file", file("replaced"))]));

    let absolute = Layer::gzip().raw_entry(Entry::file("/escaped", "inside"));
    let tree = scene.unpacks("hostile/links:v3", [absolute.build()]).await;
    tree.assert_same_as(&Tree::expected([("escaped", file("inside"))]));
}

#[tokio::test]
async fn links_that_lead_out_are_counted_or_refused_as_the_wish_says() {
    let scene = Scene::new().await;
    let image = Image::new().layer(Layer::gzip().symlink("out", "/etc/passwd").file("a", "b"));
    let reference = scene.registry.hold("hostile/out:v1", &image);
    let counted = scene.puller.pull(&reference).await;
    assert_eq!(counted.content.expect("content").escaping_links, 1);
    let refused = scene.puller.fetch(&reference).refuse_escaping_links().await;
    assert_ne!(refused.id, counted.id);
    let failed = scene.puller.failed(&refused.id).await;
    assert_eq!(failed.last_error.expect("an error").reason(), Reason::UnsafeLayer);
}

#[tokio::test]
async fn hard_links_reach_no_file_outside() {
    let scene = Scene::new().await;
    let layer = Layer::gzip()
        .symlink("out", "/etc/hostname")
        .hardlink("escaped", "out")
        .file("a", "b")
        .hardlink("c", "a");
    let tree = scene.unpacks("hostile/hard:v1", [layer.build()]).await;
    assert!(
        matches!(tree.get("escaped").expect("a link").kind, Kind::Symlink { .. }),
        "the link was followed"
    );
    assert_eq!(tree.get("c"), tree.get("a"));
    let climbing = Layer::gzip().hardlink("escaped", "../../../../etc/hostname");
    let fetched = scene.fetch("hostile/hard:v2", [climbing.build()]).await;
    let failed = scene.puller.failed(&fetched.id).await;
    let reason = failed.last_error.expect("an error").reason();
    assert!(
        matches!(reason, Reason::UnsafeLayer | Reason::MalformedLayer),
        "{reason:?}"
    );
}

#[tokio::test]
async fn bombs_end_at_the_budget() {
    let scene = Scene::new().await;
    let zeros = vec![0; 60_000_000];
    scene
        .fails(
            "hostile/bomb:gzip",
            Layer::gzip().file("zeros", &zeros),
            Reason::LimitExceeded,
        )
        .await;
    scene
        .fails(
            "hostile/bomb:zstd",
            Layer::zstd().file("zeros", &zeros),
            Reason::LimitExceeded,
        )
        .await;
    let many = (0..1100).fold(Layer::gzip(), |layer, n| layer.file(&format!("{n}"), ""));
    scene
        .fails("hostile/bomb:entries", many, Reason::LimitExceeded)
        .await;
    let deep = "d/".repeat(200) + "end";
    scene
        .fails(
            "hostile/bomb:deep",
            Layer::gzip().file(&deep, ""),
            Reason::LimitExceeded,
        )
        .await;
    scene
        .unpacks("fine/app:v1", [Layer::gzip().file("a", "b").build()])
        .await;
}

#[tokio::test]
async fn bytes_that_are_not_those_of_the_digest_are_a_mismatch_and_tried_again() {
    let scene = Scene::new().await;
    let wrong_diff_id = scene
        .fetch(
            "wrong/diff-id:v1",
            [Layer::gzip().file("a", "b").wrong_diff_id().build()],
        )
        .await;
    let wrong_bytes = Layer::gzip().noise(5, 10_000).build();
    let lie = scene
        .registry
        .on(Get::blob(wrong_bytes.digest()))
        .times(1)
        .then(Lie::corrupt(3));
    let wrong_bytes = scene.fetch("wrong/bytes:v1", [wrong_bytes]).await;

    let failed = scene
        .puller
        .wait_for(&wrong_diff_id.id, "a failure", |image| image.last_error.is_some())
        .await;
    assert_eq!(
        failed.last_error.as_ref().expect("an error").reason(),
        Reason::DigestMismatch
    );
    assert_eq!(failed.phase(), Phase::Retrying);
    assert!(failed.content.is_none());
    let failed = scene
        .puller
        .wait_for(&wrong_bytes.id, "a failure", |image| !image.attempts.is_empty())
        .await;
    assert_eq!(failed.attempts[0].reason(), Reason::DigestMismatch);
    lie.release();
    scene.puller.unpacked(&wrong_bytes.id).await;
    scene.nothing_is_outside();
}

#[tokio::test]
async fn layers_that_are_no_archive_are_malformed() {
    let scene = Scene::new().await;
    let good = Layer::plain().file("a", "b").build().blob.bytes;
    let garbage = Layer::plain().raw_bytes(&[b'x'; 4096]);
    scene
        .fails("odd/garbage:v1", garbage, Reason::MalformedLayer)
        .await;
    let truncated = Layer::plain().raw_entry(Entry::file("a", "b").declared_size(1 << 20));
    scene
        .fails("odd/truncated:v1", truncated, Reason::MalformedLayer)
        .await;
    // Plain by its bytes, gzip by its name: the bytes decide.
    let tree = scene
        .unpacks(
            "odd/misnamed:v1",
            [Layer::of_bytes(media_type::LAYER_GZIP, &good)],
        )
        .await;
    tree.assert_same_as(&Tree::expected([("a", file("b"))]));
}

#[tokio::test]
async fn devices_pipes_and_odd_modes_are_left_out_and_counted() {
    let scene = Scene::new().await;
    let layer = Layer::gzip()
        .raw_entry(Entry::device("dev/null"))
        .raw_entry(Entry::fifo("pipe"))
        .raw_entry(Entry::file("setuid", "x").mode(0o4755).owner(1000, 1000))
        .raw_entry(Entry::file("xattr", "x").mode(0o600).xattr("user.color", "red"))
        .raw_entry(Entry::dir("locked").mode(0o000))
        .file("locked/file", "x");
    let image = Image::new().layer(layer);
    let unpacked = scene
        .puller
        .pull(&scene.registry.hold("odd/modes:v1", &image))
        .await;
    let skipped = unpacked
        .content
        .as_ref()
        .expect("content")
        .skipped
        .expect("something was skipped");
    assert_eq!(
        (
            skipped.special_files,
            skipped.xattrs,
            skipped.mode_bits,
            skipped.owners
        ),
        (2, 1, 1, 1),
        "{skipped:?}"
    );
    let tree = Tree::of(scene.puller.content(&unpacked));
    assert_eq!(tree.get("setuid").and_then(|node| node.mode), Some(0o555));
    assert_eq!(tree.get("xattr").and_then(|node| node.mode), Some(0o444));
    assert_eq!(tree.get("locked").and_then(|node| node.mode), Some(0o555));
    assert_eq!(tree.get("locked/file"), Some(&file("x")));
    assert!(tree.get("pipe").is_none() && tree.get("dev/null").is_none());
}
