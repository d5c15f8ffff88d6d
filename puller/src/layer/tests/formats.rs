//! Compressions, dialects of tar, and archives that end badly.

use super::{
    build::{BLOCK, Fields, checksum, gzip, header, zstd},
    *,
};
use crate::domain::Digest;

/// Unpacks one layer's compressed bytes.
fn bytes(layer: &[u8]) -> Result<Nodes, Fault> {
    unpack_with(&[layer.to_vec()], &TreeOptions::default(), &Limits::default()).map(|(nodes, _)| nodes)
}

fn sample() -> Vec<u8> {
    Layer::new().file("a", "a").file("b", vec![b'b'; 400_000]).end()
}

/// L26: what the bytes are, not what they are called.
#[test]
fn l26_compressions_are_told_by_their_first_bytes() {
    let plain = bytes(&sample()).unwrap();
    assert_eq!(plain["a"], file("a"));
    assert_eq!(bytes(&gzip(&sample())).unwrap(), plain);
    assert_eq!(bytes(&zstd(&sample())).unwrap(), plain);
}

/// L24: members and frames are joined, wherever they are cut; what follows the last is ignored.
#[test]
fn l24_many_members_and_trailing_bytes() {
    let tar = sample();
    for compress in [gzip, zstd] {
        let pieces: Vec<u8> = tar.chunks(1111).flat_map(compress).collect();
        let expected = bytes(&tar).unwrap();
        for trailer in [&b""[..], &[0; 700], b"garbage", b"\x1f", &vec![b'x'; 300_000]] {
            assert_eq!(bytes(&[&pieces[..], trailer].concat()).unwrap(), expected);
        }
        let empty_members = [compress(b""), pieces, compress(b"")].concat();
        assert_eq!(bytes(&empty_members).unwrap(), expected);
    }
}

/// RFC 8878, section 3.1.1: also where the last block is empty, which the library lets pass if a frame comes in pieces.
#[test]
fn zstd_frames_have_the_size_that_they_say() {
    const RAW_BLOCK: usize = 128 << 10;
    let tar = sample();
    let frame = |size: usize| {
        // One segment, with its size in four bytes.
        let mut frame = [
            &0xFD2F_B528_u32.to_le_bytes()[..],
            &[0xA0],
            &u32::try_from(size).unwrap().to_le_bytes(),
        ]
        .concat();
        for block in tar.chunks(RAW_BLOCK).chain([&[][..]]) {
            let is_last = block.is_empty();
            frame.extend(((block.len() as u32) << 3 | u32::from(is_last)).to_le_bytes()[..3].iter());
            frame.extend(block);
        }
        frame
    };
    assert_eq!(bytes(&frame(tar.len())).unwrap(), bytes(&tar).unwrap());
    for size in [tar.len() - 1, tar.len() + 1] {
        let fault = bytes(&frame(size)).unwrap_err();
        assert_eq!(fault.reason, Reason::MalformedLayer, "{fault}");
    }
}

#[test]
fn skippable_frames_are_skipped() {
    let skippable = |len: u32| {
        [
            &0x184D_2A53_u32.to_le_bytes()[..],
            &len.to_le_bytes(),
            &vec![9; len as usize],
        ]
        .concat()
    };
    let tar = sample();
    let (head, tail) = tar.split_at(1000);
    let layer = [
        skippable(0),
        zstd(head),
        skippable(100_000),
        zstd(tail),
        skippable(5),
    ]
    .concat();
    assert_eq!(bytes(&layer).unwrap(), bytes(&tar).unwrap());
    let cut = [zstd(&tar), skippable(100)].concat();
    assert_eq!(
        bytes(&cut[..cut.len() - 1]).unwrap_err().reason,
        Reason::MalformedLayer
    );
}

#[test]
fn damaged_and_cut_compressions_are_malformed() {
    for whole in [gzip(&sample()), zstd(&sample())] {
        for len in [5, 12, whole.len() / 2, whole.len() - 1] {
            let fault = bytes(&whole[..len]).unwrap_err();
            assert_eq!(fault.reason, Reason::MalformedLayer, "{len}: {fault}");
            assert!(fault.asked.contains("layer 0"), "{fault}");
        }
    }
    // A wrong checksum in a gzip trailer.
    let mut damaged = gzip(&sample());
    let at = damaged.len() - 6;
    damaged[at] ^= 1;
    assert_eq!(bytes(&damaged).unwrap_err().reason, Reason::MalformedLayer);
}

#[test]
fn empty_layers_are_fine() {
    for layer in [
        vec![],
        vec![0; 2 * BLOCK],
        gzip(b""),
        zstd(b""),
        gzip(&[0; 10_240]),
    ] {
        assert_eq!(bytes(&layer).unwrap(), nodes([]));
    }
}

/// L17: `missing-contents`.
#[test]
fn l17_archives_that_end_too_early_are_malformed() {
    let whole = Layer::new().file("a", vec![1; 600]).cut();
    for len in [1, 511, 513, 1000, BLOCK + 599] {
        assert_eq!(
            bytes(&whole[..len]).unwrap_err().reason,
            Reason::MalformedLayer,
            "{len}"
        );
    }
    // Neither the blocks of zeros nor the last padding must be there.
    for len in [BLOCK + 600, BLOCK + 900, whole.len()] {
        assert_eq!(bytes(&whole[..len]).unwrap().len(), 1, "{len}");
    }
    let dangling = Layer::new().gnu_long(b'L', b"name");
    assert_eq!(reason([dangling]), Reason::MalformedLayer);
}

#[test]
fn what_is_no_archive_is_malformed() {
    for text in [&b"<!DOCTYPE html>"[..], &[b'x'; 2000]] {
        assert_eq!(bytes(text).unwrap_err().reason, Reason::MalformedLayer);
    }
    let mut header = header(&Fields::new(b"a", b'0'));
    header[0] ^= 1;
    assert_eq!(bytes(&header).unwrap_err().reason, Reason::MalformedLayer);
    assert_eq!(reason([Layer::new().special("x", b'M')]), Reason::MalformedLayer);
}

/// Docker takes xz and bzip2, so people push them; whoever sees the message must know what is wrong.
#[test]
fn what_is_no_archive_is_told_as_what_it_is() {
    for (begins, words) in [
        (&b"\xfd7zXZ\0\0\x04"[..], "compressed with xz"),
        (b"BZh91AY&SY", "compressed with bzip2"),
        (b"\x04\x22\x4d\x18", "compressed with lz4"),
        (b"PK\x03\x04", "a zip archive"),
        (b"070701000003", "a cpio archive"),
        (b"070707000003", "a cpio archive"),
        (b"!<arch>\ndebian-binary", "an ar archive"),
        (b"hsqs", "a squashfs image"),
        (b"{\"errors\": []}", "JSON"),
        (b"<!DOCTYPE html>\x1b", "it begins \"<!DOCTYPE html>\\u{1b}"),
        (b"version https://git-lfs.github.com/spec/v1", "git-lfs"),
    ] {
        for len in [begins.len(), BLOCK, 10 * BLOCK] {
            let mut text = begins.to_vec();
            text.resize(len, b'.');
            for compressed in [text.clone(), gzip(&text), zstd(&text)] {
                let fault = bytes(&compressed).unwrap_err();
                assert_eq!(fault.reason, Reason::MalformedLayer);
                assert!(fault.happened.contains(words), "{fault}");
                assert!(fault.to_string().contains("gzip or zstd"), "{fault}");
            }
        }
    }
    for twice in [
        gzip(&gzip(&sample())),
        zstd(&gzip(&sample())),
        gzip(&zstd(&sample())),
    ] {
        let fault = bytes(&twice).unwrap_err();
        assert!(fault.happened.contains("once more than"), "{fault}");
    }
    // Names may begin like that, too.
    for name in ["BZh", "070701", "PK\x03\x04", "{"] {
        assert_eq!(unpack([Layer::new().file(name, "x")]).unwrap()[name], file("x"));
    }
}

#[test]
fn the_diff_id_covers_all_bytes() {
    let mut layer = sample();
    layer.extend_from_slice(b"after the end");
    let digest = Digest::sha256(&layer);
    let apply = |layer: Vec<u8>, diff_id: &Digest| {
        let place = Place::new();
        let mut tree = place.tree(TreeOptions::default(), Limits::default(), Resolver::Kernel);
        tree.apply(inflate(layer), "layer", Some(diff_id))
    };
    for compressed in [layer.clone(), gzip(&layer), zstd(&layer)] {
        apply(compressed, &digest).unwrap();
    }
    let sha512 = "sha512:".to_owned() + &"0".repeat(128);
    let sha512 = sha512.parse::<Digest>().unwrap().of_same_kind(&layer);
    apply(layer.clone(), &sha512).unwrap();
    layer.push(0);
    let fault = apply(gzip(&layer), &digest).unwrap_err();
    assert_eq!(fault.reason, Reason::DigestMismatch);
    assert!(fault.happened.contains(&digest.to_string()), "{fault}");
    assert!(
        fault.happened.contains(&Digest::sha256(&layer).to_string()),
        "{fault}"
    );
}

/// L15: names and targets beyond a header's 100 bytes, in each dialect.
#[test]
fn l15_long_names() {
    let long = format!("{}/{}/{}", "d".repeat(255), "e".repeat(255), "f".repeat(255));
    let target = "t".repeat(3000);
    let gnu = Layer::new()
        .gnu_long(b'L', long.as_bytes())
        .file("dddd", "x")
        .gnu_long(b'K', target.as_bytes())
        .gnu_long(b'L', b"link")
        .symlink("s", "tttt");
    let pax = Layer::new()
        .pax(&[("path", long.as_bytes())])
        .file("dddd", "x")
        .pax(&[("linkpath", target.as_bytes()), ("path", b"link")])
        .symlink("s", "tttt");
    // Non-standard version bytes do not matter.
    let mut odd = gnu.clone().cut();
    odd[257..265].copy_from_slice(b"ustar  \0");
    let block: &mut [u8; BLOCK] = odd.first_chunk_mut().unwrap();
    checksum(block);
    for layer in [gnu, pax, Layer::new().raw(&odd)] {
        let found = unpack([layer]).unwrap();
        assert_eq!(found.len(), 4);
        assert_eq!(found[&long], file("x"));
        assert_eq!(found["link"], link(&target));
    }
    let mut prefixed = header(&Fields {
        size: 1,
        ..Fields::new(b"name", b'0')
    });
    prefixed[345..348].copy_from_slice(b"a/b");
    checksum(&mut prefixed);
    let found = unpack([Layer::new().raw(&prefixed).raw(&[b'x'; BLOCK])]).unwrap();
    assert_eq!(found["a/b/name"], file("x"));
}

/// L15: a component may have 255 bytes, a path 4,095. What is longer can't be made, in the next attempt
/// as little as in this one.
#[test]
fn l15_a_name_too_long_for_the_file_system_is_malformed() {
    let long = |len: usize| {
        let name = format!("{}{}", "d/".repeat(100), "n".repeat(255));
        let rest = format!("/{}", "n".repeat(249));
        format!("{name}{}", rest.repeat(16))[..len].to_owned()
    };
    let pull = |len: usize| {
        let layer = Layer::new().pax(&[("path", long(len).as_bytes())]).file("n", "x");
        unpack_with(&[layer.end()], &TreeOptions::default(), &Limits::default())
    };
    // Below the root that this test reads it by.
    assert_eq!(pull(3900).unwrap().1.files, 1);
    assert_eq!(pull(4096).unwrap_err().reason, Reason::LimitExceeded);
    let name = "n".repeat(256);
    for layer in [
        Layer::new()
            .pax(&[("path", "n".repeat(300).as_bytes())])
            .file("n", "x"),
        Layer::new().pax(&[("path", "n".repeat(300).as_bytes())]).dir("n"),
        Layer::new()
            .file("f", "f")
            .pax(&[("path", name.as_bytes())])
            .hard_link("n", "f"),
        Layer::new()
            .pax(&[("linkpath", name.as_bytes())])
            .hard_link("n", "f"),
        Layer::new().gnu_long(b'L', name.as_bytes()).file("n", "x"),
        Layer::new()
            .gnu_long(b'L', name.as_bytes())
            .file("n", vec![0; 100_000]),
        Layer::new()
            .gnu_long(b'L', format!("{name}/x").as_bytes())
            .file("n", "x"),
        Layer::new().gnu_long(b'L', name.as_bytes()).symlink("n", "x"),
        Layer::new()
            .gnu_long(b'K', "t".repeat(5000).as_bytes())
            .symlink("n", "x"),
    ] {
        let (reason, text) = refusal([layer]);
        assert_eq!(reason, Reason::MalformedLayer, "{text}");
        assert!(text.len() < 700, "{text}");
    }
    // A whiteout of such a name hides nothing, and need not be made.
    let whiteout = format!("d/.wh.{name}");
    let hide = Layer::new().pax(&[("path", whiteout.as_bytes())]).file("n", "");
    let found = unpack([Layer::new().file("d/f", "f"), hide]).unwrap();
    assert_eq!(found, nodes([("d", Node::Dir), ("d/f", file("f"))]));
}

/// L14: a PAX size counts for the file only, whatever stands between.
#[test]
fn l14_pax_sizes_do_not_smuggle() {
    let smuggled = Layer::new().file("smuggled", "bad").end();
    let mut inner = smuggled.clone();
    inner.truncate(1024);
    // The header says 0, the records say 1,024: the inner archive is data.
    let layer = Layer::new()
        .pax(&[("size", b"1024")])
        .entry(&Fields::new(b"outer", b'0'), &inner)
        .file("after", "ok");
    let found = unpack([layer]).unwrap();
    assert_eq!(
        found,
        nodes([("outer", Node::File(inner.clone())), ("after", file("ok"))])
    );
    // The same behind an attribute with newlines in it, and before a long name.
    let layer = Layer::new()
        .pax(&[("SCHILY.xattr.user.x", b"\n\n"), ("size", b"1024")])
        .gnu_long(b'L', b"outer")
        .entry(&Fields::new(b"o", b'0'), &inner)
        .file("after", "ok");
    assert_eq!(unpack([layer]).unwrap(), found);
    // A size on what has no data is ignored, in header and records.
    let layer = Layer::new()
        .entry(
            &Fields {
                size: 1024,
                ..Fields::new(b"dir", b'5')
            },
            b"",
        )
        .pax(&[("size", b"1024")])
        .symlink("link", "x")
        .file("after", "ok");
    assert_eq!(unpack([layer]).unwrap().len(), 3);
}

#[test]
fn old_archives() {
    let mut v7 = header(&Fields {
        size: 1,
        ..Fields::new(b"d/f", 0)
    });
    v7[257..265].fill(0);
    checksum(&mut v7);
    let mut dir = header(&Fields::new(b"d/", 0));
    dir[257..265].fill(0);
    checksum(&mut dir);
    let layer = Layer::new()
        .raw(&dir)
        .raw(&v7)
        .raw(&[b'x'; BLOCK])
        .special("label", b'V')
        .special("cont", b'7');
    assert_eq!(
        unpack([layer]).unwrap(),
        nodes([("d", Node::Dir), ("d/f", file("x")), ("cont", file(""))])
    );
}

/// The three PAX formats and the old GNU one, of a file with 2 bytes at 1,000 and 3 at the end.
#[test]
fn sparse_files_are_expanded() {
    let mut content = vec![0; 3003];
    content[1000..1002].copy_from_slice(b"ab");
    content[3000..].copy_from_slice(b"cde");
    let expected = nodes([("s", Node::File(content)), ("after", file("ok"))]);
    let v00 = Layer::new()
        .pax(&[
            ("GNU.sparse.size", b"3003"),
            ("GNU.sparse.numblocks", b"2"),
            ("GNU.sparse.offset", b"1000"),
            ("GNU.sparse.numbytes", b"2"),
            ("GNU.sparse.offset", b"3000"),
            ("GNU.sparse.numbytes", b"3"),
        ])
        .file("s", "abcde");
    let v01 = Layer::new()
        .pax(&[
            ("GNU.sparse.size", b"3003"),
            ("GNU.sparse.name", b"s"),
            ("GNU.sparse.map", b"1000,2,3000,3"),
        ])
        .file("GNUSparseFile.0/s", "abcde");
    let mut map = b"2\n1000\n2\n3000\n3\n".to_vec();
    map.resize(BLOCK, 0);
    let v10 = Layer::new()
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.realsize", b"3003"),
            ("GNU.sparse.name", b"s"),
        ])
        .file("GNUSparseFile.0/s", [&map[..], b"abcde"].concat());
    let old = |extended: bool| {
        let mut block = header(&Fields {
            size: 5,
            ..Fields::new(b"s", b'S')
        });
        block[257..265].copy_from_slice(b"ustar  \0");
        let extents = *b"00000001750\x0000000000002\x0000000005670\x0000000000003\0";
        if extended {
            block[386..410].copy_from_slice(&extents[..24]);
            block[482] = 1;
        } else {
            block[386..434].copy_from_slice(&extents);
        }
        block[483..495].copy_from_slice(b"00000005673\0");
        checksum(&mut block);
        let mut layer = Layer::new().raw(&block);
        if extended {
            let mut more = [0; BLOCK];
            more[..24].copy_from_slice(&extents[24..]);
            layer = layer.raw(&more);
        }
        let mut data = b"abcde".to_vec();
        data.resize(BLOCK, 0);
        layer.raw(&data)
    };
    for layer in [v00, v01, v10, old(false), old(true)] {
        assert_eq!(unpack([layer.file("after", "ok")]).unwrap(), expected);
    }
}

#[test]
fn sparse_files_that_do_not_add_up_are_malformed() {
    let with_map = |size: &[u8], map: &[u8], data: &str| {
        Layer::new()
            .pax(&[("GNU.sparse.size", size), ("GNU.sparse.map", map)])
            .file("s", data)
    };
    for layer in [
        with_map(b"10", b"0,2,1,3", "abcde"),
        with_map(b"10", b"8,5", "abcde"),
        with_map(b"10", b"0,4", "abcde"),
        with_map(b"10", b"0,6", "abcde"),
        with_map(b"10", b"0,5,7", "abcde"),
        with_map(b"x", b"0,5", "abcde"),
        with_map(b"18446744073709551615", b"18446744073709551615,5", "abcde"),
        Layer::new().pax(&[("GNU.sparse.map", b"0,5")]).file("s", "abcde"),
        Layer::new()
            .pax(&[("GNU.sparse.major", b"2"), ("GNU.sparse.size", b"5")])
            .file("s", "abcde"),
        Layer::new()
            .pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"5")])
            .file("s", "abcde"),
        Layer::new()
            .pax(&[("GNU.sparse.numbytes", b"5"), ("GNU.sparse.size", b"5")])
            .file("s", "abcde"),
    ] {
        assert_eq!(reason([layer]), Reason::MalformedLayer);
    }
}

#[test]
fn a_fault_of_the_source_comes_through() {
    struct Broken(Cursor<Vec<u8>>);
    impl std::io::Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(std::io::Error::other(Fault::new(
                    Reason::Timeout,
                    "GET blob",
                    "nothing moved",
                    "",
                ))),
                n => Ok(n),
            }
        }
    }
    for layer in [
        sample(),
        gzip(&sample()),
        gzip(&sample())[..500].to_vec(),
        zstd(&sample()),
        vec![],
    ] {
        let place = Place::new();
        let mut tree = place.tree(TreeOptions::default(), Limits::default(), Resolver::Kernel);
        let source = Broken(Cursor::new(layer));
        let inflate = Inflate::spawn(source, &Limits::default(), Arc::default()).unwrap();
        let fault = tree.apply(inflate, "layer", None).unwrap_err();
        assert_eq!(
            (fault.reason, fault.asked.as_str()),
            (Reason::Timeout, "GET blob")
        );
    }
}
