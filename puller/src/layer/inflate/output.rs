//! The decompressed bytes, in buffers that go back and forth.

use std::sync::mpsc::{Receiver, Sender};

use crate::error::Fault;

use super::{super::Limits, BUFFER, BUFFERS, Message, NAME};

/// Why the thread ends early.
pub(super) enum Stop {
    /// Nobody reads any more.
    Gone,
    /// Something is wrong with the bytes.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(super) struct Output {
    sender: Sender<Message>,
    returned: Receiver<Vec<u8>>,
    limits: Limits,
    current: Option<Vec<u8>>,
    filled: usize,
    made: usize,
    total: u64,
}

impl Output {
    pub(super) fn new(sender: Sender<Message>, returned: Receiver<Vec<u8>>, limits: Limits) -> Self {
        Self {
            sender,
            returned,
            limits,
            current: None,
            filled: 0,
            made: 0,
            total: 0,
        }
    }

    /// Room for at least one byte. Waits while all buffers are with the reader.
    pub(super) fn space(&mut self) -> Result<&mut [u8], Stop> {
        if self.filled == BUFFER {
            self.send()?;
        }
        let buffer = match self.current.take() {
            Some(buffer) => buffer,
            None => self.fresh()?,
        };
        Ok(&mut self.current.insert(buffer)[self.filled..])
    }

    /// `n` bytes of the room were filled, `compressed` bytes were consumed so far in all.
    pub(super) fn advance(&mut self, n: usize, compressed: u64) -> Result<(), Fault> {
        self.filled += n;
        self.total += n as u64;
        match self.limits.ratio_fault(NAME, compressed, self.total) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Hands over what is left and how it ended.
    pub(super) fn end(mut self, outcome: Result<(), Stop>) {
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(Stop::Fault(fault)) => Err(fault),
            Err(Stop::Gone) => return,
        };
        // A failed send means that nobody reads any more, and then nobody misses the rest.
        if self.send().is_ok() {
            let _ = self.sender.send(Message::End(outcome));
        }
    }

    fn send(&mut self) -> Result<(), Stop> {
        if let Some(buffer) = self.current.take() {
            let filled = std::mem::take(&mut self.filled);
            self.sender
                .send(Message::Chunk(buffer, filled))
                .map_err(|_| Stop::Gone)?;
        }
        Ok(())
    }

    fn fresh(&mut self) -> Result<Vec<u8>, Stop> {
        if let Ok(buffer) = self.returned.try_recv() {
            return Ok(buffer);
        }
        if self.made < BUFFERS {
            self.made += 1;
            return Ok(vec![0; BUFFER]);
        }
        self.returned.recv().map_err(|_| Stop::Gone)
    }
}
