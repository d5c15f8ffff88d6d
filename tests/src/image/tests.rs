use std::io::Read as _;

use super::*;

fn names(archive: &[u8]) -> Vec<String> {
    tar::Archive::new(archive)
        .entries()
        .unwrap()
        .map(|entry| String::from_utf8_lossy(&entry.unwrap().path_bytes()).into_owned())
        .collect()
}

#[test]
fn every_compression_gives_back_the_archive_of_the_diff_id() {
    for layer in [Layer::plain(), Layer::gzip().members(3), Layer::zstd().members(2)] {
        let built = layer.dir("a").file("a/b", "text").noise(2, 1000).build();
        let archive = built.archive();
        assert_eq!(sha256(&archive), built.diff_id);
        assert_eq!(
            names(&archive),
            ["a/", "a/b", "noise-1/", "noise-1/00000", "noise-1/00001"]
        );
    }
}

#[test]
fn several_members_are_several_members() {
    let built = Layer::gzip().members(3).file("a", [7; 5000]).build();
    let mut first = Vec::new();
    flate2::read::GzDecoder::new(&built.blob.bytes[..])
        .read_to_end(&mut first)
        .unwrap();
    assert_ne!(sha256(&first), built.diff_id, "one member holds everything");
}

#[test]
fn names_are_kept_however_hostile_or_long() {
    let long = "d/".repeat(80) + "end";
    let built = Layer::plain()
        .raw_entry(Entry::file("../../etc/passwd", "x"))
        .raw_entry(
            Entry::file("/absolute", "x")
                .mode(0o4755)
                .owner(1000, 1000)
                .xattr("user.a", "b"),
        )
        .file(&long, "x")
        .symlink("link", &long)
        .whiteout("a/b")
        .opaque("a")
        .build();
    assert_eq!(
        names(&built.blob.bytes),
        [
            "../../etc/passwd",
            "/absolute",
            &long,
            "link",
            "a/.wh.b",
            "a/.wh..wh..opq"
        ]
    );
    let mut archive = tar::Archive::new(&built.blob.bytes[..]);
    let mut entries = archive.entries().unwrap().map(Result::unwrap);
    let mut absolute = entries.nth(1).unwrap();
    assert_eq!(absolute.header().mode().unwrap(), 0o4755);
    assert_eq!(absolute.header().uid().unwrap(), 1000);
    let xattr = absolute
        .pax_extensions()
        .unwrap()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        (xattr.key().unwrap(), xattr.value_bytes()),
        ("SCHILY.xattr.user.a", &b"b"[..])
    );
    assert_eq!(
        entries.nth(1).unwrap().link_name_bytes().unwrap(),
        long.as_bytes()
    );
}

#[test]
fn the_same_calls_give_the_same_digest_and_other_calls_another() {
    let image = |size| Image::new().label("a", "b").layer(Layer::gzip().noise(3, size));
    assert_eq!(image(100).digest(), image(100).digest());
    assert_ne!(image(100).digest(), image(101).digest());
}

#[test]
fn an_index_holds_its_images_and_their_attestations() {
    let (here, there) = (Image::new(), Image::new().platform("linux", "arm").variant("v7"));
    let index = Index::new().image(&here).image(&there).attestation(&here);
    let content = Content::from(&index);
    assert_eq!(content.root().digest, index.digest());
    assert_eq!(content.manifests.len(), 4);
    let document: Value = serde_json::from_slice(&content.root().bytes).unwrap();
    assert_eq!(document["manifests"][1]["platform"]["variant"], "v7");
    assert_eq!(document["manifests"][2]["platform"]["os"], "unknown");
    for entry in document["manifests"].as_array().unwrap() {
        assert!(
            content
                .manifests
                .iter()
                .any(|manifest| entry["digest"] == manifest.digest.as_str())
        );
    }
}

#[test]
fn docker_images_have_docker_media_types() {
    let image = Image::new().docker().layer(Layer::gzip().file("a", "b"));
    let manifest: Value = serde_json::from_slice(&image.manifest().bytes).unwrap();
    assert_eq!(manifest["mediaType"], media_type::DOCKER_MANIFEST);
    assert_eq!(manifest["config"]["mediaType"], media_type::DOCKER_CONFIG);
    assert_eq!(manifest["layers"][0]["mediaType"], media_type::DOCKER_LAYER);
}
