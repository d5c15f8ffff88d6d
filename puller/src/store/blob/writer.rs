//! Filling a layer's file.
//!
//! The worker takes all pieces that wait at once, writes them with one call and tells readers once, so
//! that the sizes in which a network gives its bytes do not matter.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{
    sync::{
        OwnedMutexGuard, Semaphore,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    task::{JoinHandle, spawn_blocking},
};

use super::{Blob, Prefix};
use crate::{domain::Reason, error::Fault};

/// Bytes that may wait for the worker, and again as many that it works on: enough to keep it busy while
/// the next ones arrive, and little beside the memory that a pull may use. With [`MIN_WEIGHT`] it also
/// bounds the pieces of one vectored write, well below the system's 1024.
const QUEUE_SIZE: u32 = 256 << 10;
/// What the smallest piece counts as: it may be a part of a buffer that it keeps alive.
const MIN_WEIGHT: u32 = 4 << 10;

/// The one that writes a layer now. Dropped, it leaves what it has written, and the next in turn goes on
/// from there: hold it only while bytes move.
#[derive(Debug)]
pub struct BlobWriter {
    blob: Arc<Blob>,
    offset: u64,
    jobs: UnboundedSender<Job>,
    /// Room in the queue, in bytes; closed when the worker has ended.
    room: Arc<Semaphore>,
    worker: Option<JoinHandle<Result<(), Fault>>>,
}

/// What the worker has to do, in order. Bytes are few because of `room`, the others are awaited.
#[derive(Debug)]
enum Job {
    Bytes(Bytes),
    Restart(oneshot::Sender<()>),
    Reject(Fault),
    Finish,
}

impl Blob {
    /// Waits for its turn to write; `None`: there is nothing left to write. Those who wait come in the
    /// order in which they asked. The first one hashes what an earlier run left.
    ///
    /// # Errors
    /// The volume failed.
    pub async fn writer(self: &Arc<Self>) -> Result<Option<BlobWriter>, Fault> {
        let mut turn = Arc::clone(&self.turn).lock_owned().await;
        if self.verified() {
            return Ok(None);
        }
        if !turn.scanned || turn.offset == self.size {
            let blob = Arc::clone(self);
            // The turn goes along: if nobody waits for us any more, the hashing still comes to its end.
            let (returned, result) = spawn_blocking(move || {
                let result = blob.take_stock(&mut turn);
                (turn, result)
            })
            .await
            .map_err(|error| died(self, &error))?;
            turn = returned;
            result?;
            if self.verified() {
                return Ok(None);
            }
        }
        Ok(Some(BlobWriter::start(Arc::clone(self), turn)))
    }

    /// Finds out how much of the file is there, and whether that is all. Blocks.
    fn take_stock(&self, prefix: &mut Prefix) -> Result<(), Fault> {
        if !prefix.scanned {
            self.scan(prefix)?;
        }
        if prefix.offset == self.size
            && let Err(fault) = self.verify(prefix)
        {
            if fault.reason != Reason::DigestMismatch {
                return Err(fault);
            }
            // Nobody's fault but the volume's; it is just fetched again.
            tracing::warn!(digest = %self.digest, %fault, "what was kept of a layer is not right");
        }
        Ok(())
    }

    /// The worker of one writer. However it ends, the next in turn goes on where it stopped.
    fn work(
        &self,
        mut prefix: OwnedMutexGuard<Prefix>,
        mut jobs: UnboundedReceiver<Job>,
        room: &Semaphore,
    ) -> Result<(), Fault> {
        let mut next = None;
        while let Some(job) = next.take().or_else(|| jobs.blocking_recv()) {
            match job {
                Job::Bytes(bytes) => {
                    // All that has come: small pieces would cost more in calls than in bytes.
                    let mut pieces = vec![bytes];
                    while let Ok(job) = jobs.try_recv() {
                        match job {
                            Job::Bytes(bytes) => pieces.push(bytes),
                            other => {
                                next = Some(other);
                                break;
                            }
                        }
                    }
                    // Before the work, so that the queue fills while it is done.
                    room.add_permits(pieces.iter().map(|bytes| weight(bytes) as usize).sum());
                    self.append(&mut prefix, &pieces)?;
                }
                Job::Restart(done) => {
                    self.restart(&mut prefix, &self.begun_anew())?;
                    // Nobody waits for the answer of a call that was dropped.
                    let _ = done.send(());
                }
                Job::Reject(fault) => {
                    self.restart(&mut prefix, &fault)?;
                    return Err(fault);
                }
                Job::Finish => return self.verify(&mut prefix),
            }
        }
        Ok(())
    }

    fn begun_anew(&self) -> Fault {
        Fault::new(
            Reason::RegistryError,
            format!("read layer {}", self.digest),
            "the registry did not go on where the download stopped, so the layer was begun anew",
            "the layer has to be unpacked from its first byte again",
        )
    }
}

impl BlobWriter {
    fn start(blob: Arc<Blob>, prefix: OwnedMutexGuard<Prefix>) -> Self {
        let (jobs, receiver) = unbounded_channel();
        let room = Arc::new(Semaphore::new(QUEUE_SIZE as usize));
        let offset = prefix.offset;
        let worker = spawn_blocking({
            let (blob, room) = (Arc::clone(&blob), Arc::clone(&room));
            move || {
                let _closed = CloseOnDrop(&room);
                blob.work(prefix, receiver, &room)
            }
        });
        Self {
            blob,
            offset,
            jobs,
            room,
            worker: Some(worker),
        }
    }

    /// Where the next byte belongs: what a download has to begin with.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the next bytes; waits while too many are on their way to the file.
    ///
    /// # Errors
    /// `digest mismatch`: they are more than the layer has; all of it is thrown away. The volume failed.
    /// After an error every call fails.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Fault> {
        let end = self.offset.saturating_add(bytes.len() as u64);
        if end > self.blob.size {
            let fault = self
                .blob
                .mismatch(format!("it has more bytes than that: at least {end}"));
            self.send(Job::Reject(fault)).await?;
            return Err(self.end().await);
        }
        let room = Arc::clone(&self.room);
        let Ok(permits) = room.acquire_many(weight(&bytes)).await else {
            return Err(self.end().await);
        };
        permits.forget();
        self.send(Job::Bytes(bytes)).await?;
        self.offset = end;
        Ok(())
    }

    /// Throws away what is there, and begins at the first byte. Readers that have read any of it fail.
    ///
    /// # Errors
    /// The volume failed.
    pub async fn restart(&mut self) -> Result<(), Fault> {
        let (done, wait) = oneshot::channel();
        self.send(Job::Restart(done)).await?;
        match wait.await {
            Ok(()) => {
                self.offset = 0;
                Ok(())
            }
            Err(_closed) => Err(self.end().await),
        }
    }

    /// Says that this is the end: the whole must be right now.
    ///
    /// # Errors
    /// `digest mismatch`, with what it is and what it should be: all of it is thrown away. The volume
    /// failed.
    pub async fn finish(mut self) -> Result<(), Fault> {
        self.send(Job::Finish).await?;
        match self.worker.take() {
            Some(worker) => worker.await.map_err(|error| died(&self.blob, &error))?,
            None => Err(self.end().await),
        }
    }

    async fn send(&mut self, job: Job) -> Result<(), Fault> {
        match self.jobs.send(job) {
            Ok(()) => Ok(()),
            Err(_closed) => Err(self.end().await),
        }
    }

    /// Why the worker has ended.
    async fn end(&mut self) -> Fault {
        let result = match self.worker.take() {
            Some(worker) => worker.await.map_err(|error| died(&self.blob, &error)).flatten(),
            None => Ok(()),
        };
        result.err().unwrap_or_else(|| {
            let asked = format!("write layer {}", self.blob.digest);
            Fault::new(Reason::Internal, asked, "an earlier call has failed already", "")
        })
    }
}

/// What bytes take of the queue. One piece may be larger than the queue: then it waits for all of it.
fn weight(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len())
        .unwrap_or(QUEUE_SIZE)
        .clamp(MIN_WEIGHT, QUEUE_SIZE)
}

fn died(blob: &Blob, error: &tokio::task::JoinError) -> Fault {
    Fault::new(
        Reason::Internal,
        format!("write layer {}", blob.digest),
        format!("the thread that does it has died: {error}"),
        "look at the puller's log",
    )
}

/// Lets those who wait for room know that there will be none.
struct CloseOnDrop<'a>(&'a Semaphore);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
