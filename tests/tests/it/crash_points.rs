//! The puller dies at each place where it could hurt, is started again, and nothing is lost: S04, S05
//! and S06 without chance.

mod story;
mod world;

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use puller_tests::puller::crash_points;

use story::Story::{self, *};

/// Each story mostly waits, so that many fit into two cores.
const AT_A_TIME: usize = 12;

/// Where to die, and what happens around it. `:2` is the second time that it comes by.
const CASES: &[(&str, Story)] = &[
    ("dirs-made", FirstStart),
    ("epoch-copy-raised", FirstStart),
    ("epoch-copy-raised:2", FirstStart),
    ("format-written", FirstStart),
    ("recovered", FirstStart),
    // Both copies of the epoch, then the version.
    ("file-written", FirstStart),
    ("file-synced:2", FirstStart),
    ("file-renamed:3", FirstStart),
    ("dirs-made", Start),
    ("epoch-copy-raised", Start),
    ("epoch-copy-raised:2", Start),
    ("leftovers-trashed", Start),
    ("contents-checked", Start),
    ("recovered", Start),
    ("file-written:2", Start),
    ("file-synced", Start),
    ("file-renamed", Start),
    ("file-renamed:2", Start),
    // The Image that is known already.
    ("file-synced:3", Start),
    ("image-recorded", Start),
    // After these three come at least the new Image, its content, and the Image as it is published.
    ("file-written:4", Pull { kept: 0 }),
    ("file-written:5", Pull { kept: 0 }),
    ("file-written:6", Pull { kept: 0 }),
    ("file-synced:4", Pull { kept: 0 }),
    ("file-synced:5", Pull { kept: 0 }),
    ("file-synced:6", Pull { kept: 0 }),
    ("file-renamed:4", Pull { kept: 0 }),
    ("file-renamed:5", Pull { kept: 0 }),
    ("file-renamed:6", Pull { kept: 0 }),
    ("image-recorded:2", Pull { kept: 0 }),
    ("image-recorded:3", Pull { kept: 0 }),
    ("blob-created", Pull { kept: 0 }),
    ("blob-created:3", Pull { kept: 0 }),
    ("blob-written", Pull { kept: 0 }),
    ("blob-written:2", Pull { kept: 0 }),
    ("blob-complete", Pull { kept: 1 }),
    ("blob-verified", Pull { kept: 1 }),
    ("blob-verified:3", Pull { kept: 3 }),
    ("tree-made", Pull { kept: 0 }),
    ("layer-applied", Pull { kept: 0 }),
    ("layer-applied:2", Pull { kept: 0 }),
    ("layer-applied:3", Pull { kept: 0 }),
    ("tree-unpacked", Pull { kept: 3 }),
    ("tree-synced", Pull { kept: 3 }),
    ("tree-renamed", Pull { kept: 3 }),
    ("rename-synced", Pull { kept: 3 }),
    ("content-recorded", Pull { kept: 3 }),
    ("blob-discarded", Pull { kept: 0 }),
    ("blob-discarded:3", Pull { kept: 0 }),
    ("trashed", Pull { kept: 0 }),
    ("blob-emptied", WrongBytes),
    ("record-set-aside", LostTree),
    ("leftovers-trashed", AfterCrash { at: "tree-synced" }),
    ("trashed", AfterCrash { at: "tree-synced" }),
    ("trash-flattened", AfterCrash { at: "tree-synced" }),
    ("trash-deleted", AfterCrash { at: "tree-synced" }),
    ("trashed", AfterCrash { at: "tree-renamed" }),
    ("contents-checked", AfterCrash { at: "tree-renamed" }),
    ("contents-checked", AfterCrash { at: "rename-synced" }),
    ("trashed", AfterCrash { at: "file-written:4" }),
    (
        "recovered",
        AfterCrash {
            at: "content-recorded",
        },
    ),
    (
        "image-recorded",
        AfterCrash {
            at: "content-recorded",
        },
    ),
    (
        "blob-hashed-again",
        AfterCrash {
            at: "blob-verified:2",
        },
    ),
    (
        "blob-hashed-again:2",
        AfterCrash {
            at: "blob-verified:2",
        },
    ),
    ("image-forgotten", Removal),
    // The Image's record, then the content's.
    ("files-unlinked", Removal),
    ("files-unlinked:2", Removal),
    ("content-forgotten", Removal),
    ("content-trashed", Removal),
    ("contents-collected:2", Removal),
    ("trashed", Removal),
    ("trash-flattened", Removal),
    ("trash-deleted", Removal),
    ("blob-collected", Cancelled),
    ("trash-deleted", Cancelled),
    ("tree-renamed", MovedTag),
    ("content-recorded", MovedTag),
    ("content-forgotten", MovedTag),
    ("content-trashed", MovedTag),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_it_dies_nothing_is_lost_and_nothing_is_left() {
    let known: BTreeSet<String> = crash_points().await.into_iter().collect();
    let tried = CASES
        .iter()
        .map(|(point, _)| point.split(':').next().unwrap_or(point).to_owned());
    assert_eq!(
        tried.collect::<BTreeSet<_>>(),
        known,
        "each place has a case, and each case a place"
    );

    let cases = CASES.iter().map(|(point, story)| async move {
        let name = format!("{story:?}, dies at {point}");
        let told = tokio::spawn((*story).tell(point)).await;
        told.err().map(|panic| format!("{name}: {panic}"))
    });
    let failed: Vec<String> = stream::iter(cases)
        .buffer_unordered(AT_A_TIME)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        CASES.len(),
        failed.join("\n")
    );
}
