//! What entries make, and what they replace.

use super::{build::Fields, *};

#[test]
fn makes_files_directories_and_links() {
    let big: Vec<u8> = (0..700_000_u32).map(|i| (i / 7) as u8).collect();
    let layer = Layer::new()
        .dir("./")
        .dir("./d/")
        .file("./d/small", "small")
        .file("/d/big", &big)
        .file("d/empty", "")
        .symlink("d/link", "small")
        .hard_link("d/again", "./d/small");
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([
            ("d", Node::Dir),
            ("d/small", file("small")),
            ("d/big", Node::File(big)),
            ("d/empty", file("")),
            ("d/link", link("small")),
            ("d/again", file("small")),
        ])
    );
}

/// L04: the path is there already.
#[test]
fn l04_links_replace_what_is_there() {
    for lower in [
        Layer::new().file("a", "old").file("t", "t"),
        Layer::new().symlink("a", "t").file("t", "t"),
        Layer::new().dir("a").file("t", "t"),
        Layer::new().file("a/x/y", "deep").file("t", "t"),
    ] {
        let symlink = unpack([lower.clone(), Layer::new().symlink("a", "t")]).unwrap();
        assert_eq!(symlink, nodes([("a", link("t")), ("t", file("t"))]));
        let hard = unpack([lower, Layer::new().hard_link("a", "t")]).unwrap();
        assert_eq!(hard, nodes([("a", file("t")), ("t", file("t"))]));
    }
}

/// L05: kinds change, between layers and within one.
#[test]
fn l05_kinds_change() {
    let full = Layer::new().file("a/b/c", "c");
    let cases = [
        (
            full.clone(),
            Layer::new().file("a", "f"),
            nodes([("a", file("f"))]),
        ),
        (
            full.clone(),
            Layer::new().symlink("a", "z"),
            nodes([("a", link("z"))]),
        ),
        (
            Layer::new().file("a", "f"),
            Layer::new().dir("a").file("a/x", "x"),
            nodes([("a", Node::Dir), ("a/x", file("x"))]),
        ),
        // A directory over a link to a directory takes the link's place.
        (
            Layer::new().file("t/old", "t").symlink("a", "t"),
            Layer::new().dir("a").file("a/x", "x"),
            nodes([
                ("t", Node::Dir),
                ("t/old", file("t")),
                ("a", Node::Dir),
                ("a/x", file("x")),
            ]),
        ),
        // A directory over a directory keeps what is in it.
        (
            full,
            Layer::new().dir("a").dir("a/b").file("a/x", "x"),
            nodes([
                ("a", Node::Dir),
                ("a/b", Node::Dir),
                ("a/b/c", file("c")),
                ("a/x", file("x")),
            ]),
        ),
    ];
    for (lower, upper, expected) in cases {
        assert_eq!(unpack([lower.clone(), upper.clone()]).unwrap(), expected);
        let both = lower.raw(&upper.cut());
        assert_eq!(unpack([both]).unwrap(), expected, "within one layer");
    }
}

#[test]
fn the_last_of_several_entries_with_one_name_holds() {
    let mut layer = Layer::new();
    for i in 0..300 {
        layer = layer
            .file("d/name", format!("{i}"))
            .file(&format!("d/{}", i % 3), format!("{i}"));
    }
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([
            ("d", Node::Dir),
            ("d/name", file("299")),
            ("d/0", file("297")),
            ("d/1", file("298")),
            ("d/2", file("299")),
        ])
    );
}

/// L06: no entry for the parent.
#[test]
fn l06_missing_parents_are_made() {
    let layer = Layer::new().file("x/y/z/f", "f").hard_link("p/q/h", "x/y/z/f");
    let found = unpack([layer]).unwrap();
    assert_eq!(found["x/y/z"], Node::Dir);
    assert_eq!(found["p/q/h"], file("f"));
}

/// As for containerd and umoci.
#[test]
fn a_parent_that_is_a_file_is_an_error() {
    for layers in [
        [Layer::new().file("a", "f"), Layer::new().file("a/b", "b")],
        [Layer::new(), Layer::new().file("a", "f").file("a/b/c", "c")],
    ] {
        let (reason, text) = refusal(layers);
        assert_eq!(reason, Reason::MalformedLayer);
        assert!(text.contains("\"a\", which is no directory"), "{text}");
    }
}

/// L21: directories that nobody may write to come before their children; final modes come last.
#[test]
fn l21_modes_of_directories_do_not_hinder_what_is_in_them() {
    let layer = Layer::new()
        .dir_mode("d", 0o000)
        .dir_mode("d/e", 0o555)
        .file("d/e/f", "f");
    let upper = Layer::new().file("d/e/g", "g").file("d/e/f", "new");
    assert_eq!(
        unpack([layer, upper]).unwrap(),
        nodes([
            ("d", Node::Dir),
            ("d/e", Node::Dir),
            ("d/e/f", file("new")),
            ("d/e/g", file("g"))
        ])
    );
}

#[test]
fn any_x_bit_makes_a_file_executable_for_all() {
    let place = Place::new();
    let root = fs::metadata(place.root()).unwrap().permissions().mode() & 0o7777;
    let mut tree = place.tree(TreeOptions::default(), Limits::default(), Resolver::Kernel);
    let big = vec![7; 100_000];
    let layer = Layer::new()
        .file_mode("none", 0)
        .file_mode("user", 0o100)
        .file_mode("other", 0o601)
        .file_mode("setuid", 0o4755)
        .entry(
            &Fields {
                size: 100_000,
                mode: 0o700,
                ..Fields::new(b"big", b'0')
            },
            &big,
        );
    tree.apply(inflate(layer.end()), "layer", None).unwrap();
    let summary = tree.finish().unwrap();
    let mode = |name: &str| {
        fs::metadata(place.root().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(
        ["none", "user", "other", "setuid", "big"].map(mode),
        [0o444, 0o555, 0o555, 0o555, 0o555]
    );
    assert_eq!(summary.skipped.mode_bits, 1);
    // The root is for whoever publishes the tree.
    assert_eq!(mode("."), root);
}

/// L18, L19, L20, L21: nothing of this is taken over, all of it is counted.
#[test]
fn what_is_skipped_is_counted() {
    let lower = Layer::new().file("replaced", "x");
    let layer = Layer::new()
        .special("null", b'3')
        .special("disk", b'4')
        .special("pipe", b'6')
        .special("replaced", b'3')
        .pax(&[
            ("SCHILY.xattr.security.capability", b"\x01\n\x00\x02\n"),
            ("SCHILY.xattr.user.a", b"b"),
            ("mtime", b"1.5"),
        ])
        .file("f", "f")
        .entry(
            &Fields {
                owner: 4_000_000_000,
                ..Fields::new(b"owned", b'0')
            },
            b"",
        )
        .dir_mode("sticky", 0o1777);
    let summary = summary([lower.clone(), layer.clone()]);
    assert_eq!(summary.skipped.special_files, 4);
    assert_eq!(summary.skipped.xattrs, 2);
    assert_eq!(summary.skipped.owners, 1);
    assert_eq!(summary.skipped.mode_bits, 1);
    assert_eq!(summary.entries, 8);
    assert_eq!(summary.size, 1);
    assert_eq!(
        unpack([lower, layer]).unwrap(),
        nodes([("f", file("f")), ("owned", file("")), ("sticky", Node::Dir)])
    );
}

/// L17: names are bytes.
#[test]
fn l17_names_need_not_be_text() {
    let place = Place::new();
    let mut tree = place.tree(TreeOptions::default(), Limits::default(), Resolver::Kernel);
    let layer = Layer::new().entry(&Fields::new(b"\xff\xfe\n", b'0'), b"");
    tree.apply(inflate(layer.end()), "layer", None).unwrap();
    let names: Vec<_> = fs::read_dir(place.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, [std::ffi::OsStr::from_bytes(b"\xff\xfe\n")]);
}

/// L17: what means something to a shell, to Windows or to a reader of whiteouts is a name like any other.
#[test]
fn l17_names_may_look_odd() {
    for odd in [
        "*",
        "-rf",
        "~",
        "~root",
        " ",
        " a ",
        "a\nb",
        "\r",
        "\t",
        "#a#",
        "$(a)",
        "`a`",
        "%2e%2e",
        "\\",
        "a\\b",
        "C:",
        "a:b",
        "CON",
        "...",
        "..a",
        "a..",
        ".wh",
        ".WH.a",
        "wh.a",
        "\u{202e}",
        "\u{feff}",
        "\u{1b}[1m",
    ] {
        let layer = Layer::new()
            .file(odd, "f")
            .file(&format!("d/{odd}"), "g")
            .symlink(&format!("e/{odd}"), odd)
            .file(&format!("{odd}2/x"), "h");
        let below = [format!("d/{odd}"), format!("e/{odd}"), format!("{odd}2/x")];
        let found = unpack([layer]).unwrap();
        assert_eq!(found[odd], file("f"));
        assert_eq!(found[&below[0]], file("g"), "{odd:?}");
        assert_eq!(found[&below[1]], link(odd), "{odd:?}");
        assert_eq!(found[&below[2]], file("h"), "{odd:?}");
        let hide = Layer::new().file(&format!("d/.wh.{odd}"), "");
        let found = unpack([Layer::new().file(&below[0], "g"), hide]).unwrap();
        assert_eq!(found, nodes([("d", Node::Dir)]), "{odd:?}");
    }
}

/// L17: slashes at the beginning, doubled, or at the end.
#[test]
fn l17_slashes_and_dots_are_no_part_of_a_name() {
    let expected = nodes([("a", Node::Dir), ("a/b", file("b"))]);
    for name in [
        "a/b", "/a/b", "//a///b", "./a/./b", "a//b", "././/a/b", "/./a/b", "a/b/", "a/b/.",
    ] {
        assert_eq!(
            unpack([Layer::new().file(name, "b")]).unwrap(),
            expected,
            "{name}"
        );
        let hide = Layer::new().file("/.//a/.wh.b", "");
        let found = unpack([Layer::new().file(name, "b"), hide]).unwrap();
        assert_eq!(found, nodes([("a", Node::Dir)]), "{name}");
    }
}

/// L17: `empty-filename`.
#[test]
fn l17_an_empty_name_is_malformed() {
    assert_eq!(reason([Layer::new().file("", "x")]), Reason::MalformedLayer);
    assert_eq!(reason([Layer::new().file("./", "x")]), Reason::MalformedLayer);
}

/// L01: the same layer at several positions is applied at each.
#[test]
fn l01_a_layer_may_come_again() {
    let layer = Layer::new().file("a", "1");
    let hide = Layer::new().file(".wh.a", "");
    assert_eq!(
        unpack([layer.clone(), hide.clone(), layer.clone()]).unwrap(),
        nodes([("a", file("1"))])
    );
    assert_eq!(unpack([layer.clone(), layer, hide]).unwrap(), nodes([]));
}

#[test]
fn activity_counts_what_is_unpacked() {
    let place = Place::new();
    let activity = Arc::new(Activity::default());
    let root = fs::File::open(place.root()).unwrap().into();
    let mut tree = Tree::new(
        root,
        TreeOptions::default(),
        Limits::default(),
        Arc::clone(&activity),
    )
    .unwrap();
    let layer = Layer::new()
        .dir("d")
        .file("d/small", "1234")
        .file("d/big", vec![1; 300_000])
        .file(".wh.x", "");
    tree.apply(inflate(layer.end()), "layer", None).unwrap();
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(count(&activity.unpacked_entries), 4);
    assert_eq!(count(&activity.unpacked_bytes), 300_004);
}

#[test]
fn a_cancelled_attempt_stops() {
    let place = Place::new();
    let activity = Arc::new(Activity::default());
    let root = fs::File::open(place.root()).unwrap().into();
    let mut tree = Tree::new(
        root,
        TreeOptions::default(),
        Limits::default(),
        Arc::clone(&activity),
    )
    .unwrap();
    activity.cancel();
    let fault = tree
        .apply(inflate(Layer::new().file("a", "a").end()), "layer", None)
        .unwrap_err();
    assert_eq!(
        (fault.reason, fault.happened.as_str()),
        (Reason::Internal, "the attempt was cancelled")
    );
    assert_eq!(read(&place.root()), nodes([]));
}

#[test]
fn plain_files_are_put_under_their_titles() {
    let place = Place::new();
    let mut tree = place.tree(TreeOptions::default(), Limits::default(), Resolver::Kernel);
    tree.put_file("model.bin", &b"weights"[..]).unwrap();
    tree.put_file("docs/a/readme", &b"text"[..]).unwrap();
    for (title, reason) in [
        ("model.bin", Reason::MalformedLayer),
        ("", Reason::MalformedLayer),
        (".", Reason::MalformedLayer),
        ("docs", Reason::MalformedLayer),
        ("model.bin/x", Reason::MalformedLayer),
        ("../x", Reason::UnsafeLayer),
        ("a/../x", Reason::UnsafeLayer),
        ("/etc/passwd", Reason::UnsafeLayer),
        ("x/", Reason::UnsafeLayer),
    ] {
        assert_eq!(
            tree.put_file(title, &b"bad"[..]).unwrap_err().reason,
            reason,
            "{title:?}"
        );
    }
    let summary = tree.finish().unwrap();
    assert_eq!((summary.size, summary.files), (11, 2));
    place.check();
    let (found, _) = read_finished(&place.root());
    assert_eq!(
        found,
        nodes([
            ("model.bin", file("weights")),
            ("docs", Node::Dir),
            ("docs/a", Node::Dir),
            ("docs/a/readme", file("text")),
        ])
    );
}
