//! A layer's bytes, decompressed on a thread of their own.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use crate::{
    domain::{Activity, Reason},
    error::Fault,
};

use self::input::Input;
use super::{Limits, fault};

mod gzip;
mod input;
mod output;
mod turn;
mod zstd;

use self::output::{Output, Stop};
use self::turn::Turn;

/// Bytes of a buffer: large enough that handing one over costs nothing beside filling it, small enough
/// that it is still in the second-level cache when its bytes are hashed and written.
pub(super) const BUFFER: usize = 256 << 10;

/// Buffers of a layer. A thread runs at most this far ahead of its reader: 1 MiB a layer.
pub(super) const BUFFERS: usize = 4;

/// What faults call a layer before it is applied under its name.
const NAME: &str = "a layer";

/// What the thread hands over.
pub(super) enum Message {
    /// A buffer and how many of its bytes count.
    Chunk(Vec<u8>, usize),
    /// The last message.
    End(Result<(), Fault>),
}

/// A layer that is being decompressed.
///
/// The thread tells gzip, zstd and plain archives apart by their first bytes (a media type is only a
/// hint) and fills recycled buffers until all are full. It ends when the source does, when the source
/// fails, or at its next buffer after this value is dropped: a source that blocks must fail when the
/// attempt is cancelled.
pub struct Inflate {
    pub(super) messages: Receiver<Message>,
    pub(super) spare: Sender<Vec<u8>>,
    turn: Arc<Turn>,
}

impl Inflate {
    /// Starts the thread. `source` gives the compressed bytes; an error of it that wraps a [`Fault`]
    /// (`io::Error::other(fault)`) is what [`Tree::apply`](super::Tree::apply) fails with.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn spawn(
        source: impl Read + Send + 'static,
        limits: &Limits,
        activity: Arc<Activity>,
    ) -> Result<Self, Fault> {
        let (sender, messages) = mpsc::channel();
        let (spare, returned) = mpsc::channel();
        let turn = Arc::new(Turn::default());
        let limits = limits.clone();
        let waited = Arc::clone(&turn);
        thread::Builder::new()
            .name("inflate".into())
            .spawn(move || {
                let mut output = Output::new(sender, returned, limits);
                let mut input = Input::new(source);
                let outcome = decompress(&mut input, &mut output, &waited, &activity);
                output.end(outcome);
            })
            .map_err(|error| thread_fault(&error))?;
        Ok(Self {
            messages,
            spare,
            turn,
        })
    }

    /// The layer is being applied: only from now on may it wait for, and hold, what there is only one
    /// of in the process. A layer that merely runs ahead could otherwise hold it for ever.
    pub(super) fn begin(&self) {
        self.turn.begin();
    }
}

impl Drop for Inflate {
    fn drop(&mut self) {
        self.turn.give_up();
    }
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate").finish_non_exhaustive()
    }
}

pub(super) fn thread_fault(error: &io::Error) -> Fault {
    Fault::new(
        Reason::Internal,
        "start a thread to unpack a layer",
        error.to_string(),
        "look at the limit on processes",
    )
}

fn decompress(
    input: &mut Input<impl Read>,
    output: &mut Output,
    turn: &Turn,
    activity: &Activity,
) -> Result<(), Stop> {
    let head = input.peek(4)?;
    if gzip::begins(head) {
        gzip::decompress(input, output)?;
    } else if zstd::begins(head) {
        zstd::decompress(input, output, turn, activity)?;
    } else {
        plain(input, output)?;
    }
    // Whatever follows the last member belongs to the compressed digest, which is not this module's, and
    // is not part of the layer; but the layer is not done before its last byte was seen to arrive.
    input.drain()?;
    Ok(())
}

fn plain(input: &mut Input<impl Read>, output: &mut Output) -> Result<(), Stop> {
    loop {
        let bytes = input.fill()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let space = output.space()?;
        let n = bytes.len().min(space.len());
        space[..n].copy_from_slice(&bytes[..n]);
        input.consume(n);
        output.advance(n, input.taken())?;
    }
}

#[cfg(test)]
mod tests;
