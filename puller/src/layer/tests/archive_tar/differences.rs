//! Where archive/tar and we read an archive in different ways, and why that is right.

use std::fmt;

use super::gotar::Listing;
use Verdict::{OnlyGoReads, OnlyWeRead};

/// What the readers do with an archive on which they do not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// archive/tar refuses it.
    OnlyWeRead,
    /// We refuse it.
    OnlyGoReads,
    /// Both read it, and see different entries.
    Differs,
}

struct Difference {
    /// What of the archive was damaged.
    hit: &'static [&'static str],
    verdict: Verdict,
    /// A part of what the reader that refuses says.
    says: &'static str,
}

const DIFFERENCES: &[Difference] = &[
    // Nothing is made of these, so none of them can be wrong. L20 asks for that of owners.
    Difference {
        hit: &[
            "uid",
            "gid",
            "mtime",
            "device",
            "mode of an extension",
            "size of no data",
            "unused record",
        ],
        verdict: OnlyWeRead,
        says: "invalid tar header",
    },
    // All entries are there; only a part of the zeros at the end is not.
    Difference {
        hit: &["end"],
        verdict: OnlyWeRead,
        says: "unexpected EOF",
    },
    // An entry is missing of which the archive has a description (L17): it was cut.
    Difference {
        hit: &["end", "header removed", "type"],
        verdict: OnlyGoReads,
        says: "it ends after a header that describes the next entry",
    },
    // archive/tar leaves them to its callers, and containerd, docker and podman refuse them.
    Difference {
        hit: &["type"],
        verdict: OnlyGoReads,
        says: "has the unknown type",
    },
    // archive/tar takes a negative mode.
    Difference {
        hit: &["mode"],
        verdict: OnlyGoReads,
        says: "impossible mode",
    },
    // archive/tar takes these for plain files, under the names that stand in for theirs.
    Difference {
        hit: &["record"],
        verdict: OnlyGoReads,
        says: "its sparse format is not known",
    },
    Difference {
        hit: &["record"],
        verdict: OnlyGoReads,
        says: "a sparse file has no map",
    },
    // archive/tar forgets the description, GNU tar applies it: no reader is right.
    Difference {
        hit: &["type"],
        verdict: OnlyGoReads,
        says: "a global header parts an entry from what describes it",
    },
];

/// A difference that is not written down.
pub(super) struct Unknown {
    pub(super) verdict: Verdict,
    text: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Nothing if both see the same, or if the difference is known.
pub(super) fn check(hit: &str, ours: &Listing, theirs: &Listing) -> Result<(), Unknown> {
    let Some((verdict, says)) = compare(ours, theirs) else {
        return Ok(());
    };
    let is_known = DIFFERENCES
        .iter()
        .any(|known| known.hit.contains(&hit) && known.verdict == verdict && says.contains(known.says));
    if is_known {
        return Ok(());
    }
    let same = same(ours, theirs);
    let next = |listing: &Listing| format!("{:?} {:?}", listing.entries.get(same), listing.refusal);
    Err(Unknown {
        verdict,
        text: format!(
            "after {same} entries\n  we: {}\n  Go: {}",
            next(ours),
            next(theirs)
        ),
    })
}

/// Entries at the beginning that both see.
fn same(ours: &Listing, theirs: &Listing) -> usize {
    let pairs = ours.entries.iter().zip(&theirs.entries);
    pairs.take_while(|(ours, theirs)| ours == theirs).count()
}

fn compare<'a>(ours: &'a Listing, theirs: &'a Listing) -> Option<(Verdict, &'a str)> {
    let same = same(ours, theirs);
    let ends = |listing: &Listing| listing.entries.len() == same;
    match (&ours.refusal, &theirs.refusal) {
        (None, None) if ends(ours) && ends(theirs) => None,
        // One may notice earlier than the other.
        (Some(_), Some(_)) if ends(ours) || ends(theirs) => None,
        (None, Some(refusal)) if ends(theirs) => Some((Verdict::OnlyWeRead, refusal)),
        (Some(refusal), None) if ends(ours) => Some((Verdict::OnlyGoReads, refusal)),
        _ => Some((Verdict::Differs, "")),
    }
}
