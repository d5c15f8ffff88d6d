//! Names in an archive, and what of them is selected.

use crate::error::Fault;

use super::{
    Limits,
    fault::{self, quoted},
};

/// What stands before the name of what a layer hides: image-spec, "Whiteouts".
const WHITEOUT: &[u8] = b".wh.";

/// Metadata of AUFS, but for the next.
const AUFS: &[u8] = b".wh..wh.";

/// The directory's content in lower layers is hidden.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// An entry's path: relative, without `.`, `..`, doubled or trailing slashes. Empty: the root itself.
pub(super) fn clean(layer: &str, name: &[u8], limits: &Limits) -> Result<Vec<u8>, Fault> {
    if name.is_empty() {
        return Err(fault::malformed(layer, "an entry has no name"));
    }
    if name.contains(&0) {
        return Err(fault::malformed(
            layer,
            format!("the name {} holds a NUL", quoted(name)),
        ));
    }
    let mut path = Vec::with_capacity(name.len());
    let mut depth = 0;
    for part in parts(name) {
        if part == b".." {
            return Err(fault::hostile(
                layer,
                format!("the name {} holds \"..\"", quoted(name)),
            ));
        }
        if !path.is_empty() {
            path.push(b'/');
            depth += 1;
        }
        path.extend_from_slice(part);
    }
    limits.check_path(layer, path.len())?;
    limits.check_depth(layer, depth)?;
    Ok(path)
}

/// The components but `.`.
pub(super) fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
}

/// A clean path's parent (empty: the root) and last component.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// Whether a clean path is `ancestor` or below it.
pub(super) fn is_within(path: &[u8], ancestor: &[u8]) -> bool {
    match path.strip_prefix(ancestor) {
        Some(rest) => ancestor.is_empty() || rest.is_empty() || rest[0] == b'/',
        None => false,
    }
}

/// What a clean path's name means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// Itself.
    Plain,
    /// What is called so in its directory is hidden.
    Whiteout(&'a [u8]),
    /// All that lower layers have in its directory is hidden.
    Opaque,
    /// Nothing.
    Ignored,
}

/// Tells whiteouts. See image-spec, "Layer", section "Whiteouts".
pub(super) fn meaning<'a>(layer: &str, path: &'a [u8]) -> Result<Meaning<'a>, Fault> {
    let (parent, name) = split(path);
    if name == OPAQUE {
        return Ok(Meaning::Opaque);
    }
    if parts(path).any(|part| part.starts_with(AUFS)) {
        return Ok(Meaning::Ignored);
    }
    if parts(parent).any(|part| part.starts_with(WHITEOUT)) {
        return Err(fault::malformed(
            layer,
            format!("{} is below a whiteout", quoted(path)),
        ));
    }
    match name.strip_prefix(WHITEOUT) {
        None => Ok(Meaning::Plain),
        Some(b"..") => Err(fault::hostile(
            layer,
            format!("the whiteout {} leaves its directory", quoted(path)),
        )),
        Some(b"" | b".") => Err(fault::malformed(
            layer,
            format!("the whiteout {} hides nothing", quoted(path)),
        )),
        Some(hidden) => Ok(Meaning::Whiteout(hidden)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Reason;

    fn cleaned(name: &[u8]) -> Result<Vec<u8>, Reason> {
        clean("layer", name, &Limits::default()).map_err(|fault| fault.reason)
    }

    #[test]
    fn names_are_bytes_relative_to_the_root() {
        for (name, path) in [
            (&b"a"[..], &b"a"[..]),
            (b"./a/b/", b"a/b"),
            (b"///a//./b", b"a/b"),
            (b"./", b""),
            (b"/", b""),
            (b"a\\b\xff\n", b"a\\b\xff\n"),
            (b"..a/b..", b"..a/b.."),
        ] {
            assert_eq!(cleaned(name).as_deref(), Ok(path), "{name:?}");
        }
        for (name, reason) in [
            (&b""[..], Reason::MalformedLayer),
            (b"a\0b", Reason::MalformedLayer),
            (b"..", Reason::UnsafeLayer),
            (b"a/../b", Reason::UnsafeLayer),
            (b"/../b", Reason::UnsafeLayer),
            (&[b'a'; 4096], Reason::LimitExceeded),
            (&b"a/".repeat(130), Reason::LimitExceeded),
        ] {
            assert_eq!(cleaned(name), Err(reason), "{name:?}");
        }
    }

    #[test]
    fn whiteouts_are_told_by_name() {
        let of = |path: &'static str| meaning("layer", path.as_bytes()).map_err(|fault| fault.reason);
        assert_eq!(of("a/b"), Ok(Meaning::Plain));
        assert_eq!(of("a/.wh"), Ok(Meaning::Plain));
        assert_eq!(of("a/.wh.b"), Ok(Meaning::Whiteout(b"b")));
        assert_eq!(of(".wh...b"), Ok(Meaning::Whiteout(b"..b")));
        assert_eq!(of("a/.wh..wh..opq"), Ok(Meaning::Opaque));
        assert_eq!(of(".wh..wh.plnk"), Ok(Meaning::Ignored));
        assert_eq!(of(".wh..wh.plnk/1.2"), Ok(Meaning::Ignored));
        assert_eq!(of("a/.wh...").map(|_| ()), Err(Reason::UnsafeLayer));
        assert_eq!(of("a/.wh.").map(|_| ()), Err(Reason::MalformedLayer));
        assert_eq!(of("a/.wh..").map(|_| ()), Err(Reason::MalformedLayer));
        assert_eq!(of(".wh.a/b").map(|_| ()), Err(Reason::MalformedLayer));
    }

    #[test]
    fn within_goes_by_components() {
        assert!(is_within(b"a/b", b"a"));
        assert!(is_within(b"a", b"a"));
        assert!(is_within(b"a", b""));
        assert!(!is_within(b"ab", b"a"));
        assert!(!is_within(b"a", b"a/b"));
    }

    proptest! {
        #[test]
        fn a_clean_path_stays_clean(name in prop::collection::vec(prop::sample::select(&b"ab./\0"[..]), 0..20)) {
            if let Ok(path) = cleaned(&name) {
                prop_assert!(path.is_empty() || cleaned(&path).as_deref() == Ok(&path[..]));
                prop_assert!(!path.starts_with(b"/") && !path.ends_with(b"/"));
                prop_assert!(parts(&path).all(|part| part != b".."));
            }
        }
    }
}
