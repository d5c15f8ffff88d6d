//! A thread that writes small files.
//!
//! Creating a file costs far more than filling a small one, and two threads create nearly twice as many.
//! The unpacking thread hands files over while the queue has room and writes them itself while it has
//! not, so neither waits for the other. It clears the way first: a job always finds its name free.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{domain::Activity, error::Fault};

use super::{dirs::Dir, inflate};

/// Larger files are written by the unpacking thread straight from the buffers they came in.
pub(super) const MAX_FILE: u64 = 64 << 10;

/// Files that may wait. Enough to ride out the sleeps of either thread.
const MAX_JOBS: usize = 64;

/// Bytes that may wait: what a tree costs beside its layers' buffers.
const MAX_BYTES: usize = 1 << 20;

/// A file to be written.
pub(super) struct Job {
    pub(super) dir: Arc<Dir>,
    pub(super) name: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) executable: bool,
}

/// How files are created.
#[derive(Debug, Clone, Copy)]
pub(super) struct Creation {
    /// The process's umask or a default ACL takes bits away at creation.
    pub(super) set_mode: bool,
}

/// Why files are missing.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// A file could not be written.
    Write { name: Vec<u8>, errno: Errno },
    /// The thread has panicked.
    Died,
}

/// The thread and its queue.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is a job, or no more will come.
    filled: Condvar,
    /// A job is done.
    emptied: Condvar,
    /// Jobs done; they are done in order.
    done: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    handed: u64,
    closed: bool,
    /// The thread waits, or somebody waits for it: only then must they be woken, which takes a system
    /// call.
    idle: bool,
    awaited: bool,
    failure: Option<Failure>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("done", &self.done())
            .finish_non_exhaustive()
    }
}

impl Writer {
    pub(super) fn spawn(creation: Creation, activity: Arc<Activity>) -> Result<Self, Fault> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            done: AtomicU64::new(0),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("write".into())
            .spawn(move || {
                let end = End(&theirs);
                run(&theirs, creation, &activity);
                drop(end);
            })
            .map_err(|error| inflate::thread_fault(&error))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// An empty buffer for a file.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.shared.queue().spare.pop().unwrap_or_default()
    }

    /// Takes the job and gives its number, or gives it back when the queue is full.
    pub(super) fn offer(&self, job: Job) -> Result<u64, Job> {
        let mut queue = self.shared.queue();
        if queue.closed || queue.jobs.len() >= MAX_JOBS || queue.bytes + job.data.len() > MAX_BYTES {
            return Err(job);
        }
        queue.bytes += job.data.len();
        queue.handed += 1;
        let number = queue.handed;
        queue.jobs.push_back(job);
        let wake = std::mem::take(&mut queue.idle);
        drop(queue);
        if wake {
            self.shared.filled.notify_one();
        }
        Ok(number)
    }

    /// A buffer is not needed any more.
    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        keep(&mut self.shared.queue(), buffer);
    }

    /// Jobs up to this number are done.
    pub(super) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Acquire)
    }

    /// Waits until a job is done. Fails if any job has failed.
    pub(super) fn wait(&self, number: u64) -> Result<(), Failure> {
        let waiting = |queue: &mut Queue| {
            queue.awaited = self.done() < number && !queue.closed;
            queue.awaited
        };
        let queue = self.shared.emptied.wait_while(self.shared.queue(), waiting);
        match &queue.unwrap_or_else(PoisonError::into_inner).failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Waits until all jobs are done. Fails if any has failed.
    pub(super) fn drain(&self) -> Result<(), Failure> {
        let handed = self.shared.queue().handed;
        self.wait(handed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        {
            let mut queue = self.shared.queue();
            queue.closed = true;
            queue.jobs.clear();
        }
        self.shared.filled.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been told through the queue already.
            let _ = thread.join();
        }
    }
}

/// Tells who waits that the thread is gone, also when it panics.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        if !queue.closed {
            queue.failure.get_or_insert(Failure::Died);
        }
        queue.closed = true;
        self.0.emptied.notify_all();
    }
}

fn run(shared: &Shared, creation: Creation, activity: &Activity) {
    loop {
        let job = {
            let mut queue = shared.queue();
            loop {
                if let Some(job) = queue.jobs.pop_front() {
                    queue.bytes -= job.data.len();
                    break job;
                }
                if queue.closed {
                    return;
                }
                queue.idle = true;
                queue = shared.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let outcome = write_small(&job, creation);
        if outcome.is_ok() {
            Activity::add(&activity.unpacked_bytes, job.data.len() as u64);
        }
        let mut queue = shared.queue();
        if let Err(errno) = outcome {
            // The rest is not worth the trouble: the next wait fails.
            queue.failure.get_or_insert(Failure::Write {
                name: job.name,
                errno,
            });
        }
        keep(&mut queue, job.data);
        shared.done.fetch_add(1, Ordering::Release);
        let wake = queue.awaited;
        drop(queue);
        if wake {
            shared.emptied.notify_one();
        }
    }
}

fn keep(queue: &mut Queue, mut buffer: Vec<u8>) {
    // Buffers beyond what the queue can hold would be kept for nothing.
    if queue.spare.len() < MAX_BYTES / MAX_FILE as usize {
        buffer.clear();
        queue.spare.push(buffer);
    }
}

/// Writes a whole file.
pub(super) fn write_small(job: &Job, creation: Creation) -> Result<(), Errno> {
    let file = create(&job.dir, &job.name, job.executable, creation)?;
    write_all(&file, &job.data)
}

/// Creates a file that does not exist, with its final mode.
pub(super) fn create(
    dir: &Dir,
    name: &[u8],
    executable: bool,
    creation: Creation,
) -> Result<std::fs::File, Errno> {
    let mode = Mode::from_raw_mode(if executable { 0o555 } else { 0o444 });
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&dir.fd, name, flags, mode)?;
    if creation.set_mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    Ok(file.into())
}

/// Writes at the file's position.
pub(super) fn write_all(mut file: &std::fs::File, bytes: &[u8]) -> Result<(), Errno> {
    io::Write::write_all(&mut file, bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
