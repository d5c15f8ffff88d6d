use proptest::prelude::*;

use super::*;

fn walk(bytes: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
    let mut archive = Archive::new(bytes, "layer");
    let mut found = Vec::new();
    while let Some(entry) = archive.next()? {
        found.push((entry.name, entry.size));
    }
    Ok(found)
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = walk(&bytes);
    }

    /// What the tar crate writes is read as it was meant.
    #[test]
    fn reads_what_the_tar_crate_writes(
        files in prop::collection::vec(("[a-z]{1,120}", prop::collection::vec(any::<u8>(), 0..1500)), 0..5),
    ) {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, data) in &files {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            builder.append_data(&mut header, name, &data[..]).unwrap();
        }
        let bytes = builder.into_inner().unwrap();
        let expected: Vec<_> = files.iter().map(|(name, data)| (name.clone().into_bytes(), data.len() as u64)).collect();
        prop_assert_eq!(walk(&bytes).unwrap(), expected);
    }
}
