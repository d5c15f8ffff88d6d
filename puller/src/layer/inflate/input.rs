//! The compressed bytes, with a look ahead.

use std::io::{self, Read};

use crate::error::Fault;

use super::{NAME, fault};

/// Bytes read at once.
const BUFFER: usize = 64 << 10;

pub(super) struct Input<R> {
    source: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    taken: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            ended: false,
            taken: 0,
        }
    }

    /// Bytes that were consumed.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// What is there, at least one byte; nothing at the end.
    pub(super) fn fill(&mut self) -> Result<&[u8], Fault> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.read_more()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// The next `n` bytes, or fewer at the end; they are not consumed.
    pub(super) fn peek(&mut self, n: usize) -> Result<&[u8], Fault> {
        debug_assert!(n <= BUFFER);
        while self.end - self.start < n && !self.ended {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            self.read_more()?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + n)])
    }

    pub(super) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        self.taken += n as u64;
    }

    /// Reads the rest.
    pub(super) fn drain(&mut self) -> Result<(), Fault> {
        loop {
            let n = self.fill()?.len();
            if n == 0 {
                return Ok(());
            }
            self.consume(n);
        }
    }

    fn read_more(&mut self) -> Result<(), Fault> {
        while !self.ended {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    self.ended = n == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fault::source(NAME, error)),
            }
        }
        Ok(())
    }
}
