use super::*;

fn config(user: &str) -> String {
    serde_json::json!({"auths": {"x.io": {"username": user, "password": "p"}}}).to_string()
}

/// Unblocks whoever waits for somebody to write.
fn release(fifo: &Path) {
    drop(fs::OpenOptions::new().write(true).open(fifo).unwrap());
}

#[tokio::test]
async fn a_file_system_that_hangs_blocks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (healthy, hung) = (directory.path().join("healthy"), directory.path().join("hung"));
    fs::write(&healthy, config("u")).unwrap();
    fs::write(&hung, config("v")).unwrap();
    let mut files = Files::new([healthy, hung.clone()], None);
    files.limit = Duration::from_millis(100);
    let before = files.read().await;
    assert_eq!((before.version, before.configs.len()), (1, 2));

    // Opening it waits for a writer.
    fs::remove_file(&hung).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &hung, rustix::fs::Mode::RWXU).unwrap();
    // This runtime has one thread: while that waits for a file, nothing else moves.
    let ticks = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let begun = std::time::Instant::now();
    let (during, ()) = tokio::join!(files.read(), async {
        ticks.await;
        assert!(begun.elapsed() < Duration::from_millis(100));
    });
    assert_eq!(during.version, 1, "what was read before is used");
    assert_eq!(files.read().await.version, 1);
    release(&hung);
}

#[tokio::test]
async fn each_change_is_another_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    let files = Files::new([path.clone()], None);
    assert_eq!(files.read().await.version, 0);
    fs::write(&path, config("u")).unwrap();
    assert_eq!(files.read().await.version, 1);
    assert_eq!(files.read().await.version, 1);
    fs::write(&path, config("someone")).unwrap();
    assert_eq!(files.read().await.version, 2);
    fs::remove_file(&path).unwrap();
    assert_eq!(files.read().await.version, 3);
}
