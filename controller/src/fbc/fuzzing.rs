//! The entry point for the target `catalog` in `fuzz/`.

use std::{io, path::Path};

use super::{Document, documents};

/// Bytes of the longest message.
const LONGEST_MESSAGE: usize = 2 << 10;

/// A file of a catalog. Lines are JSON, stay the same when they are read again, and messages are fit to print.
///
/// # Panics
/// One of these promises is broken.
pub fn catalog(data: &[u8]) {
    let mut lines = Vec::new();
    if let Err(message) = read(data, &mut lines) {
        assert!(
            message.len() <= LONGEST_MESSAGE,
            "{} bytes of message",
            message.len()
        );
        assert!(
            !message.contains(char::is_control),
            "unsafe to print: {message:?}"
        );
    }
    for document in lines {
        assert!(!document.line.contains('\n'));
        let mut again = Vec::new();
        assert_eq!(read(document.line.as_bytes(), &mut again), Ok(()));
        assert_eq!(again, [document]);
    }
}

fn read(data: &[u8], lines: &mut Vec<Document>) -> Result<(), String> {
    let mut emit = |document| -> io::Result<()> {
        lines.push(document);
        Ok(())
    };
    documents::read(Path::new("file"), data, &mut emit).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn seeds() -> Vec<Vec<u8>> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/catalog");
        let mut paths: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths.iter().map(|path| fs::read(path).unwrap()).collect()
    }

    #[test]
    fn promises_are_kept_over_the_seeds() {
        let seeds = seeds();
        assert!(!seeds.is_empty());
        seeds.iter().for_each(|seed| catalog(seed));
    }

    proptest! {
        #[test]
        fn promises_are_kept_over_changed_seeds(
            seed in prop::sample::select(seeds()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_usize), 1..6),
        ) {
            let mut text = seed;
            for (at, byte, length) in changes {
                let at = at.index(text.len() + 1);
                let end = text.len().min(at + length);
                text.splice(at..end, [byte]);
            }
            catalog(&text);
        }
    }
}
