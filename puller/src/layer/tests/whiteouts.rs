//! Whiteouts: image-spec, "Layer", section "Whiteouts".

use super::*;

fn lower() -> Layer {
    Layer::new()
        .dir("d")
        .file("d/one", "1")
        .file("d/two", "2")
        .file("d/sub/deep", "3")
        .file("top", "t")
}

#[test]
fn a_whiteout_hides_a_file_or_a_directory() {
    assert_eq!(
        unpack([lower(), Layer::new().file("d/.wh.one", "").file(".wh.top", "")]).unwrap(),
        nodes([
            ("d", Node::Dir),
            ("d/two", file("2")),
            ("d/sub", Node::Dir),
            ("d/sub/deep", file("3"))
        ])
    );
    assert_eq!(
        unpack([lower(), Layer::new().file(".wh.d", "")]).unwrap(),
        nodes([("top", file("t"))])
    );
}

#[test]
fn a_whiteout_of_nothing_is_fine_and_leaves_nothing() {
    let layer = Layer::new()
        .file(".wh.x", "")
        .file("no/such/.wh.y", "")
        .file("no/.wh..wh..opq", "");
    assert_eq!(unpack([layer]).unwrap(), nodes([]));
}

/// L09: whiteouts hide only what lower layers put there, wherever in the layer they stand.
#[test]
fn l09_order_within_a_layer_does_not_matter() {
    let own = Layer::new()
        .dir("d")
        .file("d/own", "own")
        .file("d/one", "new")
        .file("d/sub/own", "own");
    let opaque = Layer::new().file("d/.wh..wh..opq", "");
    let expected = nodes([
        ("top", file("t")),
        ("d", Node::Dir),
        ("d/own", file("own")),
        ("d/one", file("new")),
        ("d/sub", Node::Dir),
        ("d/sub/own", file("own")),
    ]);
    let before = opaque.clone().raw(&own.clone().cut());
    let after = own.clone().raw(&opaque.clone().cut());
    let between = Layer::new()
        .dir("d")
        .file("d/own", "own")
        .raw(&opaque.cut())
        .raw(&own.clone().cut());
    for layer in [before, after, between] {
        assert_eq!(unpack([lower(), layer]).unwrap(), expected);
    }
    let hide = Layer::new().file(".wh.d", "");
    assert_eq!(
        unpack([lower(), hide.clone().raw(&own.clone().cut())]).unwrap(),
        expected
    );
    assert_eq!(unpack([lower(), own.raw(&hide.cut())]).unwrap(), expected);
}

#[test]
fn l09_a_whiteout_does_not_take_what_its_own_layer_put_there() {
    let layer = Layer::new()
        .file("top", "new")
        .file(".wh.top", "")
        .symlink("d", "top")
        .file(".wh.d", "");
    assert_eq!(
        unpack([lower(), layer]).unwrap(),
        nodes([("top", file("new")), ("d", link("top"))])
    );
}

#[test]
fn l09_an_opaque_root_hides_everything() {
    let layer = Layer::new().file("new", "n").file(".wh..wh..opq", "");
    assert_eq!(unpack([lower(), layer]).unwrap(), nodes([("new", file("n"))]));
}

#[test]
fn a_whiteout_counts_for_its_own_layer_only() {
    let hide = Layer::new().file(".wh.d", "");
    let again = Layer::new().file("d/x", "x");
    assert_eq!(
        unpack([lower(), hide.clone(), again.clone()]).unwrap(),
        nodes([("top", file("t")), ("d", Node::Dir), ("d/x", file("x"))])
    );
    assert_eq!(
        unpack([lower(), again, hide]).unwrap(),
        nodes([("top", file("t"))])
    );
}

#[test]
fn a_whiteout_goes_through_links_among_its_parents() {
    let base = Layer::new()
        .file("real/a", "a")
        .file("real/b", "b")
        .symlink("alias", "/real");
    assert_eq!(
        unpack([base.clone(), Layer::new().file("alias/.wh.a", "")]).unwrap(),
        nodes([
            ("real", Node::Dir),
            ("real/b", file("b")),
            ("alias", link("/real"))
        ])
    );
    // The link goes, not what it leads to.
    assert_eq!(
        unpack([base, Layer::new().file(".wh.alias", "")]).unwrap(),
        nodes([("real", Node::Dir), ("real/a", file("a")), ("real/b", file("b"))])
    );
}

/// L17: `invalid-whiteout`, and AUFS's own.
#[test]
fn odd_whiteouts() {
    let aufs = Layer::new()
        .dir(".wh..wh.plnk")
        .file(".wh..wh.plnk/1.2", "x")
        .file(".wh..wh.aufs", "")
        .file("a", "a");
    assert_eq!(unpack([aufs]).unwrap(), nodes([("a", file("a"))]));
    assert_eq!(
        reason([lower(), Layer::new().file("d/.wh...", "")]),
        Reason::UnsafeLayer
    );
    assert_eq!(
        reason([lower(), Layer::new().file("d/.wh..", "")]),
        Reason::MalformedLayer
    );
    assert_eq!(
        reason([lower(), Layer::new().file("d/.wh.", "")]),
        Reason::MalformedLayer
    );
    assert_eq!(
        reason([lower(), Layer::new().file(".wh.d/x", "")]),
        Reason::MalformedLayer
    );
}

/// L13: the same with each compression.
#[test]
fn l13_whiteouts_are_honoured_whatever_the_compression() {
    let upper = Layer::new().file(".wh.top", "").file("d/.wh..wh..opq", "").end();
    for upper in [build::gzip(&upper), build::zstd(&upper), upper] {
        let layers = [build::gzip(&lower().end()), upper];
        let (found, _) = unpack_with(&layers, &TreeOptions::default(), &Limits::default()).unwrap();
        assert_eq!(found, nodes([("d", Node::Dir)]));
    }
}

/// L09: a hard link's target in a lower layer is there until this layer hides it.
#[test]
fn l09_a_hard_link_to_what_is_hidden() {
    let hide = Layer::new().file(".wh.top", "");
    let linked = Layer::new().hard_link("kept", "top").raw(&hide.clone().cut());
    let found = unpack([lower(), linked]).unwrap();
    assert_eq!(found["kept"], file("t"));
    assert!(!found.contains_key("top"));
    assert_eq!(
        reason([lower(), hide.hard_link("kept", "top")]),
        Reason::MalformedLayer
    );
    // The same when all of the directory is hidden; what this layer put there is not.
    let opaque = Layer::new().file("d/.wh..wh..opq", "");
    assert_eq!(
        reason([lower(), opaque.clone().hard_link("kept", "d/one")]),
        Reason::MalformedLayer
    );
    let own = opaque.file("d/own", "own").hard_link("kept", "d/own");
    assert_eq!(unpack([lower(), own]).unwrap()["kept"], file("own"));
}

/// L09: a whiteout is told by its name, whatever it is, and its content is nothing.
#[test]
fn l09_whiteouts_of_odd_kinds() {
    let expected = nodes([("top", file("t"))]);
    for whiteout in [
        Layer::new().file(".wh.d", "content"),
        Layer::new().symlink(".wh.d", "top"),
        Layer::new().hard_link(".wh.d", "top"),
        Layer::new().hard_link(".wh.d", "missing"),
        Layer::new().dir(".wh.d"),
        Layer::new().special(".wh.d", b'3'),
        Layer::new().file("./.wh.d", ""),
        Layer::new().file("/.wh.d", ""),
        Layer::new().file(".wh.d/", ""),
        Layer::new().file(".wh.d", "").file(".wh.d", ""),
    ] {
        assert_eq!(unpack([lower(), whiteout.clone()]).unwrap(), expected);
        // It goes for nothing in the layer that has made what it hides.
        let both = lower().raw(&whiteout.cut());
        assert_eq!(unpack([both]).unwrap(), unpack([lower()]).unwrap());
    }
    // A directory of that name does not make its children whiteouts.
    let below = Layer::new().dir(".wh.d").file(".wh.d/one", "");
    assert_eq!(reason([lower(), below]), Reason::MalformedLayer);
}

/// L09: a name that is hidden and made again in one layer is the new one, of whatever kind.
#[test]
fn l09_what_is_hidden_may_come_again_as_something_else() {
    for (again, node) in [
        (Layer::new().file("d", "f"), file("f")),
        (Layer::new().symlink("d", "top"), link("top")),
        (Layer::new().hard_link("d", "top"), file("t")),
        (Layer::new().dir("d"), Node::Dir),
    ] {
        let hide = Layer::new().file(".wh.d", "");
        let before = hide.clone().raw(&again.clone().cut());
        let after = again.raw(&hide.cut());
        let expected = nodes([("top", file("t")), ("d", node)]);
        assert_eq!(unpack([lower(), before]).unwrap(), expected);
        assert_eq!(unpack([lower(), after]).unwrap(), expected);
    }
}
