//! Links, as parents, as targets, and as a way out.

use super::*;

/// L08: nothing outside is touched; an absolute link is followed as if the root were `/`.
#[test]
fn l08_a_link_among_the_parents_is_followed_within_the_root() {
    let outside = format!("../{CANARY}");
    for (target, lands) in [
        ("/etc", "etc/cron.d"),
        ("etc", "etc/cron.d"),
        ("../../../etc", "etc/cron.d"),
        ("/../etc/./", "etc/cron.d"),
        (&outside[..], "canary/cron.d"),
    ] {
        let layer = Layer::new().symlink("x", target).file("x/cron.d/p", "p");
        let found = unpack([layer]).unwrap();
        assert_eq!(found["x"], link(target));
        assert_eq!(found[&format!("{lands}/p")], file("p"), "{target}");
    }
}

#[test]
fn usr_merge() {
    let base = Layer::new()
        .dir("usr")
        .dir("usr/lib")
        .symlink("lib", "usr/lib")
        .symlink("lib64", "/lib");
    let upper = Layer::new()
        .file("lib/a.so", "a")
        .file("lib64/b.so", "b")
        .file("usr/lib/c.so", "c");
    let found = unpack([base, upper]).unwrap();
    assert_eq!(found.len(), 7);
    assert_eq!(
        [&found["usr/lib/a.so"], &found["usr/lib/b.so"]],
        [&file("a"), &file("b")]
    );
}

#[test]
fn a_directory_has_one_content_whatever_it_is_called() {
    let base = Layer::new()
        .dir("real")
        .symlink("alias", "real")
        .file("real/a", "old");
    let upper = Layer::new()
        .file("alias/a", "new")
        .file("real/b", "b")
        .file("alias/b", "b2")
        .file("real/.wh..wh..opq", "")
        .file("alias/c", "c");
    assert_eq!(
        unpack([base, upper]).unwrap(),
        nodes([
            ("real", Node::Dir),
            ("alias", link("real")),
            ("real/a", file("new")),
            ("real/b", file("b2")),
            ("real/c", file("c")),
        ])
    );
}

#[test]
fn a_parent_that_changes_is_noticed() {
    let layer = Layer::new()
        .dir("one")
        .dir("two")
        .symlink("at", "one")
        .file("at/x", "1")
        .symlink("at", "two")
        .file("at/x", "2")
        .dir("at")
        .file("at/x", "3");
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([
            ("one", Node::Dir),
            ("one/x", file("1")),
            ("two", Node::Dir),
            ("two/x", file("2")),
            ("at", Node::Dir),
            ("at/x", file("3")),
        ])
    );
}

#[test]
fn loops_of_links_are_malformed() {
    let around = Layer::new().symlink("a", "b").symlink("b", "/a");
    for layer in [
        around.clone().dir("a/x"),
        around.clone().symlink("b/x", "y"),
        around.clone().hard_link("h", "a/x"),
        around.clone().file("f", "f").hard_link("a/h", "f"),
        Layer::new().symlink("a", "b").symlink("b", "a").file("a/x", "x"),
        Layer::new().symlink("a", "a").file("a/x", "x"),
        Layer::new().symlink("a", "a/b/c").file("a/x", "x"),
    ] {
        assert_eq!(reason([layer]), Reason::MalformedLayer);
    }
    // They may be there, be hidden, and be another's target: nobody follows them.
    let links = nodes([("a", link("b")), ("b", link("/a"))]);
    assert_eq!(unpack([around.clone()]).unwrap(), links);
    let hide = Layer::new().file(".wh.a", "").file("b/.wh.x", "");
    assert_eq!(
        unpack([around.clone(), hide]).unwrap(),
        nodes([("b", link("/a"))])
    );
    let linked = around.hard_link("h", "a");
    assert_eq!(unpack([linked]).unwrap()["h"], link("b"));
}

/// L08: `..` in an entry's own name.
#[test]
fn l08_names_that_climb_are_unsafe() {
    for name in ["../p", "a/../../p", "/../p", "a/.."] {
        assert_eq!(
            reason([Layer::new().file(name, "x")]),
            Reason::UnsafeLayer,
            "{name}"
        );
        assert_eq!(
            reason([Layer::new().symlink(name, "x")]),
            Reason::UnsafeLayer,
            "{name}"
        );
        assert_eq!(reason([Layer::new().dir(name)]), Reason::UnsafeLayer, "{name}");
    }
}

/// L08: the target is resolved in the root, and its last component is not followed.
#[test]
fn hard_links() {
    let base = Layer::new()
        .file("d/f", "f")
        .symlink("s", "/etc/passwd")
        .symlink("alias", "d");
    for target in [
        "d/f",
        "/d/f",
        "./alias/f",
        "../../d/f",
        "d/../d/./f",
        "alias/../alias/f",
    ] {
        let found = unpack([base.clone(), Layer::new().hard_link("h", target)]).unwrap();
        assert_eq!(found["h"], file("f"), "{target}");
    }
    let found = unpack([base.clone(), Layer::new().hard_link("h", "s")]).unwrap();
    assert_eq!(found["h"], link("/etc/passwd"));
    // To itself, and to another name of itself.
    let layer = Layer::new()
        .hard_link("d/f", "d/f")
        .hard_link("h", "d/f")
        .hard_link("alias/f", "h");
    assert_eq!(unpack([base.clone(), layer]).unwrap()["h"], file("f"));
    for target in ["missing", "d", "d/f/x", "..", "/", "", "alias/..", "missing/f"] {
        let (reason, text) = refusal([base.clone(), Layer::new().hard_link("h", target)]);
        assert_eq!(reason, Reason::MalformedLayer, "{target}");
        assert!(text.contains("\"h\" is a hard link"), "{text}");
    }
    // The target goes with what the link replaces.
    assert_eq!(
        reason([base, Layer::new().hard_link("d", "d/f")]),
        Reason::MalformedLayer
    );
}

#[test]
fn a_hard_link_sees_a_file_that_was_just_written() {
    let mut layer = Layer::new();
    for i in 0..500 {
        layer = layer
            .file(&format!("f{i}"), format!("{i}"))
            .hard_link(&format!("h{i}"), &format!("f{i}"));
    }
    let found = unpack([layer]).unwrap();
    assert!((0..500).all(|i| found[&format!("h{i}")] == file(&i.to_string())));
}

/// ext4 allows 65,000 names a file; beyond that the content is copied.
#[test]
fn a_file_may_have_more_names_than_the_file_system_allows() {
    const NAMES: usize = 65_002;
    let place = Place::new();
    let mut tree = place.tree(TreeOptions::default(), Limits::default(), Resolver::Kernel);
    let layer = (0..NAMES).fold(Layer::new().file("f", "f"), |layer, i| {
        layer.hard_link(&format!("{i}"), "f")
    });
    tree.apply(inflate(layer.end()), "layer", None).unwrap();
    assert_eq!(tree.finish().unwrap().files, NAMES as u64 + 1);
    let last = place.root().join(format!("{}", NAMES - 1));
    assert_eq!(fs::read(last).unwrap(), b"f");
}

#[test]
fn a_file_replaced_by_a_later_layer_keeps_its_other_name() {
    let base = Layer::new().file("a", "old").hard_link("b", "a");
    let found = unpack([base, Layer::new().file("a", "newer")]).unwrap();
    assert_eq!(found, nodes([("a", file("newer")), ("b", file("old"))]));
}

#[test]
fn l08_links_that_lead_out_are_counted_or_refused() {
    let base = || {
        Layer::new()
            .dir("p/q")
            .file("deep/er/f", "f")
            .symlink("p/q/up", "../..")
            .symlink("dive", "deep/er")
    };
    let escapes = [
        ("l", "/etc"),
        ("l", ".."),
        ("p/l", "../.."),
        ("p/q/l", "../../../x"),
        ("l", "p/../.."),
        // Within the tree as text, but `up` is the root already.
        ("p/q/l", "up/../x"),
    ];
    let stays = [
        ("l", "p"),
        ("p/l", "../missing"),
        ("p/q/l", "../../deep/../p"),
        ("l", "dive/../er/f"),
        ("p/l", "missing/../x"),
        ("l", "."),
    ];
    let strict = TreeOptions {
        refuse_escaping_links: true,
        ..TreeOptions::default()
    };
    for (name, target) in escapes {
        let layer = base().symlink(name, target);
        assert_eq!(summary([layer.clone()]).escaping_links, 1, "{name} -> {target}");
        let fault = unpack_with(&[layer.end()], &strict, &Limits::default()).unwrap_err();
        assert_eq!(fault.reason, Reason::UnsafeLayer);
        assert!(
            fault
                .happened
                .contains(&format!("\"/{name}\" leads to \"{target}\"")),
            "{fault}"
        );
    }
    for (name, target) in stays {
        let layer = base().symlink(name, target);
        let (_, summary) = unpack_with(&[layer.end()], &strict, &Limits::default()).unwrap();
        assert_eq!(summary.escaping_links, 0, "{name} -> {target}");
    }
    // What a later layer has taken away does not count.
    let layers = [
        base().symlink("l", "/etc").end(),
        Layer::new().file(".wh.l", "").end(),
    ];
    assert!(unpack_with(&layers, &strict, &Limits::default()).is_ok());
}

#[test]
fn links_need_a_target() {
    assert_eq!(reason([Layer::new().symlink("l", "")]), Reason::MalformedLayer);
}
