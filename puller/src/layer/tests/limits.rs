//! L27: bombs.

use super::{
    build::{BLOCK, Fields, gzip, header, zstd, zstd_window},
    *,
};

/// The text of a limit that is exceeded.
fn exceeded(limits: &Limits, layers: &[Vec<u8>]) -> String {
    let fault = unpack_with(layers, &TreeOptions::default(), limits).unwrap_err();
    assert_eq!(fault.reason, Reason::LimitExceeded, "{fault}");
    fault.to_string()
}

#[test]
fn l27_bytes_read_are_bounded_over_all_layers_written_or_not() {
    let limits = Limits {
        max_bytes: 1 << 20,
        ..Limits::default()
    };
    let half = Layer::new().file("a", vec![1; 600 << 10]).end();
    assert!(unpack_with(std::slice::from_ref(&half), &TreeOptions::default(), &limits).is_ok());
    let text = exceeded(&limits, &[half.clone(), half.clone()]);
    assert!(text.contains("limit of 1048576"), "{text}");
    // Data of an ignored entry, and what follows the archive's end.
    exceeded(
        &limits,
        &[gzip(&Layer::new().file(".wh..wh.x", vec![0; 2 << 20]).end())],
    );
    exceeded(&limits, &[gzip(&vec![0; 2 << 20])]);
    let options = TreeOptions {
        selection: Some("b".into()),
        ..TreeOptions::default()
    };
    let fault = unpack_with(&[half.clone(), half], &options, &limits).unwrap_err();
    assert_eq!(fault.reason, Reason::LimitExceeded);
}

#[test]
fn l27_holes_count_before_they_are_made() {
    let layer = Layer::new()
        .pax(&[
            ("GNU.sparse.size", b"9000000000000000000"),
            ("GNU.sparse.map", b"0,1"),
        ])
        .file("s", "a");
    let text = exceeded(&Limits::default(), &[layer.end()]);
    assert!(text.contains("9000000000000000000 bytes written"), "{text}");
}

#[test]
fn l27_entries_are_bounded() {
    let limits = Limits {
        max_entries: 10,
        ..Limits::default()
    };
    let layer = |kind| {
        (0..6)
            .fold(Layer::new(), |layer, i| layer.special(&format!("{i}"), kind))
            .end()
    };
    assert!(unpack_with(&[layer(b'3')], &TreeOptions::default(), &limits).is_ok());
    let text = exceeded(&limits, &[layer(b'3'), layer(b'0')]);
    assert!(
        text.contains("11 entries are more than the limit of 10"),
        "{text}"
    );
}

#[test]
fn l27_depth_and_path_are_bounded() {
    let limits = Limits {
        max_depth: 5,
        max_path: 20,
        ..Limits::default()
    };
    let unpack = |layer: Layer| unpack_with(&[layer.end()], &TreeOptions::default(), &limits);
    assert!(unpack(Layer::new().file("1/2/3/4/5/f", "")).is_ok());
    assert!(unpack(Layer::new().dir("1/2/3/4/5/6")).is_ok());
    exceeded(&limits, &[Layer::new().file("1/2/3/4/5/6/f", "").end()]);
    exceeded(&limits, &[Layer::new().file(&"n".repeat(21), "").end()]);
    // A link makes the tree deeper than any entry's name is.
    let through = Layer::new()
        .dir("1/2/3/4/5")
        .symlink("l", "1/2/3/4/5")
        .file("l/6/7/f", "");
    exceeded(&limits, &[through.end()]);
}

#[test]
fn ratios_are_bounded_beyond_a_floor() {
    let limits = Limits {
        ratio_floor: 1 << 20,
        ..Limits::default()
    };
    let zeros = |len: usize| Layer::new().file("z", vec![0; len]).end();
    for compress in [gzip, zstd] {
        let apply = |len: usize| {
            let place = Place::new();
            let mut tree = place.tree(TreeOptions::default(), limits.clone(), Resolver::Kernel);
            let inflate =
                Inflate::spawn(Cursor::new(compress(&zeros(len))), &limits, Arc::default()).unwrap();
            tree.apply(inflate, "layer", None)
        };
        apply(1_000_000).unwrap();
        let fault = apply(64 << 20).unwrap_err();
        assert_eq!(fault.reason, Reason::LimitExceeded);
        assert!(fault.happened.contains("limit of 200"), "{fault}");
    }
}

#[test]
fn headers_are_bounded() {
    // A name of 1 GiB: refused by its size, before it is read.
    for kind in [b'L', b'K', b'x'] {
        let fields = Fields {
            size: 1 << 30,
            ..Fields::new(b"long", kind)
        };
        let text = exceeded(&Limits::default(), &[header(&fields).to_vec()]);
        assert!(text.contains("headers that describe one entry"), "{text}");
    }
    // Many of them for one entry.
    let name = vec![b'n'; 100_000];
    let many = (0..20).fold(Layer::new(), |layer, _| layer.gnu_long(b'L', &name));
    exceeded(&Limits::default(), &[many.end()]);
    // A sparse map without end.
    let mut block = header(&Fields::new(b"s", b'S'));
    block[257..265].copy_from_slice(b"ustar  \0");
    block[482] = 1;
    build::checksum(&mut block);
    let mut more = [0; BLOCK];
    more[504] = 1;
    let endless = Layer::new().raw(&block).raw(&more.repeat(3000));
    exceeded(&Limits::default(), &[endless.end()]);
    let map = Layer::new()
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.realsize", b"1"),
        ])
        .file("s", b"1\n".repeat(700_000));
    let map = unpack_with(&[map.end()], &TreeOptions::default(), &Limits::default()).unwrap_err();
    assert!(matches!(
        map.reason,
        Reason::MalformedLayer | Reason::LimitExceeded
    ));
    let global = Layer::new().entry(
        &Fields {
            size: 3 << 20,
            ..Fields::new(b"g", b'g')
        },
        &vec![b'c'; 3 << 20],
    );
    assert_eq!(reason([global.file("a", "a")]), Reason::LimitExceeded);
}

/// Windows up to 128 MiB are used one at a time, larger ones not at all.
#[test]
fn zstd_windows_are_bounded() {
    let tar = Layer::new().file("a", vec![1; 100_000]).end();
    for log in [10, 23, 24, 27] {
        unpack_with(
            &[zstd_window(&tar, log)],
            &TreeOptions::default(),
            &Limits::default(),
        )
        .unwrap();
    }
    let text = exceeded(&Limits::default(), &[zstd_window(&tar, 28)]);
    assert!(
        text.contains("268435456 bytes of zstd window are more than the limit of 134217728"),
        "{text}"
    );
}

/// Layers that run ahead must not hold the only permit while an earlier one needs it.
#[test]
fn wide_windows_of_several_layers_do_not_block_each_other() {
    let layer = |i: usize| {
        zstd_window(
            &Layer::new().file(&format!("f{i}"), vec![i as u8; 3 << 20]).end(),
            25,
        )
    };
    let unpack_four = || {
        let place = Place::new();
        let mut tree = place.tree(TreeOptions::default(), Limits::default(), Resolver::Kernel);
        // All run ahead, and the last has had the most time to.
        let ahead: Vec<_> = (0..4).rev().map(|i| inflate(layer(i))).collect();
        for (i, layer) in ahead.into_iter().enumerate().rev() {
            tree.apply(layer, &format!("layer {i}"), None).unwrap();
        }
        tree.finish().unwrap().files
    };
    std::thread::scope(|scope| {
        let pulls = [(); 3].map(|()| scope.spawn(unpack_four));
        assert_eq!(pulls.map(|pull| pull.join().unwrap()), [4, 4, 4]);
    });
}
