//! Archives made to do harm: whatever they hold, nothing beside the root is touched, both resolvers give
//! the same answer, and nothing panics.

use proptest::prelude::*;

use super::{
    build::{Fields, gzip, zstd},
    *,
};

fn hostile_name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "l",
        "..",
        ".",
        "",
        ".wh.a",
        ".wh.l",
        ".wh..wh..opq",
        ".wh...",
        "canary",
        "root",
        "file",
    ]);
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn hostile_entry() -> impl Strategy<Value = (u8, String, String)> {
    let kind = prop::sample::select(&b"000122255567xLKgS3VZ"[..]);
    (kind, hostile_name(), hostile_name())
}

fn hostile_layer() -> impl Strategy<Value = Layer> {
    prop::collection::vec(hostile_entry(), 0..12).prop_map(|entries| {
        entries
            .into_iter()
            .fold(Layer::new(), |layer, (kind, name, link)| {
                let fields = Fields {
                    link: link.as_bytes(),
                    ..Fields::new(name.as_bytes(), kind)
                };
                match kind {
                    b'0' | b'7' => layer.entry(&Fields { size: 5, ..fields }, b"owned"),
                    b'L' | b'K' => layer.gnu_long(kind, link.as_bytes()),
                    b'x' => layer.pax(&[("path", link.as_bytes()), ("linkpath", name.as_bytes())]),
                    _ => layer.entry(&fields, b""),
                }
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_beside_the_root_is_touched(layers in prop::collection::vec(hostile_layer(), 1..4)) {
        let layers: Vec<_> = layers.into_iter().map(Layer::end).collect();
        // The canary and the agreement of the resolvers are checked within.
        let _ = unpack_with(&layers, &TreeOptions::default(), &Limits::default());
        let options = TreeOptions { selection: Some("a/l".into()), refuse_escaping_links: true };
        let _ = unpack_with(&layers, &options, &Limits::default());
    }

    #[test]
    fn damaged_archives_never_panic(
        layer in hostile_layer(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        form in 0..3,
    ) {
        let mut layer = layer.file("a/file", "content").end();
        if form == 0 {
            // A damaged header is found by its checksum, so damage goes deeper where the sum is right again.
            for (index, byte) in &damage {
                let at = index.index(layer.len());
                layer[at] = *byte;
            }
            for block in layer.as_chunks_mut().0 {
                if block[257..262] == *b"ustar" {
                    build::checksum(block);
                }
            }
        } else {
            layer = if form == 1 { gzip(&layer) } else { zstd(&layer) };
            for (index, byte) in &damage {
                let at = index.index(layer.len());
                layer[at] = *byte;
            }
        }
        let limits = Limits { max_bytes: 16 << 20, ..Limits::default() };
        let _ = unpack_with(&[layer], &TreeOptions::default(), &limits);
    }
}
