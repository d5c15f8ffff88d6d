//! Real images, from the real registry over TLS with a password: the tree equals what skopeo and umoci
//! make of them.

use std::{
    collections::HashMap,
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use puller_tests::{
    certificates::Authority,
    image::{Image, Layer},
    puller::Puller,
    registry::DockerRegistry,
    tree::{Kind, Tree},
    umoci,
};

/// A catalog as its publishers have it; None, with a line that says so, where the data is missing.
fn data(name: &str) -> Option<Vec<u8>> {
    let directory = env::var_os("PULLER_TEST_DATA").map(PathBuf::from);
    let directory =
        directory.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    let path = directory.join(name);
    if !path.exists() {
        println!(
            "skipped: {} is missing; PULLER_TEST_DATA names its directory",
            path.display()
        );
        return None;
    }
    Some(fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display())))
}

/// Bytes of all regular files below a directory; a file with several names counts once.
fn size_of(directory: &Path) -> u64 {
    fn visit(directory: &Path, inodes: &mut HashMap<u64, u64>) {
        for entry in fs::read_dir(directory).expect("list a directory") {
            let entry = entry.expect("list a directory");
            let metadata = entry.metadata().expect("look at a file");
            if metadata.is_dir() {
                visit(&entry.path(), inodes);
            } else if metadata.is_file() {
                inodes.insert(metadata.ino(), metadata.len());
            }
        }
    }
    let mut inodes = HashMap::new();
    visit(directory, &mut inodes);
    inodes.values().sum()
}

/// Pushes the image, pulls it, and compares; the tree as the puller published it.
async fn pull_and_compare_with_umoci(image: &Image) -> Tree {
    let authority = Authority::new();
    let registry = DockerRegistry::start()
        .tls(&authority)
        .htpasswd("user", "secret")
        .await;
    let reference = registry.push("team/image:v1", image).await;
    let puller = Puller::start().ca_file(authority.ca_file()).await;

    let fetched = puller
        .fetch(&reference)
        .login(&registry.host(), "user", "secret")
        .await;
    let unpacked = puller.unpacked(&fetched.id).await;
    let root = puller.content(&unpacked);
    let ours = Tree::of(&root);

    let content = unpacked.content.expect("an unpacked image has content");
    assert_eq!(content.manifest_digest, image.digest());
    assert_eq!(
        (content.files, content.size),
        (ours.files().count() as u64, size_of(&root))
    );

    umoci::unpack(&registry, "team/image:v1")
        .await
        .with_published_modes()
        .assert_same_as(&ours);
    ours
}

#[tokio::test]
async fn a_real_catalog_equals_what_umoci_makes_of_it() {
    let Some(archive) = data("community-v4.20.fbc.tar.zst") else {
        return;
    };
    let archive = zstd::decode_all(&archive[..]).expect("a zstd file");
    let tree =
        pull_and_compare_with_umoci(&Image::catalog(Layer::gzip().archive_under("configs", &archive))).await;
    assert_eq!(
        tree.below("configs")
            .paths()
            .filter(|path| !path.contains('/'))
            .count(),
        38,
        "packages"
    );

    // umoci knows no zstd; the tree is the same anyway.
    let registry = DockerRegistry::start().await;
    let image = Image::catalog(Layer::zstd().archive_under("configs", &archive));
    let reference = registry.push("team/image:zstd", &image).await;
    let puller = Puller::start().await;
    let unpacked = puller.pull(&reference).await;
    Tree::of(puller.content(&unpacked)).assert_same_as(&tree);
}

#[tokio::test]
async fn a_distribution_of_five_layers_equals_what_umoci_makes_of_it() {
    let image = distribution();
    assert_eq!(image.layers().len(), 5);
    let tree = pull_and_compare_with_umoci(&image).await;
    assert!(
        tree.files().count() > 10_000,
        "only {} files",
        tree.files().count()
    );
    assert!(
        matches!(&tree.get("lib").expect("a link").kind, Kind::Symlink { target } if target == "usr/lib")
    );
}

/// Files that this many bytes do not hold are left out: what is compared is variety, not volume.
const LARGEST_FILE: u64 = 64 << 10;

/// Like an image of a Linux distribution: libraries, shared data and programs of this machine, an upgrade
/// that overwrites and removes some, and a layer of links; filled up where the machine has too little.
fn distribution() -> Image {
    let base = Layer::gzip()
        .dir("usr")
        .dir("usr/lib")
        .symlink("lib", "usr/lib")
        .symlink("bin", "/usr/bin");
    let (libraries, paths) = of_machine(base, "/usr/lib", 4000);
    let (shared, _) = of_machine(Layer::gzip(), "/usr/share", 4000);
    let (programs, _) = of_machine(Layer::gzip(), "/usr/bin", 500);
    let mut upgrade = Layer::gzip().members(4);
    for (n, path) in paths.iter().enumerate() {
        match n % 20 {
            0 => upgrade = upgrade.file(path, format!("upgraded {n}")),
            1 => upgrade = upgrade.whiteout(path),
            2 => upgrade = upgrade.whiteout(path).symlink(path, "/usr/lib"),
            _ => {}
        }
    }
    let links = Layer::gzip()
        .noise(2500, 300)
        .hardlink("noise-1/hard", "noise-1/00000")
        .symlink("noise-1/absolute", "/usr/share")
        .symlink("noise-1/dangling", "../nowhere")
        .dir("empty")
        .noise(1000, 3000);
    // The upgrade removes or replaces some; the links layer has 3,500 files of its own.
    let missing = 11_000_usize.saturating_sub(paths.len() * 17 / 20 + 3500);
    Image::new()
        .layer(libraries)
        .layer(shared.noise(missing, 200))
        .layer(programs)
        .layer(upgrade)
        .layer(links)
}

/// Adds up to so many small files, and the links and directories between them; the files' paths.
fn of_machine(mut layer: Layer, root: &str, limit: usize) -> (Layer, Vec<String>) {
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::from(root)];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Ok(metadata) = path.symlink_metadata() else {
                continue;
            };
            if files.len() == limit {
                return (layer, files);
            }
            if metadata.is_file() && metadata.len() > LARGEST_FILE {
                continue;
            }
            if layer.add_from_machine(&path) {
                if metadata.is_dir() {
                    directories.push(path);
                } else if metadata.is_file() {
                    files.push(
                        path.to_str()
                            .expect("it was added")
                            .trim_start_matches('/')
                            .to_owned(),
                    );
                }
            }
        }
    }
    (layer, files)
}
