use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn files(path: &Path) -> Vec<String> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    files
}

/// A cache directory, and content as it would be written.
struct Cache {
    directory: tempfile::TempDir,
}

impl Cache {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn open(&self) -> (CacheDirectory, Store) {
        let directory = CacheDirectory::take(self.directory.path()).unwrap();
        let store = Store::open(&directory).unwrap();
        (directory, store)
    }

    fn catalog(&self) -> PathBuf {
        self.directory.path().join("catalogs/cat")
    }
}

fn prepared(store: &Store, line: &str) -> Prepared {
    let catalog = store.directory("cat");
    fs::create_dir_all(&catalog).unwrap();
    let name = record::new_directory(&catalog).unwrap();
    let path = catalog.join(&name);
    for file in ["catalog.jsonl", "catalog.jsonl.gz", "catalog.jsonl.zst"] {
        fs::write(path.join(file), line).unwrap();
    }
    fs::write(path.join("index.json"), r#"{"documents":[]}"#).unwrap();
    Prepared {
        name,
        path,
        digest: line.to_owned(),
        bytes: line.len() as u64,
        kept: false,
    }
}

fn swap(store: &Store, line: &str, reference: &str) {
    let now = Timestamp::from_second(line.len().try_into().unwrap()).unwrap();
    store
        .swap("cat", prepared(store, line), reference, "tree", now)
        .unwrap();
}

#[test]
fn what_was_stored_is_there_after_a_restart_and_is_published_only_when_the_object_says_so() {
    let cache = Cache::new();
    let (directory, store) = cache.open();
    swap(&store, "a", "r@sha256:1");
    drop((directory, store));
    let (_directory, store) = cache.open();
    assert_eq!(store.get("cat").unwrap().reference, "r@sha256:1");
    assert!(store.published("cat", 1).is_none());
    store.publish("cat", "r@sha256:2", 1);
    assert!(store.published("cat", 1).is_none(), "that is not what is stored");
    store.publish("cat", "r@sha256:1", 1);
    assert!(store.published("cat", 1).is_some());
    assert!(
        store.published("cat", 2).is_none(),
        "another term knows nothing of this one"
    );
}

#[test]
fn content_takes_the_place_of_content_and_what_is_open_stays_readable() {
    let cache = Cache::new();
    let (_directory, store) = cache.open();
    swap(&store, "a", "r@sha256:1");
    store.publish("cat", "r@sha256:1", 1);
    let open = store.published("cat", 1).unwrap();
    swap(&store, "bb", "r@sha256:2");
    assert!(
        store.published("cat", 1).is_none(),
        "nobody said yet that it is served"
    );
    assert_eq!(open.length(Coding::Identity), 1);
    assert_eq!(files(&cache.catalog()).len(), 2, "the old directory is gone");
}

#[test]
fn content_that_did_not_change_stays_in_its_place_with_its_time() {
    let cache = Cache::new();
    let (_directory, store) = cache.open();
    swap(&store, "a", "r@sha256:1");
    let before = files(&cache.catalog());
    let now = Timestamp::from_second(99).unwrap();
    store
        .swap("cat", prepared(&store, "a"), "r@sha256:2", "tree", now)
        .unwrap();
    assert_eq!(files(&cache.catalog()), before);
    store.publish("cat", "r@sha256:2", 1);
    let modified: std::time::SystemTime = Timestamp::from_second(1).unwrap().into();
    assert_eq!(store.published("cat", 1).unwrap().modified(), modified);
}

#[test]
fn what_a_crash_leaves_at_any_step_is_the_old_content_and_nothing_else() {
    for left in ["content-0000000000000000", "current.new"] {
        let cache = Cache::new();
        let (directory, store) = cache.open();
        swap(&store, "a", "r@sha256:1");
        let before = files(&cache.catalog());
        // Between making the directory, writing the record and renaming it.
        match left {
            "current.new" => fs::write(cache.catalog().join(left), "{\"half").unwrap(),
            _ => fs::create_dir(cache.catalog().join(left)).unwrap(),
        }
        drop((directory, store));
        let (_directory, store) = cache.open();
        assert_eq!(store.get("cat").unwrap().reference, "r@sha256:1");
        assert_eq!(files(&cache.catalog()), before, "{left}");
    }
}

#[test]
fn a_record_that_does_not_hold_is_no_content() {
    for damage in ["record", "shorter", "missing", "elsewhere"] {
        let cache = Cache::new();
        let (directory, store) = cache.open();
        swap(&store, "abc", "r@sha256:1");
        let record = cache.catalog().join("current");
        let content = files(&cache.catalog())
            .into_iter()
            .find(|name| name.starts_with("content-"))
            .unwrap();
        let lines = cache.catalog().join(content).join("catalog.jsonl");
        match damage {
            "record" => fs::write(&record, "{").unwrap(),
            "shorter" => fs::write(&lines, "a").unwrap(),
            "missing" => fs::remove_file(&lines).unwrap(),
            _ => {
                let text = fs::read_to_string(&record)
                    .unwrap()
                    .replace("content-", "../content-");
                fs::write(&record, text).unwrap();
            }
        }
        drop((directory, store));
        let (_directory, store) = cache.open();
        assert_eq!(store.get("cat"), None, "{damage}");
        assert!(!cache.catalog().exists(), "{damage}");
    }
}

#[test]
fn what_is_removed_is_gone_and_what_was_not_swapped_too() {
    let cache = Cache::new();
    let (_directory, store) = cache.open();
    drop(prepared(&store, "a"));
    assert_eq!(files(&cache.catalog()), [""; 0]);
    swap(&store, "a", "r@sha256:1");
    store.remove("cat").unwrap();
    assert!(store.names().is_empty() && !cache.catalog().exists());
    store.remove("cat").unwrap();
}

#[test]
fn a_cache_directory_has_one_owner_whose_name_stays() {
    let cache = Cache::new();
    let (directory, _store) = cache.open();
    let identity = directory.identity().to_owned();
    let error = CacheDirectory::take(cache.directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(directory);
    assert_eq!(cache.open().0.identity(), identity);
    assert!(
        identity.contains('_')
            && cache.directory.path().metadata().unwrap().permissions().mode() & 0o700 == 0o700
    );
}
