//! Only a part of the image.

use super::*;

fn select(path: &str, layers: &[Layer]) -> Result<Nodes, Fault> {
    let layers: Vec<_> = layers.iter().cloned().map(Layer::end).collect();
    let options = TreeOptions {
        selection: Some(path.to_owned()),
        ..TreeOptions::default()
    };
    unpack_with(&layers, &options, &Limits::default()).map(|(nodes, _)| nodes)
}

fn missing(path: &str, layers: &[Layer]) -> String {
    let fault = select(path, layers).unwrap_err();
    assert_eq!(fault.reason, Reason::SelectionNotFound, "{fault}");
    fault.to_string()
}

fn base() -> Layer {
    Layer::new()
        .dir("etc")
        .file("etc/passwd", "p")
        .dir("var")
        .dir("var/configs")
        .file("var/configs/a", "a")
        .file("var/configs/sub/b", "b")
        .file("var/configsX", "x")
        .file("var/other", "o")
}

#[test]
fn writes_what_is_selected_and_counts_all() {
    let expected = nodes([
        ("var", Node::Dir),
        ("var/configs", Node::Dir),
        ("var/configs/a", file("a")),
        ("var/configs/sub", Node::Dir),
        ("var/configs/sub/b", file("b")),
    ]);
    assert_eq!(select("var/configs", &[base()]).unwrap(), expected);
    let options = TreeOptions {
        selection: Some("var/configs".into()),
        ..TreeOptions::default()
    };
    let (_, summary) = unpack_with(&[base().end()], &options, &Limits::default()).unwrap();
    assert_eq!((summary.entries, summary.files, summary.size), (8, 2, 2));
    assert_eq!(select("", &[base()]).unwrap().len(), 9);
    let one = nodes([
        ("var", Node::Dir),
        ("var/configs", Node::Dir),
        ("var/configs/a", file("a")),
    ]);
    assert_eq!(select("var/configs/a", &[base()]).unwrap(), one);
}

#[test]
fn later_layers_change_the_selected_part() {
    let upper = Layer::new()
        .file("var/configs/.wh.a", "")
        .file("var/configs/c", "c")
        .file("etc/new", "n");
    let expected = nodes([
        ("var", Node::Dir),
        ("var/configs", Node::Dir),
        ("var/configs/c", file("c")),
        ("var/configs/sub", Node::Dir),
        ("var/configs/sub/b", file("b")),
    ]);
    assert_eq!(select("var/configs", &[base(), upper]).unwrap(), expected);
    for hide in [".wh.var", "var/.wh..wh..opq", ".wh..wh..opq"] {
        let text = missing("var/configs", &[base(), Layer::new().file(hide, "")]);
        assert!(text.contains("\"etc\", \"var\""), "{text}");
        let again = Layer::new().file("var/configs/z", "z");
        let expected = nodes([
            ("var", Node::Dir),
            ("var/configs", Node::Dir),
            ("var/configs/z", file("z")),
        ]);
        assert_eq!(
            select("var/configs", &[base(), Layer::new().file(hide, ""), again]).unwrap(),
            expected
        );
    }
}

#[test]
fn says_what_is_there_instead() {
    let text = missing("configs", &[base()]);
    assert!(
        text.contains("does not have it; at its top are \"etc\", \"var\""),
        "{text}"
    );
    let linked = Layer::new()
        .file("data/configs/a", "a")
        .symlink("configs", "/data/configs");
    let text = missing("configs", std::slice::from_ref(&linked));
    assert!(text.contains("symbolic link to \"/data/configs\""), "{text}");
    let above = Layer::new()
        .file("data/configs/a", "a")
        .symlink("srv", "data")
        .file("srv/configs/b", "b");
    let text = missing("srv/configs", &[above]);
    assert!(text.contains("\"srv\" is a symbolic link to \"data\""), "{text}");
    let text = missing("var/configs", &[base(), Layer::new().file("var", "now a file")]);
    assert!(text.contains("\"var\" is a file"), "{text}");
    let many = (0..50).fold(Layer::new(), |layer, i| layer.file(&format!("f{i:02}"), ""));
    let text = missing("configs", &[many]);
    assert!(text.contains("\"f19\" and more"), "{text}");
    assert!(missing("configs", &[Layer::new()]).contains("no entries"));
}

#[test]
fn a_link_above_the_selected_path_can_become_a_directory_again() {
    let linked = Layer::new().symlink("var", "etc").file("var/configs/hidden", "h");
    let expected = nodes([
        ("var", Node::Dir),
        ("var/configs", Node::Dir),
        ("var/configs/z", file("z")),
    ]);
    for again in [
        Layer::new().dir("var"),
        Layer::new().file(".wh.var", ""),
        Layer::new().file(".wh..wh..opq", ""),
    ] {
        let again = again.file("var/configs/z", "z");
        assert_eq!(
            select("var/configs", &[base(), linked.clone(), again]).unwrap(),
            expected
        );
    }
    // A whiteout does not take away what its own layer has put there.
    let kept = linked.file(".wh.var", "");
    missing("var/configs", &[base(), kept]);
}

#[test]
fn links_do_not_lead_out_of_the_selection() {
    let layer = Layer::new()
        .file("sel/real/a", "a")
        .symlink("sel/in", "/sel/real")
        .symlink("sel/new", "real/made")
        .symlink("sel/out", "/other")
        .symlink("sel/up", "../other/deep")
        .file("sel/in/b", "b")
        .file("sel/new/c", "c")
        .file("sel/out/d", "d")
        .file("sel/up/e", "e");
    assert_eq!(
        select("sel", &[layer]).unwrap(),
        nodes([
            ("sel", Node::Dir),
            ("sel/real", Node::Dir),
            ("sel/real/a", file("a")),
            ("sel/real/b", file("b")),
            ("sel/real/made", Node::Dir),
            ("sel/real/made/c", file("c")),
            ("sel/in", link("/sel/real")),
            ("sel/new", link("real/made")),
            ("sel/out", link("/other")),
            ("sel/up", link("../other/deep")),
        ])
    );
}

#[test]
fn a_hard_link_to_what_is_not_selected_is_told() {
    let text = missing(
        "var/configs",
        &[base(), Layer::new().hard_link("var/configs/h", "etc/passwd")],
    );
    assert!(
        text.contains("\"var/configs/h\" is a hard link to \"etc/passwd\", which is not selected"),
        "{text}"
    );
    // The other way round it does not matter.
    assert!(
        select(
            "var/configs",
            &[base(), Layer::new().hard_link("etc/h", "var/configs/a")]
        )
        .is_ok()
    );
}

#[test]
fn plain_files_are_selected_too() {
    let place = Place::new();
    let options = TreeOptions {
        selection: Some("a".into()),
        ..TreeOptions::default()
    };
    let mut tree = place.tree(options, Limits::default(), Resolver::Kernel);
    tree.put_file("a/x", &b"x"[..]).unwrap();
    tree.put_file("b/y", &b"y"[..]).unwrap();
    let summary = tree.finish().unwrap();
    assert_eq!((summary.files, summary.size, summary.entries), (1, 1, 2));
    assert_eq!(read(&place.root()), nodes([("a", Node::Dir), ("a/x", file("x"))]));
}
