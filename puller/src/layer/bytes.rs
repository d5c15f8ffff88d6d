//! A layer's uncompressed bytes as its reader sees them: hashed once, counted once.

use std::sync::Arc;

use crate::{
    domain::{Activity, Digest, Digester, Reason},
    error::Fault,
};

use super::{
    Limits, fault,
    inflate::{Inflate, Message},
};

/// Bytes that come in pieces.
pub(crate) trait Stream {
    /// What is there, at least one byte; nothing at the end.
    fn fill(&mut self) -> Result<&[u8], Fault>;

    /// Takes `n` of the bytes that [`fill`](Self::fill) showed.
    fn consume(&mut self, n: usize);
}

impl Stream for &[u8] {
    fn fill(&mut self) -> Result<&[u8], Fault> {
        Ok(self)
    }

    fn consume(&mut self, n: usize) {
        *self = &self[n..];
    }
}

/// The bytes of an [`Inflate`].
pub(crate) struct Bytes {
    inflate: Inflate,
    layer: String,
    chunk: Vec<u8>,
    at: usize,
    end: usize,
    ended: bool,
    digester: Option<Digester>,
    limits: Limits,
    read: u64,
    activity: Arc<Activity>,
}

impl Bytes {
    /// `read` bytes were read from the image's earlier layers. The bytes are hashed as `diff_id` is.
    pub(crate) fn new(
        inflate: Inflate,
        layer: &str,
        diff_id: Option<&Digest>,
        limits: &Limits,
        read: u64,
        activity: &Arc<Activity>,
    ) -> Self {
        inflate.begin();
        Self {
            inflate,
            layer: layer.to_owned(),
            chunk: Vec::new(),
            at: 0,
            end: 0,
            ended: false,
            digester: diff_id.map(|digest| Digester::new(digest.algorithm())),
            limits: limits.clone(),
            read,
            activity: Arc::clone(activity),
        }
    }

    /// Reads the rest, so that all bytes are hashed and counted.
    pub(crate) fn drain(&mut self) -> Result<(), Fault> {
        loop {
            let n = self.fill()?.len();
            if n == 0 {
                return Ok(());
            }
            self.consume(n);
        }
    }

    /// Bytes read in all, those of earlier layers included.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// The digest of all bytes, if it was asked for.
    pub(crate) fn digest(self) -> Option<Digest> {
        self.digester.map(Digester::finish)
    }

    fn next_chunk(&mut self) -> Result<(), Fault> {
        if self.activity.is_cancelled() {
            return Err(fault::cancelled(&self.layer));
        }
        if !self.chunk.is_empty() {
            // The thread may have ended already: then it needs no buffer.
            let _ = self.inflate.spare.send(std::mem::take(&mut self.chunk));
        }
        (self.at, self.end) = (0, 0);
        match self.inflate.messages.recv() {
            Ok(Message::Chunk(chunk, end)) => {
                (self.chunk, self.end) = (chunk, end);
                self.read += end as u64;
                self.limits.check_read(&self.layer, self.read)?;
                if let Some(digester) = &mut self.digester {
                    digester.update(&self.chunk[..end]);
                }
                Ok(())
            }
            Ok(Message::End(outcome)) => {
                self.ended = true;
                outcome.map_err(|fault| self.named(fault))
            }
            Err(_) => Err(Fault::new(
                Reason::Internal,
                format!("unpack {}", self.layer),
                "the thread that decompresses it died",
                "look at the puller's log",
            )),
        }
    }

    /// The thread does not know the layer's name, but a person wants to.
    fn named(&self, mut fault: Fault) -> Fault {
        if matches!(fault.reason, Reason::MalformedLayer | Reason::LimitExceeded) {
            fault.asked = format!("unpack {}", self.layer);
        }
        fault
    }
}

impl Stream for Bytes {
    fn fill(&mut self) -> Result<&[u8], Fault> {
        while self.at == self.end && !self.ended {
            self.next_chunk()?;
        }
        Ok(&self.chunk[self.at..self.end])
    }

    fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.at);
        self.at += n;
    }
}
