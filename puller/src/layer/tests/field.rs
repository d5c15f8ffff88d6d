//! What archives of the field hold beside plain entries: odd numbers, types and links, and what is skipped.

use super::{
    build::{BLOCK, Fields, checksum, gzip, header, zstd},
    *,
};

/// A header with some of its bytes replaced.
fn patched(fields: &Fields<'_>, patches: &[(usize, &[u8])]) -> [u8; BLOCK] {
    let mut block = header(fields);
    for (at, bytes) in patches {
        block[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    checksum(&mut block);
    block
}

const UID: usize = 108;
const GID: usize = 116;
const SIZE: usize = 124;
const MTIME: usize = 136;
const CHECKSUM: usize = 148;
const MAJOR: usize = 329;
const MINOR: usize = 337;

#[test]
fn l19_special_files_are_skipped_and_counted() {
    for kind in [b'3', b'4', b'6'] {
        let lower = Layer::new().file("d/x", "old").file("d/y", "y");
        let upper = || Layer::new().special("d/x", kind).special("new/dev", kind);
        let found = unpack([lower.clone(), upper()]).unwrap();
        assert_eq!(found, nodes([("d", Node::Dir), ("d/y", file("y"))]));
        assert_eq!(summary([lower, upper()]).skipped.special_files, 2);
    }
}

/// Nothing is made of a special file, so there is nothing that another name of it could be.
#[test]
fn l19_hard_links_to_what_was_left_out_are_left_out() {
    for kind in [b'3', b'4', b'6'] {
        let special = || Layer::new().special("dev/a", kind);
        let links = |layer: Layer| {
            layer
                .hard_link("dev/b", "./dev/a")
                .file("x", "old")
                .hard_link("x", "/dev/b")
                .file("y", "y")
        };
        for layers in [
            [Layer::new(), links(special())],
            [special(), links(Layer::new())],
            [Layer::new().file("dev/b/c", "old"), links(special())],
        ] {
            let found = unpack(layers.clone()).unwrap();
            assert!(found.keys().all(|path| path == "dev" || path == "y"), "{found:?}");
            assert_eq!(summary(layers).skipped.special_files, 3);
        }
        // What takes its place is linked.
        let layer = special().file("dev/a", "a").hard_link("b", "dev/a");
        assert_eq!(unpack([layer]).unwrap()["b"], file("a"));
        let layer = special().hard_link("b", "dev/c");
        assert_eq!(reason([layer]), Reason::MalformedLayer);
        let options = TreeOptions {
            selection: Some("s".into()),
            ..TreeOptions::default()
        };
        let layer = special().file("s/x", "x").hard_link("s/dev", "dev/a").end();
        let (found, _) = unpack_with(&[layer], &options, &Limits::default()).unwrap();
        assert_eq!(found, nodes([("s", Node::Dir), ("s/x", file("x"))]));
    }
}

/// Who makes devices must refuse numbers that would wrap. No device is made here, so none can be a wrong
/// one: it is skipped and counted, whatever its numbers. archive/tar refuses those that are none.
#[test]
fn l19_device_numbers_do_not_matter() {
    for number in [
        &b"\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        b"\x80\0\0\xff\xff\xff\xff\xff",
        b"77777777",
        b"garbage!",
    ] {
        for kind in [b'3', b'4'] {
            let block = patched(&Fields::new(b"dev", kind), &[(MAJOR, number), (MINOR, number)]);
            let layer = Layer::new().raw(&block).file("f", "f");
            assert_eq!(summary([layer.clone()]).skipped.special_files, 1, "{number:?}");
            assert_eq!(unpack([layer]).unwrap(), nodes([("f", file("f"))]));
        }
    }
}

#[test]
fn l18_attributes_are_dropped_and_counted() {
    let layer = Layer::new()
        .pax(&[
            ("SCHILY.xattr.security.capability", b"\x01\0\0\x02\n"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
            ("LIBARCHIVE.xattr.user.a", b"YQ=="),
        ])
        .file("f", "f")
        .pax(&[("SCHILY.xattr.user.x", b"1")])
        .symlink("l", "f")
        .pax(&[("SCHILY.xattr.system.nfs4_acl", b"\0")])
        .dir("d");
    assert_eq!(summary([layer.clone()]).skipped.xattrs, 5);
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("d", Node::Dir), ("f", file("f")), ("l", link("f"))])
    );
}

#[test]
fn l20_owners_out_of_range_are_counted_not_fatal() {
    let base256 = b"\x80\0\0\0\xff\xff\xff\xff";
    let negative = [0xff_u8; 8];
    for field in [&base256[..], &negative, b"0620311\0", b"garbage!"] {
        for at in [UID, GID] {
            let layer = Layer::new().raw(&patched(&Fields::new(b"f", b'0'), &[(at, field)]));
            assert_eq!(summary([layer]).skipped.owners, 1, "{field:?}");
        }
    }
    for (value, owners) in [
        (&b"205001"[..], 1),
        (b"-1", 1),
        (b"99999999999999999999", 1),
        (b"0", 0),
    ] {
        for key in ["uid", "gid"] {
            let layer = Layer::new().pax(&[(key, value)]).file("f", "");
            assert_eq!(summary([layer]).skipped.owners, owners, "{value:?}");
        }
    }
}

#[test]
fn l21_setuid_setgid_and_sticky_bits_are_counted() {
    for mode in [0o4755, 0o2755, 0o1777, 0o7000] {
        let layer = Layer::new()
            .file_mode("f", mode)
            .dir_mode("d", mode)
            .file("d/x", "x");
        assert_eq!(summary([layer]).skipped.mode_bits, 2, "{mode:o}");
    }
}

#[test]
fn l21_a_closed_directory_takes_children_of_later_layers() {
    for mode in [0o000, 0o111, 0o555] {
        let lower = Layer::new().dir_mode("d", mode).dir_mode("d/e", mode);
        let found = unpack([lower, Layer::new().file("d/e/x", "x")]).unwrap();
        assert_eq!(found["d/e/x"], file("x"));
    }
}

/// No time is taken over, so none can be wrong.
#[test]
fn times_out_of_range_are_no_reason_to_refuse() {
    for time in [
        &[0xff_u8; 12][..],
        b"\x80\0\0\0\0\x07\x16\xc2\xa5\x4d\xc8\x80",
        b"-1234567890\0",
    ] {
        let layer = Layer::new().raw(&patched(&Fields::new(b"f", b'0'), &[(MTIME, time)]));
        assert_eq!(unpack([layer]).unwrap(), nodes([("f", file(""))]));
    }
    for time in [
        &b"-62135596800.5"[..],
        b"1700000000.123456789",
        b"31556889864403199",
        b"",
    ] {
        let layer = Layer::new()
            .pax(&[("mtime", time), ("atime", time)])
            .file("f", "");
        assert_eq!(unpack([layer]).unwrap(), nodes([("f", file(""))]));
    }
}

/// L14's kind: a size that readers read in different ways hides or shows entries.
#[test]
fn l14_sizes_are_read_as_others_read_them() {
    for size in [
        &b"00000000003\0"[..],
        b"          3\0",
        b"3          \0",
        b"\x000000000003\0",
        b"000000000003",
        b"\x80\0\0\0\0\0\0\0\0\0\0\x03",
    ] {
        let block = patched(&Fields::new(b"f", b'0'), &[(SIZE, size)]);
        let mut data = b"abc".to_vec();
        data.resize(BLOCK, 0);
        let layer = Layer::new().raw(&block).raw(&data).file("after", "ok");
        let expected = nodes([("f", file("abc")), ("after", file("ok"))]);
        assert_eq!(unpack([layer]).unwrap(), expected, "{size:?}");
    }
    for size in [&[0xff_u8; 12][..], b"00000000009\0", b"-0000000003\0"] {
        let layer = Layer::new().raw(&patched(&Fields::new(b"f", b'0'), &[(SIZE, size)]));
        assert_eq!(reason([layer]), Reason::MalformedLayer, "{size:?}");
    }
}

#[test]
fn checksums_of_signed_bytes_hold_too() {
    let mut block = header(&Fields::new(b"\xc3\xa4", b'0'));
    block[CHECKSUM..CHECKSUM + 8].fill(b' ');
    let signed: i32 = block.iter().map(|byte| i32::from(byte.cast_signed())).sum();
    block[CHECKSUM..CHECKSUM + 8].copy_from_slice(format!("{signed:06o}\0 ").as_bytes());
    assert_eq!(
        unpack([Layer::new().raw(&block)]).unwrap(),
        nodes([("ä", file(""))])
    );
}

#[test]
fn types_that_are_rare() {
    // An incremental archive's directory: the list of names is its data.
    let dump = Fields {
        size: 9,
        ..Fields::new(b"d", b'D')
    };
    let layer = Layer::new().entry(&dump, b"Yx\0Nyyy\0\0").file("d/x", "x");
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("d", Node::Dir), ("d/x", file("x"))])
    );
    for kind in [b'M', b'N', b'8', b'Z', b'\xff'] {
        let (reason, text) = refusal([Layer::new().special("odd", kind)]);
        assert_eq!(reason, Reason::MalformedLayer);
        assert!(text.contains("unknown type"), "{text}");
    }
    // A slash makes a directory of an old file only, not of a ustar one.
    let layer = Layer::new().file("f/", "f").special("o/", 0);
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("f", file("f")), ("o", Node::Dir)])
    );
}

#[test]
fn entries_for_the_root_make_nothing() {
    for name in ["./", "/", ".", "//./"] {
        let layer = Layer::new().dir_mode(name, 0o000).file("f", "f");
        assert_eq!(unpack([layer]).unwrap(), nodes([("f", file("f"))]));
        assert_eq!(reason([Layer::new().file(name, "f")]), Reason::MalformedLayer);
        assert_eq!(reason([Layer::new().symlink(name, "x")]), Reason::MalformedLayer);
    }
}

#[test]
fn hard_links_that_lead_nowhere_are_malformed() {
    for layer in [
        Layer::new().hard_link("h", "later").file("later", "x"),
        Layer::new().hard_link("h", "h"),
        Layer::new().dir("d").hard_link("h", "d"),
        Layer::new().file("f", "f").hard_link("h", ""),
        Layer::new().file("f", "f").hard_link("h", "."),
    ] {
        let (reason, text) = refusal([layer]);
        assert_eq!(reason, Reason::MalformedLayer, "{text}");
        assert!(text.contains("hard link"), "{text}");
    }
}

#[test]
fn l08_a_hard_link_to_a_link_is_that_link() {
    let layer = Layer::new().symlink("s", "/etc/passwd").hard_link("h", "s");
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("s", link("/etc/passwd")), ("h", link("/etc/passwd"))])
    );
}

/// The archive is over at its zeros: what follows makes nothing, in any compression.
#[test]
fn l24_nothing_is_made_of_what_follows_the_end() {
    let end = Layer::new().file("f", "f").end();
    let smuggled = Layer::new().file("evil", "e").end();
    for trailer in [&smuggled[..], b"garbage", &[0; 100_000]] {
        let tar = [&end[..], trailer].concat();
        for layer in [tar.clone(), gzip(&tar), zstd(&tar)] {
            let found = unpack_with(&[layer], &TreeOptions::default(), &Limits::default());
            assert_eq!(found.unwrap().0, nodes([("f", file("f"))]));
        }
    }
}

#[test]
fn l09_opaque_anywhere_hides_lower_layers_only() {
    let lower = Layer::new()
        .file("d/old", "o")
        .file("d/sub/old", "o")
        .file("d/both", "1");
    let opaque = |layer: Layer| layer.file("d/.wh..wh..opq", "");
    let new = |layer: Layer| layer.file("d/both", "2").file("d/sub/new", "n");
    for upper in [
        opaque(new(Layer::new())),
        new(opaque(Layer::new())),
        opaque(Layer::new().file("d/both", "2")).file("d/sub/new", "n"),
        opaque(new(opaque(Layer::new().dir("d")))),
        new(opaque(Layer::new())).dir("d").dir("d/sub"),
    ] {
        assert_eq!(
            unpack([lower.clone(), upper]).unwrap(),
            nodes([
                ("d", Node::Dir),
                ("d/both", file("2")),
                ("d/sub", Node::Dir),
                ("d/sub/new", file("n"))
            ])
        );
    }
}
