//! Many writers and readers at once, in any order.

use proptest::prelude::*;

use super::*;

/// What a downloader does with its turn.
#[derive(Debug, Clone)]
enum Step {
    /// Writes pieces of that size, that many, and then loses its connection.
    Cut(usize, usize),
    /// Writes on to the end.
    Finish(usize),
    /// Spoils a byte, and writes on to the end.
    Spoil(usize),
    /// Begins at the first byte, and goes on to the end.
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = 1..5_000usize;
    prop_oneof![
        4 => (size.clone(), 0..6usize).prop_map(|(size, n)| Step::Cut(size, n)),
        1 => size.clone().prop_map(Step::Finish),
        1 => size.clone().prop_map(Step::Spoil),
        1 => size.prop_map(Step::Restart),
    ]
}

/// `honest`: nothing on the volume or in any step is wrong.
async fn download(blob: Arc<Blob>, bytes: Arc<Vec<u8>>, step: Step, honest: bool) {
    let Some(mut writer) = blob.writer().await.unwrap() else {
        return;
    };
    let mut content = Vec::clone(&bytes);
    let (size, pieces) = match step {
        Step::Cut(size, pieces) => (size, pieces),
        Step::Finish(size) | Step::Restart(size) | Step::Spoil(size) => (size, usize::MAX),
    };
    if matches!(step, Step::Restart(_)) {
        writer.restart().await.unwrap();
    }
    if matches!(step, Step::Spoil(_))
        && let Some(last) = content.last_mut()
    {
        *last ^= 1;
    }
    let rest = Bytes::from(content).slice(writer.offset() as usize..);
    for piece in rest.chunks(size).take(pieces) {
        writer.write(rest.slice_ref(piece)).await.unwrap();
    }
    if pieces == usize::MAX
        && let Err(fault) = writer.finish().await
    {
        assert_eq!(fault.reason, Reason::DigestMismatch);
        assert!(!honest, "{fault}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn readers_see_the_right_bytes_or_a_fault(
        length in 0..40_000usize,
        seed in any::<u8>(),
        left in prop::option::of((any::<prop::sample::Index>(), any::<bool>())),
        steps in prop::collection::vec(step(), 0..8),
        readers in prop::collection::vec(1..20_000usize, 1..5),
    ) {
        let bytes: Vec<u8> = (0..length).map(|n| (n / 7 % 256) as u8 ^ seed).collect();
        let f = Fixture::new(&bytes[..]);
        // Wrong bytes come only from a spoilt step or a spoilt file.
        let mut honest = !steps.iter().any(|step| matches!(step, Step::Spoil(_) | Step::Restart(_)));
        if let Some((at, spoil)) = left {
            let mut kept = bytes[..at.index(length + 1)].to_vec();
            if spoil && let Some(last) = kept.last_mut() {
                *last ^= 1;
                honest = false;
            }
            fs::write(f.path(), kept).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        runtime.block_on(async {
            let blob = f.blob();
            let bytes = Arc::new(bytes.clone());
            let activity = Arc::new(Activity::default());
            let readers: Vec<_> = readers.iter().map(|size| read_all(&blob, &activity, *size)).collect();
            let turns: Vec<_> = steps
                .into_iter()
                .map(|step| {
                    let (blob, bytes) = (Arc::clone(&blob), Arc::clone(&bytes));
                    tokio::spawn(download(blob, bytes, step, honest))
                })
                .collect();
            for turn in turns {
                tokio::time::timeout(PATIENCE, turn).await.expect("a writer hangs").unwrap();
            }
            // In the end somebody gets it right; a spoilt prefix costs one more download.
            for _ in 0..2 {
                if let Some(mut writer) = blob.writer().await.unwrap() {
                    let rest = Bytes::copy_from_slice(&bytes[writer.offset() as usize..]);
                    writer.write(rest).await.unwrap();
                    let _ = writer.finish().await;
                }
            }
            assert!(blob.verified());
            blob.wait_verified().await;
            assert_eq!(blob.received(), length as u64);
            for reader in readers {
                match joined(reader).await {
                    (seen, None) => assert_eq!(seen, *bytes),
                    (_, Some(fault)) => {
                        assert!(!honest, "{fault}");
                        assert!(matches!(fault.reason, Reason::DigestMismatch | Reason::RegistryError), "{fault}");
                    }
                }
            }
            assert_eq!(joined(read_all(&blob, &activity, 777)).await, (Vec::clone(&bytes), None));
        });
    }
}

/// The last handle goes while another is opened, over and over: the file that is discarded must never be
/// the one that is in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_that_is_discarded_and_wanted_at_once_is_right_for_each() {
    const TASKS: usize = 4;
    const ROUNDS: usize = 200;
    let f = Arc::new(Fixture::new(
        (0..9_999u32).map(|n| (n % 241) as u8).collect::<Vec<_>>(),
    ));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let f = Arc::clone(&f);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let blob = f.blob();
                    let reader = read_all(&blob, &Arc::default(), 1 << 10);
                    if let Some(mut writer) = blob.writer().await.unwrap() {
                        let rest = &f.bytes[writer.offset() as usize..];
                        writer.write(Bytes::copy_from_slice(rest)).await.unwrap();
                        writer.finish().await.unwrap();
                    }
                    assert!(f.path().exists() && Arc::ptr_eq(&blob, &f.blob()));
                    if (task + round) % 3 > 0 {
                        blob.discard_when_unused();
                    }
                    drop(blob);
                    assert_eq!(joined(reader).await, (f.bytes.clone(), None));
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
    }
    let blob = f.blob();
    blob.discard_when_unused();
    drop(blob);
    assert!(!f.path().exists());
}
