//! The tree that skopeo and umoci make of an image: what ours is compared with.

use tempfile::TempDir;

use crate::{process::run, registry::DockerRegistry, tree::Tree};

/// `skopeo copy` from the registry, then `umoci unpack`, of `repository:tag`.
///
/// # Panics
/// A tool is missing or fails.
pub async fn unpack(registry: &DockerRegistry, name: &str) -> Tree {
    let directory = TempDir::new().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let source = format!("docker://{}", registry.reference(name));
    let destination = format!("oci:{}:it", path("layout"));
    let flags = registry.skopeo_flags("src");
    let mut copy = vec!["--insecure-policy", "copy", "--quiet"];
    copy.extend(flags.iter().map(String::as_str));
    copy.extend([source.as_str(), destination.as_str()]);
    run("skopeo", &copy)
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
    let image = format!("{}:it", path("layout"));
    let bundle = path("bundle");
    run("umoci", &["unpack", "--rootless", "--image", &image, &bundle])
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
    Tree::of(directory.path().join("bundle/rootfs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        image::{Image, Layer},
        tree::{dir, executable, file, symlink},
    };

    #[tokio::test]
    async fn unpacks_layers_over_each_other() {
        let registry = DockerRegistry::start().await;
        let image = Image::new()
            .layer(
                Layer::gzip()
                    .dir("a")
                    .file("a/b", "1")
                    .file("a/gone", "")
                    .executable("run", "#!"),
            )
            .layer(
                Layer::gzip()
                    .whiteout("a/gone")
                    .file("a/b", "2")
                    .symlink("link", "a/b"),
            );
        registry.push("app:v1", &image).await;
        unpack(&registry, "app:v1")
            .await
            .with_published_modes()
            .assert_same_as(&Tree::expected([
                ("a", dir()),
                ("a/b", file("2")),
                ("link", symlink("a/b")),
                ("run", executable("#!")),
            ]));
    }
}
