//! Which files belong to a catalog.

use std::os::unix::fs::symlink;

use super::*;

fn named(name: &str) -> String {
    format!("name: {name}\n")
}

/// The names of the documents, in their order.
fn names(volume: &Volume) -> String {
    let mut names = Vec::new();
    let mut emit = |document: Document| {
        names.push(document.name);
        Ok(())
    };
    render(&volume.open(), Path::new(""), &mut emit).unwrap();
    names.join(" ")
}

#[test]
fn files_come_in_the_order_of_names_and_directories_in_their_place() {
    let volume = ["b/x", "b.yaml", "b-c", "a/z/1.json", "a/2", "Z", ".hidden/.file"]
        .into_iter()
        .fold(Volume::new(), |volume, path| volume.file(path, named(path)));
    assert_eq!(names(&volume), ".hidden/.file Z a/2 a/z/1.json b/x b-c b.yaml");
}

#[test]
fn a_file_alone_is_a_catalog() {
    let volume = Volume::new().file("a/b", "name: b").file("c", "name: c");
    let mut names = Vec::new();
    let mut emit = |document: Document| {
        names.push(document.name);
        Ok(())
    };
    render(&volume.open(), Path::new("a/b"), &mut emit).unwrap();
    assert_eq!(names, ["b"]);
}

#[test]
fn indexignore_leaves_files_out() {
    for (top, deep, expected) in [
        ("", "", "README.md a/README.md a/b/c.yaml a/d.txt e.yaml"),
        ("*.md", "", "a/b/c.yaml a/d.txt e.yaml"),
        ("/README.md\n# c\n\n", "", "a/README.md a/b/c.yaml a/d.txt e.yaml"),
        ("a/", "", "README.md e.yaml"),
        ("b", "", "README.md a/README.md a/d.txt e.yaml"),
        ("a/b/*", "", "README.md a/README.md a/d.txt e.yaml"),
        ("**/c.yaml\n  e.yaml  ", "", "README.md a/README.md a/d.txt"),
        ("*\n!*.yaml", "", "a/b/c.yaml e.yaml"),
        ("a/\n!a/d.txt", "", "README.md a/d.txt e.yaml"),
        // The last pattern that matches counts, be it for a directory above.
        ("!a/d.txt\na/", "", "README.md e.yaml"),
        ("*.md", "!README.md", "a/README.md a/b/c.yaml a/d.txt e.yaml"),
        ("", "/b\n*.txt", "README.md a/README.md e.yaml"),
        ("[", "[z-a]", "README.md a/README.md a/b/c.yaml a/d.txt e.yaml"),
    ] {
        let mut volume = Volume::new()
            .file(".indexignore", top)
            .file("a/.indexignore", deep);
        for path in ["README.md", "a/README.md", "a/b/c.yaml", "a/d.txt", "e.yaml"] {
            volume = volume.file(path, named(path));
        }
        assert_eq!(names(&volume), expected, "{top:?} {deep:?}");
    }
}

#[test]
fn patterns_are_bounded() {
    let volume = Volume::new().file("a/.indexignore", "x\n".repeat(1001));
    assert!(matches!(volume.lines(), Err(RenderError::Ignore { .. })));
    let volume = Volume::new().file(".indexignore", "#".repeat(1 << 20));
    assert!(matches!(volume.lines(), Err(RenderError::Ignore { .. })));
    let volume = Volume::new()
        .file(".indexignore", "x\n".repeat(600))
        .file("a/.indexignore", "y\n".repeat(600));
    assert!(matches!(volume.lines(), Err(RenderError::Ignore { .. })));
}

#[test]
fn links_stay_within_the_tree() {
    let link = |target: &str| {
        let volume = Volume::new().file("a/b", "name: b");
        symlink(target, volume.path().join("link")).unwrap();
        volume
    };
    fs::write(link("x").0.path().join("outside"), "name: outside").unwrap();
    assert_eq!(names(&link("a/b")), "b b");
    assert_eq!(names(&link("/a/b")), "b b");
    for target in ["../outside", "/etc/passwd", "nowhere", "a", "link"] {
        assert!(
            matches!(link(target).lines(), Err(RenderError::Link { .. })),
            "{target}"
        );
    }
}

#[test]
fn a_missing_catalog_is_none() {
    let volume = Volume::new();
    let rendered = render(&volume.open(), Path::new("configs"), &mut |_| Ok(()));
    assert!(matches!(rendered, Err(RenderError::Read { .. })));
}

#[test]
fn who_takes_no_document_ends_it() {
    let volume = Volume::new().file("a", "{}{}");
    let mut taken = 0;
    let mut emit = |_| {
        taken += 1;
        Err(io::Error::other("full"))
    };
    let rendered = render(&volume.open(), Path::new(""), &mut emit);
    assert!(matches!(rendered, Err(RenderError::Emit(_))));
    assert_eq!(taken, 1);
}
