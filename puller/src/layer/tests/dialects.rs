//! What writers of archives differ in: extension headers, sizes where there is no data, ends.

use super::{
    build::{BLOCK, Fields, checksum, gzip, header, zstd},
    *,
};

/// An archive is over at two blocks of zeros, or at its last byte. archive/tar refuses what follows one
/// block alone, others end there: nobody must be able to hide entries behind it.
#[test]
fn l24_a_lone_block_of_zeros_hides_nothing() {
    let zeros = [0; BLOCK];
    let entry = Layer::new().file("f", "f");
    let alone = entry.clone().raw(&zeros).file("evil", "e");
    assert_eq!(reason([alone]), Reason::MalformedLayer);
    let garbage = entry.clone().raw(&zeros).raw(b"garbage");
    assert_eq!(reason([garbage]), Reason::MalformedLayer);
    for end in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 20 * BLOCK] {
        let layer = entry.clone().raw(&vec![0; end]).cut();
        for layer in [gzip(&layer), zstd(&layer), layer] {
            let found = unpack_with(&[layer], &TreeOptions::default(), &Limits::default());
            match found {
                // A part of a block is no end.
                Err(fault) if matches!(end, 1 | 511) => assert_eq!(fault.reason, Reason::MalformedLayer),
                found => assert_eq!(found.unwrap().0, nodes([("f", file("f"))]), "{end}"),
            }
        }
    }
    let two = entry.raw(&zeros).raw(&zeros).file("evil", "e");
    assert_eq!(unpack([two]).unwrap(), nodes([("f", file("f"))]));
}

/// L14's kind. POSIX says that global records hold for all files that follow, and GNU tar and Python
/// apply them; archive/tar, and with it containerd, docker and podman, does not.
#[test]
fn l14_global_records_may_not_change_entries() {
    for (key, value) in [
        ("path", &b"evil"[..]),
        ("linkpath", b"evil"),
        ("size", b"9"),
        ("GNU.sparse.name", b"evil"),
        ("GNU.sparse.map", b"0,1"),
    ] {
        let layer = Layer::new().global_pax(&[(key, value)]).file("good", "g");
        let (reason, text) = refusal([layer]);
        assert_eq!(reason, Reason::MalformedLayer, "{key}");
        assert!(text.contains("global header"), "{text}");
    }
    // git archive writes the commit as a comment.
    let layer = Layer::new()
        .global_pax(&[
            ("comment", b"c0ffee"),
            ("mtime", b"1.5"),
            ("uid", b"7"),
            ("path", b""),
        ])
        .file("good", "g")
        .global_pax(&[("comment", b"c0ffee")])
        .file("too", "t");
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("good", file("g")), ("too", file("t"))])
    );
}

/// L14's kind. archive/tar forgets a description that a global header follows, GNU tar keeps it.
#[test]
fn l14_a_global_header_does_not_part_an_entry_from_its_description() {
    for described in [
        Layer::new().pax(&[("path", b"evil")]),
        Layer::new().gnu_long(b'L', b"evil"),
    ] {
        let layer = described.global_pax(&[("comment", b"c")]).file("good", "g");
        assert_eq!(reason([layer]), Reason::MalformedLayer);
    }
}

/// Of two headers that describe one entry in the same way, the second holds alone, as for archive/tar.
#[test]
fn l14_the_last_of_several_descriptions_holds() {
    let twice = Layer::new()
        .pax(&[("path", b"evil"), ("size", b"512")])
        .pax(&[("path", b"good")])
        .file("x", "g");
    let long = Layer::new()
        .gnu_long(b'L', b"evil")
        .gnu_long(b'L', b"good")
        .file("x", "g");
    // A long name wins over a record, wherever it stands.
    let before = Layer::new()
        .gnu_long(b'L', b"good")
        .pax(&[("path", b"evil")])
        .file("x", "g");
    let after = Layer::new()
        .pax(&[("path", b"evil")])
        .gnu_long(b'L', b"good")
        .file("x", "g");
    for layer in [twice, long, before, after] {
        assert_eq!(unpack([layer]).unwrap(), nodes([("good", file("g"))]));
    }
}

/// An empty value takes a record back, and what the header says holds.
#[test]
fn l14_empty_records_change_nothing() {
    let layer = Layer::new()
        .pax(&[("path", b"evil"), ("size", b"9"), ("path", b""), ("size", b"")])
        .file("good", "g")
        .pax(&[("linkpath", b"")])
        .symlink("link", "good")
        .gnu_long(b'L', b"")
        .file("too", "t");
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("good", file("g")), ("link", link("good")), ("too", file("t"))])
    );
}

/// L17: records are UTF-8 unless they say BINARY. Names are bytes either way.
#[test]
fn l17_records_may_hold_any_bytes() {
    for charset in [&b"BINARY"[..], b"ISO-IR 10646 2000 UTF-8", b""] {
        let layer = Layer::new()
            .pax(&[
                ("hdrcharset", charset),
                ("path", b"\xff\xfe"),
                ("linkpath", b"\xfd"),
            ])
            .symlink("x", "y");
        assert_eq!(unpack([layer]).unwrap(), nodes([("\\xff\\xfe", link("\\xfd"))]));
    }
}

/// L14: what has no data is followed by the next header, whatever sizes say.
#[test]
fn l14_a_size_of_what_has_no_data_is_not_skipped() {
    for kind in [b'1', b'2', b'3', b'4', b'5', b'6'] {
        let fields = Fields {
            size: 1024,
            link: b"f",
            ..Fields::new(b"x", kind)
        };
        let layer = Layer::new()
            .file("f", "f")
            .entry(&fields, b"")
            .pax(&[("size", b"1024")])
            .entry(&fields, b"")
            .file("after", "ok");
        assert_eq!(unpack([layer]).unwrap()["after"], file("ok"), "{}", kind as char);
    }
}

/// Nobody's runtime reads Solaris's headers: archive/tar gives them as files of a type that it does not
/// know, which containerd, docker and podman refuse.
#[test]
fn headers_of_solaris_are_refused() {
    let records = build::record("path", b"evil");
    let layer = Layer::new().entry(
        &Fields {
            size: records.len() as u64,
            ..Fields::new(b"x", b'X')
        },
        &records,
    );
    let (reason, text) = refusal([layer.file("good", "g")]);
    assert_eq!(reason, Reason::MalformedLayer);
    assert!(text.contains("unknown type \"X\""), "{text}");
}

#[test]
fn contiguous_files_are_files() {
    let fields = Fields {
        size: 3,
        ..Fields::new(b"c", b'7')
    };
    let layer = Layer::new().entry(&fields, b"abc").file("after", "ok");
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("c", file("abc")), ("after", file("ok"))])
    );
}

/// The old GNU format: four pieces in the header, 21 in each block after it.
#[test]
fn old_sparse_maps_go_on_for_many_blocks() {
    const PIECES: usize = 4 + 3 * 21 + 1;
    let octal = |number: usize| format!("{number:011o}\0").into_bytes();
    let pieces: Vec<Vec<u8>> = (0..PIECES)
        .map(|i| [octal(i * 1000), octal(i % 9)].concat())
        .collect();
    let size = PIECES * 1000;
    let (mut data, mut content) = (Vec::new(), vec![0; size]);
    for i in 0..PIECES {
        let piece = vec![i as u8; i % 9];
        content[i * 1000..][..piece.len()].copy_from_slice(&piece);
        data.extend(piece);
    }
    // Writers set the flag to 1, but any other than 0 will do.
    for flag in [1, b'1'] {
        let mut block = header(&Fields {
            size: data.len() as u64,
            ..Fields::new(b"s", b'S')
        });
        block[257..265].copy_from_slice(b"ustar  \0");
        block[345..].fill(0);
        block[386..482].copy_from_slice(&pieces[..4].concat());
        block[482] = flag;
        block[483..495].copy_from_slice(&octal(size));
        checksum(&mut block);
        let mut layer = Layer::new().raw(&block);
        for (i, chunk) in pieces[4..].chunks(21).enumerate() {
            let mut more = [0; BLOCK];
            let map = chunk.concat();
            more[..map.len()].copy_from_slice(&map);
            more[504] = if i < 3 { flag } else { 0 };
            layer = layer.raw(&more);
        }
        let mut padded = data.clone();
        padded.resize(data.len().next_multiple_of(BLOCK), 0);
        let layer = layer.raw(&padded).file("after", "ok");
        assert_eq!(
            unpack([layer]).unwrap(),
            nodes([("s", Node::File(content.clone())), ("after", file("ok"))])
        );
    }
}
