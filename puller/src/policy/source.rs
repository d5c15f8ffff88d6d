//! The policy's file and the keys that it names, on disk.
//!
//! They are small, so they are read whole each time that somebody asks. So no change is missed, whatever it
//! does to times and sizes, and however the file is replaced.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use rustix::fs::{Mode, OFlags, open};

use super::{Check, Policy};
use crate::{
    domain::{Reason, Reference},
    error::Fault,
};

/// Bytes of a policy or a key: far more than anybody writes by hand.
const MAX_FILE: u64 = 1 << 20;

/// Where the policy comes from.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    known: Mutex<Known>,
}

/// What was there when somebody looked last.
#[derive(Debug)]
struct Known {
    /// Whether something has changed that nobody has asked for yet.
    news: bool,
    seen: Vec<Seen>,
    current: Arc<Current>,
}

/// One file as it was read.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    /// A file that was touched counts as changed: that is how an operator asks for another try.
    modified: Option<SystemTime>,
    bytes: Result<Vec<u8>, String>,
}

/// The policy as it stands on disk.
#[derive(Debug)]
enum Current {
    /// There is no file: everything is accepted.
    Absent,
    /// What the file says.
    Policy(Policy),
    /// What is wrong with the file: nothing is accepted.
    Broken(String),
}

impl Source {
    /// Reads the policy for the first time.
    pub fn open(path: PathBuf) -> Self {
        let (seen, current) = read(&path);
        log(&path, &current);
        let known = Mutex::new(Known {
            news: false,
            seen,
            current: Arc::new(current),
        });
        Self { path, known }
    }

    /// Whether the policy or a key of it has changed since this was last asked. It waits for the disk.
    pub fn has_changed(&self) -> bool {
        std::mem::take(&mut self.read_again().news)
    }

    /// What the policy, as it stands on disk now, wants of an image. It waits for the disk.
    ///
    /// # Errors
    /// `blocked by policy`: the image is rejected, or the policy can't be understood.
    pub fn ask(&self, reference: &Reference) -> Result<Check, Fault> {
        let asked = || format!("the policy {}, asked for {reference}", self.path.display());
        let current = Arc::clone(&self.read_again().current);
        match &*current {
            Current::Absent => Ok(Check::new(asked(), reference.clone(), Vec::new())),
            Current::Policy(policy) => policy.ask(reference),
            Current::Broken(problem) => Err(Fault::new(
                Reason::BlockedByPolicy,
                asked(),
                format!("can't be used: {problem}"),
                "correct the file (containers-policy.json(5)); it is read again by itself",
            )),
        }
    }

    /// What is on disk now.
    fn read_again(&self) -> MutexGuard<'_, Known> {
        // Held while reading, so that nobody puts what he read earlier over what was read later.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, current) = read(&self.path);
        if seen != known.seen {
            log(&self.path, &current);
            *known = Known {
                news: true,
                seen,
                current: Arc::new(current),
            };
        }
        known
    }
}

fn log(path: &Path, current: &Current) {
    let policy = path.display();
    match current {
        Current::Absent => tracing::warn!(%policy, "there is no policy: images are pulled unverified"),
        Current::Policy(_) => tracing::info!(%policy, "read"),
        Current::Broken(problem) => {
            tracing::error!(%policy, problem, "the policy can't be used: nothing is pulled");
        }
    }
}

/// Reads the policy and its keys.
fn read(path: &Path) -> (Vec<Seen>, Current) {
    let mut seen = Vec::new();
    let json = match read_file(path) {
        // A link that leads nowhere is no absent policy, but one that can't be read.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return (seen, Current::Absent);
        }
        read => remember(&mut seen, path, read),
    };
    let parsed = json.and_then(|json| {
        Policy::parse(path, &json, &mut |key| {
            let read = read_file(key);
            remember(&mut seen, key, read)
        })
    });
    let current = match parsed {
        Ok(policy) => Current::Policy(policy),
        Err(problem) => Current::Broken(problem),
    };
    (seen, current)
}

fn remember(
    seen: &mut Vec<Seen>,
    path: &Path,
    read: io::Result<(Vec<u8>, Option<SystemTime>)>,
) -> Result<Vec<u8>, String> {
    let (bytes, modified) = match read {
        Ok((bytes, modified)) => (Ok(bytes), modified),
        Err(error) => (Err(format!("it can't be read: {error}")), None),
    };
    seen.push(Seen {
        path: path.to_owned(),
        modified,
        bytes: bytes.clone(),
    });
    bytes
}

fn read_file(path: &Path) -> io::Result<(Vec<u8>, Option<SystemTime>)> {
    // NONBLOCK, since a pipe put there by somebody would keep us for ever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it has more than {MAX_FILE} bytes")));
    }
    Ok((bytes, metadata.modified().ok()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ACCEPT: &str = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
    const REJECT: &str = r#"{"default": [{"type": "reject"}]}"#;

    fn asks(source: &Source) -> Result<(), Fault> {
        let check = source.ask(&"quay.io/a/b:v1".parse().unwrap())?;
        check.verdict()
    }

    fn refuses(source: &Source, says: &str) {
        let fault = asks(source).unwrap_err();
        assert_eq!(fault.reason, Reason::BlockedByPolicy);
        let path = source.path.display().to_string();
        assert!(
            fault.to_string().contains(&path) && fault.to_string().contains(says),
            "{fault}"
        );
    }

    #[test]
    fn an_absent_file_accepts_and_any_other_trouble_refuses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.json");
        let source = Source::open(path.clone());
        assert_eq!(asks(&source), Ok(()));
        assert_eq!(
            asks(&Source::open(directory.path().join("no/policy.json"))),
            Ok(())
        );
        fs::write(&path, "{").unwrap();
        refuses(&source, "EOF");
        fs::write(&path, "").unwrap();
        refuses(&source, "no JSON object");
        fs::write(&path, " ".repeat(2 << 20)).unwrap();
        refuses(&source, "more than 1048576 bytes");
        fs::remove_file(&path).unwrap();
        symlink("nowhere", &path).unwrap();
        refuses(&source, "can't be read");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refuses(&source, "no regular file");
        refuses(&Source::open("/dev/null/policy.json".into()), "can't be read");
    }

    #[test]
    fn each_change_is_noticed_once_and_a_touch_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.json");
        fs::write(&path, ACCEPT).unwrap();
        let source = Source::open(path.clone());
        assert_eq!((source.has_changed(), source.has_changed()), (false, false));
        fs::write(&path, REJECT).unwrap();
        refuses(&source, "rejects");
        assert_eq!((source.has_changed(), source.has_changed()), (true, false));
        let earlier = SystemTime::UNIX_EPOCH;
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(earlier)
            .unwrap();
        assert_eq!((source.has_changed(), source.has_changed()), (true, false));
        // Of the same length and time.
        fs::write(&path, REJECT.replace("reject", "r3ject")).unwrap();
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(earlier)
            .unwrap();
        assert!(source.has_changed());
        refuses(&source, "r3ject");
    }

    #[test]
    fn keys_are_read_again_too() {
        let directory = tempfile::tempdir().unwrap();
        let (path, key) = (
            directory.path().join("policy.json"),
            directory.path().join("cosign.pub"),
        );
        let json = format!(
            r#"{{"default": [{{"type": "sigstoreSigned", "keyPath": {:?}}}]}}"#,
            key.display().to_string()
        );
        fs::write(&path, json).unwrap();
        let source = Source::open(path);
        refuses(&source, "cosign.pub: it can't be read");
        fs::write(&key, rcgen::KeyPair::generate().unwrap().public_key_pem()).unwrap();
        assert!(source.has_changed());
        let fault = asks(&source).unwrap_err();
        assert_eq!(fault.reason, Reason::VerificationFailed, "{fault}");
    }
}
