use super::*;

fn config(user: &str) -> String {
    serde_json::json!({"auths": {"x.io": {"username": user, "password": "p"}}}).to_string()
}

/// A file that whoever opens it waits for, until this is dropped: a runtime ends once its threads do, also
/// after a failed assertion.
struct Hung(PathBuf);

impl Hung {
    fn at(path: &Path) -> Self {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
        Self(path.to_owned())
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        // A pipe that is open both ways never blocks, and lets go whoever waits for a writer. Nobody opens
        // it anew once its name is gone.
        let writer = fs::OpenOptions::new().read(true).write(true).open(&self.0);
        let _gone = fs::remove_file(&self.0);
        drop(writer);
    }
}

#[tokio::test]
async fn a_file_system_that_hangs_blocks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (healthy, hung) = (directory.path().join("healthy"), directory.path().join("hung"));
    fs::write(&healthy, config("u")).unwrap();
    fs::write(&hung, config("v")).unwrap();
    let mut files = Files::new([healthy, hung.clone()], None);
    files.limit = Duration::from_secs(1);
    let before = files.read().await;
    assert_eq!((before.version, before.configs.len()), (1, 2));

    fs::remove_file(&hung).unwrap();
    let _hung = Hung::at(&hung);
    // This runtime has one thread: if that waited for a file, nothing would move any more.
    assert_eq!(files.read().await.version, 1, "what was read before is used");
    assert_eq!(files.read().await.version, 1);
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
