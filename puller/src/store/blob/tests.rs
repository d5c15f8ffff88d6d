//! Readers see the right bytes, or an error; never an end that is not the end.

use std::{fs, io::Read, path::PathBuf, sync::Arc, thread::JoinHandle, time::Duration};

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::{domain::Activity, store::tests::open};

mod turns;

/// Longer than any step here takes, by far: a test that gets there hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Fixture {
    root: TempDir,
    volume: Arc<Volume>,
    bytes: Vec<u8>,
    digest: Digest,
}

impl Fixture {
    fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let volume = open(root.path()).0;
        let bytes = bytes.into();
        let digest = Digest::sha256(&bytes);
        Self {
            root,
            volume,
            bytes,
            digest,
        }
    }

    fn blob(&self) -> Arc<Blob> {
        self.volume.blob(&self.digest, self.bytes.len() as u64).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.root
            .path()
            .join("private/blobs")
            .join(self.digest.file_name())
    }

    /// Writes the rest of the layer.
    async fn fill(&self, blob: &Arc<Blob>) {
        let mut writer = blob.writer().await.unwrap().unwrap();
        let rest = &self.bytes[writer.offset() as usize..];
        writer.write(Bytes::copy_from_slice(rest)).await.unwrap();
        writer.finish().await.unwrap();
    }
}

type Outcome = (Vec<u8>, Option<Fault>);

/// Reads to the end, in pieces of `size`, on a thread; what was read, and the fault if there was one.
fn read_all(blob: &Arc<Blob>, activity: &Arc<Activity>, size: usize) -> JoinHandle<Outcome> {
    let mut reader = blob.reader(Arc::clone(activity));
    let blob = Arc::clone(blob);
    std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), vec![0; size]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => {
                    assert!(blob.verified(), "an end before all was verified");
                    return (all, None);
                }
                Ok(n) => all.extend_from_slice(&buffer[..n]),
                Err(error) => {
                    let fault = error
                        .get_ref()
                        .and_then(|inner| inner.downcast_ref::<Fault>())
                        .cloned();
                    return (all, Some(fault.expect("an error carries a fault")));
                }
            }
        }
    })
}

async fn joined(reader: JoinHandle<Outcome>) -> Outcome {
    let join = tokio::task::spawn_blocking(move || reader.join().unwrap());
    tokio::time::timeout(PATIENCE, join)
        .await
        .expect("a reader hangs")
        .unwrap()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn readers_follow_the_writer_and_end_with_the_verification() {
    let f = Fixture::new(*b"0123456789");
    let blob = f.blob();
    let activity = Arc::new(Activity::default());
    let early = read_all(&blob, &activity, 4);
    let mut writer = blob.writer().await.unwrap().unwrap();
    assert_eq!(writer.offset(), 0);
    for piece in f.bytes.chunks(3) {
        writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    until("all is received", || blob.received() == 10).await;
    // Every byte is there, but nobody has said that it was all.
    let mut reader = blob.reader(Arc::clone(&activity));
    let mut buffer = [0; 20];
    assert_eq!(reader.read(&mut buffer).unwrap(), 10);
    assert!(!blob.verified() && !early.is_finished());
    let verified = tokio::spawn({
        let blob = Arc::clone(&blob);
        async move { blob.wait_verified().await }
    });
    writer.finish().await.unwrap();
    tokio::time::timeout(PATIENCE, verified).await.unwrap().unwrap();
    assert_eq!(reader.read(&mut buffer).unwrap(), 0);
    assert_eq!(joined(early).await, (f.bytes.clone(), None));
    assert_eq!(
        joined(read_all(&blob, &activity, 64)).await,
        (f.bytes.clone(), None)
    );
    assert!(blob.writer().await.unwrap().is_none());
}

#[tokio::test]
async fn an_empty_layer_is_verified_without_a_byte() {
    let f = Fixture::new([]);
    let blob = f.blob();
    assert!(blob.writer().await.unwrap().is_none());
    assert_eq!(joined(read_all(&blob, &Arc::default(), 4)).await, (vec![], None));
}

#[tokio::test]
async fn the_next_in_turn_goes_on_where_a_dropped_writer_stopped() {
    let f = Fixture::new(*b"0123456789");
    let blob = f.blob();
    let mut first = blob.writer().await.unwrap().unwrap();
    first.write(Bytes::from_static(b"01234")).await.unwrap();
    let second = tokio::spawn({
        let blob = Arc::clone(&blob);
        async move { blob.writer().await.unwrap().unwrap() }
    });
    let third = tokio::spawn({
        let blob = Arc::clone(&blob);
        async move { blob.writer().await.unwrap().is_none() }
    });
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    drop(first);
    let mut second = second.await.unwrap();
    assert_eq!(second.offset(), 5);
    second.write(Bytes::from_static(b"56789")).await.unwrap();
    second.finish().await.unwrap();
    assert!(third.await.unwrap());
}

#[tokio::test]
async fn wrong_bytes_are_thrown_away_and_their_readers_told() {
    let f = Fixture::new(*b"0123456789");
    let blob = f.blob();
    let activity = Arc::new(Activity::default());
    let mut waiting = blob.reader(Arc::clone(&activity));
    let touched = read_all(&blob, &activity, 4);
    let mut writer = blob.writer().await.unwrap().unwrap();
    writer.write(Bytes::from_static(b"0123456780")).await.unwrap();
    until("all is received", || blob.received() == 10).await;
    let mut reader = blob.reader(Arc::clone(&activity));
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 1);
    let fault = writer.finish().await.unwrap_err();
    assert_eq!(fault.reason, Reason::DigestMismatch);
    assert!(fault.asked.contains(&f.digest.to_string()), "{fault}");
    assert!(
        fault
            .happened
            .contains(&Digest::sha256(b"0123456780").to_string()),
        "{fault}"
    );
    let error = reader.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.get_ref().unwrap().downcast_ref(), Some(&fault));
    assert_eq!((blob.received(), blob.verified()), (0, false));
    assert_eq!(fs::metadata(f.path()).unwrap().len(), 0);

    f.fill(&blob).await;
    // Who had read nothing never hears of it.
    let mut all = Vec::new();
    waiting.read_to_end(&mut all).unwrap();
    assert_eq!(all, f.bytes);
    let (seen, told) = joined(touched).await;
    assert!(told == Some(fault) || seen == f.bytes, "{seen:?} {told:?}");
}

#[tokio::test]
async fn fewer_and_more_bytes_are_told_apart() {
    let f = Fixture::new(*b"0123456789");
    let blob = f.blob();
    let mut writer = blob.writer().await.unwrap().unwrap();
    writer.write(Bytes::from_static(b"01234")).await.unwrap();
    let fault = writer.finish().await.unwrap_err();
    assert_eq!(fault.reason, Reason::DigestMismatch);
    assert!(fault.happened.contains("5 bytes instead of 10"), "{fault}");

    let mut writer = blob.writer().await.unwrap().unwrap();
    writer.write(Bytes::from_static(b"0123456789")).await.unwrap();
    let fault = writer.write(Bytes::from_static(b"x")).await.unwrap_err();
    assert_eq!(fault.reason, Reason::DigestMismatch);
    assert!(fault.happened.contains("at least 11"), "{fault}");
    assert_eq!(
        writer.write(Bytes::from_static(b"x")).await.unwrap_err().reason,
        Reason::Internal
    );
    assert_eq!(writer.restart().await.unwrap_err().reason, Reason::Internal);
    assert_eq!(writer.finish().await.unwrap_err().reason, Reason::Internal);
    assert_eq!(blob.received(), 0);
    f.fill(&blob).await;
}

#[tokio::test]
async fn a_restart_tells_those_who_have_read_and_only_them() {
    let f = Fixture::new(*b"0123456789");
    let blob = f.blob();
    let mut writer = blob.writer().await.unwrap().unwrap();
    writer.write(Bytes::from_static(b"wrong")).await.unwrap();
    until("it is received", || blob.received() == 5).await;
    let [mut touched, mut untouched] = [(); 2].map(|()| blob.reader(Arc::default()));
    assert_eq!(touched.read(&mut [0; 3]).unwrap(), 3);
    writer.restart().await.unwrap();
    assert_eq!((writer.offset(), blob.received()), (0, 0));
    writer.write(Bytes::from(f.bytes.clone())).await.unwrap();
    writer.finish().await.unwrap();
    let error = touched.read(&mut [0; 3]).unwrap_err();
    assert_eq!(
        error.get_ref().unwrap().downcast_ref::<Fault>().unwrap().reason,
        Reason::RegistryError
    );
    let mut all = Vec::new();
    untouched.read_to_end(&mut all).unwrap();
    assert_eq!(all, f.bytes);
}

#[tokio::test]
async fn a_cancelled_reader_stops_soon() {
    let f = Fixture::new(*b"0123456789");
    let blob = f.blob();
    let activity = Arc::new(Activity::default());
    let reader = read_all(&blob, &activity, 4);
    activity.cancel();
    let (seen, fault) = joined(reader).await;
    assert!(seen.is_empty());
    assert!(fault.unwrap().happened.contains("cancelled"));
}

/// What an earlier run may have left, and where the download goes on; `None`: nothing is left to do.
#[tokio::test]
async fn a_file_from_an_earlier_run_is_hashed_before_it_is_believed() {
    let bytes: Vec<u8> = (0..SCAN_SIZE * 2 + 77).map(|n| (n % 251) as u8).collect();
    let mut wrong = bytes.clone();
    wrong[SCAN_SIZE] ^= 1;
    let mut longer = bytes.clone();
    longer.push(0);
    let part = SCAN_SIZE + 5;
    for (left, offset) in [
        (&bytes[..], None),
        (&bytes[..part], Some(part)),
        (&[], Some(0)),
        (&wrong[..], Some(0)),
        (&longer[..], Some(0)),
    ] {
        let f = Fixture::new(&bytes[..]);
        fs::write(f.path(), left).unwrap();
        let blob = f.blob();
        assert_eq!((blob.received(), blob.verified()), (0, false));
        let reader = read_all(&blob, &Arc::default(), 8 << 10);
        match blob.writer().await.unwrap() {
            None => assert_eq!(offset, None),
            Some(writer) => {
                assert_eq!(Some(writer.offset() as usize), offset);
                assert_eq!(blob.received(), writer.offset());
                drop(writer);
                f.fill(&blob).await;
            }
        }
        assert_eq!(fs::read(f.path()).unwrap(), bytes);
        let (seen, fault) = joined(reader).await;
        match fault {
            None => assert_eq!(seen, bytes),
            Some(fault) => {
                assert_eq!(left, wrong, "{fault}");
                assert_eq!(fault.reason, Reason::DigestMismatch);
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_prefix_costs_one_download() {
    let f = Fixture::new(*b"0123456789");
    fs::write(f.path(), "01x").unwrap();
    let blob = f.blob();
    let mut writer = blob.writer().await.unwrap().unwrap();
    assert_eq!(writer.offset(), 3);
    writer.write(Bytes::from_static(b"3456789")).await.unwrap();
    assert_eq!(writer.finish().await.unwrap_err().reason, Reason::DigestMismatch);
    f.fill(&blob).await;
    assert!(blob.verified());
}

#[tokio::test]
async fn the_file_stays_to_resume_from_and_goes_when_it_is_not_wanted() {
    let f = Fixture::new(*b"0123456789");
    let blob = f.blob();
    drop(blob);
    assert!(!f.path().exists(), "an empty file is worth nothing");

    let blob = f.blob();
    let mut writer = blob.writer().await.unwrap().unwrap();
    writer.write(Bytes::from_static(b"01234")).await.unwrap();
    drop(writer);
    drop(blob);
    // The last handle is the worker's, which may still write.
    until("five bytes are kept", || {
        fs::read(f.path()).is_ok_and(|kept| kept == b"01234")
    })
    .await;

    let blob = f.blob();
    f.fill(&blob).await;
    let other = f.blob();
    assert!(Arc::ptr_eq(&blob, &other));
    blob.discard_when_unused();
    drop(blob);
    assert!(f.path().exists());
    // Somebody wants it again.
    let again = f.blob();
    drop((again, other));
    assert!(f.path().exists());

    let blob = f.blob();
    let mut reader = blob.reader(Arc::default());
    assert!(blob.writer().await.unwrap().is_none());
    blob.discard_when_unused();
    drop(blob);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert_eq!(all, f.bytes);
    drop(reader);
    assert!(!f.path().exists());
    f.volume.wait_deleted();
    assert_eq!(
        fs::read_dir(f.root.path().join("private/trash")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn one_digest_has_one_size() {
    let f = Fixture::new(*b"0123456789");
    let _blob = f.blob();
    let fault = f.volume.blob(&f.digest, 11).unwrap_err();
    assert_eq!(fault.reason, Reason::DigestMismatch);
    assert!(
        fault.to_string().contains("11 bytes") && fault.to_string().contains("10 bytes"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_layer_larger_than_the_queue_passes_in_pieces_of_any_size() {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 253) as u8).collect();
    let f = Fixture::new(&bytes[..]);
    let blob = f.blob();
    let reader = read_all(&blob, &Arc::default(), 64 << 10);
    let mut writer = blob.writer().await.unwrap().unwrap();
    let mut rest = Bytes::from(bytes.clone());
    for size in [1, 300_000, 1_000_000, 64 << 10, 1_000_000, usize::MAX] {
        let piece = rest.split_to(size.min(rest.len()));
        writer.write(piece).await.unwrap();
    }
    writer.write(Bytes::new()).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(joined(reader).await, (bytes, None));
}
