//! A layer's compressed bytes: one private file that grows while it is downloaded, one writer at a
//! time, and any number of readers that follow it.
//!
//! ```text
//!   network ── write ─▶ worker thread ── write(2), hash ─▶ file ── pread ─▶ unpack threads
//!                                              │                    ▲
//!                                              └──── received ──────┘
//! ```
//!
//! Readers get bytes as soon as they are in the page cache, unverified; the *end* they get only when
//! all bytes are here and have the digest. Whoever unpacks has therefore read the right bytes if and
//! only if it has seen the end. If bytes that a reader has got may have been wrong, or are replaced, it
//! gets an error instead; a reader that has got none yet just begins anew.
//!
//! The file is not synced, and may be anything when a process finds it: the first writer hashes what is
//! there before it goes on, and `received` rises as it does. Afterwards the state of the hash is kept in
//! memory for as long as the [`Blob`] lives, from writer to writer.

mod reader;
mod writer;

use std::{
    ffi::CString,
    fs::File,
    io::{self, IoSlice},
    os::unix::fs::FileExt,
    sync::{
        Arc, Condvar, Mutex, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use tokio::sync::Notify;

pub use self::{
    reader::{BlobReader, READ_SIZE},
    writer::BlobWriter,
};
use super::{
    crash::{self, Point},
    files::lock,
    volume::Volume,
};
use crate::{
    domain::{Digest, Digester, Reason},
    error::Fault,
};

/// Bytes that are read at a time when a file from an earlier run is hashed.
const SCAN_SIZE: usize = 256 << 10;

/// A layer's file. There is one live value for each digest; see [`Volume::blob`].
#[derive(Debug)]
pub struct Blob {
    volume: Arc<Volume>,
    digest: Digest,
    size: u64,
    file: Arc<File>,
    /// Whoever holds it writes.
    turn: Arc<tokio::sync::Mutex<Prefix>>,
    state: Mutex<State>,
    /// Told at each change of `state`: for readers, on threads.
    changed: Condvar,
    /// Told when it is verified: for tasks.
    done: Notify,
    /// The file goes with the last handle.
    discard: AtomicBool,
}

/// The part of the file that the hash has seen.
#[derive(Debug)]
struct Prefix {
    offset: u64,
    digester: Digester,
    /// What was in the file when it was opened has been hashed.
    scanned: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that readers may read.
    received: u64,
    verified: bool,
    /// Raised each time the file is begun anew, before its bytes change.
    generation: u64,
    /// Why it was begun anew.
    fault: Option<Fault>,
}

impl Volume {
    /// The layer with that digest: the live one, or its file opened, or a new one. A blob whose file was
    /// to be discarded is kept again. Touches the disk, but briefly.
    ///
    /// # Errors
    /// Somebody uses the same digest with another size: then one of two manifests is wrong. The volume
    /// failed.
    pub fn blob(self: &Arc<Self>, digest: &Digest, size: u64) -> Result<Arc<Blob>, Fault> {
        let blob = {
            // Nothing that drops a blob may happen under this lock: its drop takes it too.
            let mut live = lock(&self.blobs);
            match live.get(digest).and_then(Weak::upgrade) {
                Some(blob) => blob,
                None => {
                    let blob = Arc::new(Blob::open(self, digest, size).map_err(|error| {
                        Fault::volume(format!("open the file of layer {digest}"), &error)
                    })?);
                    live.insert(digest.clone(), Arc::downgrade(&blob));
                    blob
                }
            }
        };
        if blob.size != size {
            return Err(Fault::new(
                Reason::DigestMismatch,
                format!("share layer {digest} of {size} bytes"),
                format!("another pull uses the same digest with {} bytes", blob.size),
                "one of the two manifests gives a wrong size; ask who made them",
            ));
        }
        blob.discard.store(false, Relaxed);
        Ok(blob)
    }
}

impl Blob {
    fn open(volume: &Arc<Volume>, digest: &Digest, size: u64) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(
            &volume.dirs.blobs,
            digest.file_name(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )?;
        crash::at(Point::BlobCreated);
        Ok(Self {
            volume: Arc::clone(volume),
            digest: digest.clone(),
            size,
            file: Arc::new(File::from(file)),
            turn: Arc::new(tokio::sync::Mutex::new(Prefix {
                offset: 0,
                digester: Digester::new(digest.algorithm()),
                scanned: false,
            })),
            state: Mutex::default(),
            changed: Condvar::new(),
            done: Notify::new(),
            discard: AtomicBool::new(false),
        })
    }

    /// The digest of the whole.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Bytes of the whole, as the descriptor says.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that are here and hashed or being hashed; those from an earlier run count as they are
    /// hashed again. It falls when the file turns out to be wrong.
    pub fn received(&self) -> u64 {
        lock(&self.state).received
    }

    /// Whether all bytes are here and have the digest. That stays so.
    pub fn verified(&self) -> bool {
        lock(&self.state).verified
    }

    /// Waits until all bytes are here and have the digest. It waits for ever if nobody writes them.
    pub async fn wait_verified(&self) {
        loop {
            let mut done = std::pin::pin!(self.done.notified());
            done.as_mut().enable();
            if self.verified() {
                return;
            }
            done.await;
        }
    }

    /// Lets the file go with the last handle: nobody will want to resume from it.
    pub fn discard_when_unused(&self) {
        self.discard.store(true, Relaxed);
    }

    /// Hashes what an earlier run left. Blocks.
    fn scan(&self, prefix: &mut Prefix) -> Result<(), Fault> {
        let failed =
            |error: &io::Error| Fault::volume(format!("read what is kept of layer {}", self.digest), error);
        let length = self.file.metadata().map_err(|error| failed(&error))?.len();
        if length > self.size {
            let why = format!(
                "the file kept of it has {length} bytes, and the whole has {}",
                self.size
            );
            self.restart(prefix, &self.mismatch(why))?;
        } else {
            let mut buffer = vec![0; SCAN_SIZE];
            while prefix.offset < length {
                let n = match self.file.read_at(&mut buffer, prefix.offset) {
                    Ok(0) => break,
                    Ok(n) => n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(failed(&error)),
                };
                self.advance(prefix, &[&buffer[..n]]);
            }
        }
        prefix.scanned = true;
        if length > 0 {
            crash::at(Point::BlobHashedAgain);
        }
        Ok(())
    }

    /// Writes the next bytes. Blocks.
    fn append(&self, prefix: &mut Prefix, pieces: &[Bytes]) -> Result<(), Fault> {
        self.write_all(prefix.offset, pieces)
            .map_err(|error| Fault::volume(format!("write layer {}", self.digest), &error))?;
        crash::at(Point::BlobWritten);
        self.advance(prefix, pieces);
        Ok(())
    }

    fn write_all(&self, mut offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = &mut slices[..];
        // Pieces that are empty do not count as bytes to write.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match rustix::io::pwritev(&self.file, rest, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    IoSlice::advance_slices(&mut rest, n);
                    offset += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes note of bytes that are in the file: readers first, so that they go on while we hash.
    fn advance(&self, prefix: &mut Prefix, pieces: &[impl AsRef<[u8]>]) {
        prefix.offset += pieces
            .iter()
            .map(|piece| piece.as_ref().len() as u64)
            .sum::<u64>();
        lock(&self.state).received = prefix.offset;
        self.changed.notify_all();
        for piece in pieces {
            prefix.digester.update(piece.as_ref());
        }
    }

    /// Compares the whole with the digest; what is not right is thrown away. Blocks.
    fn verify(&self, prefix: &mut Prefix) -> Result<(), Fault> {
        crash::at(Point::BlobComplete);
        let found = prefix.digester.clone().finish();
        let fault = if prefix.offset != self.size {
            self.mismatch(format!("it has {} bytes instead of {}", prefix.offset, self.size))
        } else if found != self.digest {
            self.mismatch(format!("its {} bytes have the digest {found}", self.size))
        } else {
            crash::at(Point::BlobVerified);
            lock(&self.state).verified = true;
            self.changed.notify_all();
            self.done.notify_waiters();
            return Ok(());
        };
        self.restart(prefix, &fault)?;
        Err(fault)
    }

    /// Begins anew with no bytes. Blocks.
    fn restart(&self, prefix: &mut Prefix, why: &Fault) -> Result<(), Fault> {
        {
            // Before the file changes: a reader looks at the generation after it has read.
            let mut state = lock(&self.state);
            state.received = 0;
            state.generation += 1;
            state.fault = Some(why.clone());
        }
        self.changed.notify_all();
        prefix.offset = 0;
        prefix.digester = Digester::new(self.digest.algorithm());
        self.file
            .set_len(0)
            .map_err(|error| Fault::volume(format!("empty the file of layer {}", self.digest), &error))?;
        crash::at(Point::BlobEmptied);
        Ok(())
    }

    fn mismatch(&self, happened: String) -> Fault {
        Fault::new(
            Reason::DigestMismatch,
            format!("get layer {} of {} bytes", self.digest, self.size),
            happened,
            "it is fetched again from its first byte; if that repeats, the registry or a proxy on the way to it \
             alters it",
        )
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        let mut live = lock(&self.volume.blobs);
        if live
            .get(&self.digest)
            .is_some_and(|other| other.strong_count() > 0)
        {
            // Somebody has opened the file again since our last handle went.
            return;
        }
        live.remove(&self.digest);
        let empty = self.file.metadata().is_ok_and(|file| file.len() == 0);
        if !empty && !self.discard.load(Relaxed) {
            return;
        }
        let removed = CString::new(self.digest.file_name())
            .map_err(io::Error::from)
            .and_then(|name| {
                self.volume
                    .trash
                    .put_open(&self.volume.dirs.blobs, &name, Arc::clone(&self.file))
            });
        crash::at(Point::BlobDiscarded);
        if let Err(error) = removed {
            tracing::warn!(digest = %self.digest, %error, "a layer's file stays until the next collection");
        }
    }
}

#[cfg(test)]
mod tests;
