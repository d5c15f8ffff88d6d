//! One layer's compressed bytes, from the registry to its blob file.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{Engine, Monitor, plan::Layer, slots::MovingSlot};
use crate::{
    domain::{Activity, Reason},
    error::Fault,
    registry::{Mirror, Repository},
    store::{Blob, BlobWriter},
};

/// Whoever is to bring a layer and gets nothing for this long lets others try: a registry that hangs
/// must not keep a layer from the pull of another registry that has it too.
const PATIENCE: Duration = Duration::from_secs(2);

/// One layer on its way.
pub(super) struct Download<'a> {
    pub(super) engine: &'a Engine,
    pub(super) repository: &'a Repository,
    pub(super) slot: &'a MovingSlot,
    pub(super) monitor: &'a Monitor,
    pub(super) layer: &'a Layer,
    pub(super) blob: &'a Arc<Blob>,
}

/// Who has brought the layer.
#[derive(PartialEq, Eq)]
enum Brought {
    ByUs,
    BySomebodyElse,
}

/// Who has sent a layer's bytes, should they be the wrong ones.
#[derive(Default)]
struct Senders {
    mirrors: Vec<Mirror>,
    /// What the first answer of the attempt looked like.
    looks: Option<String>,
}

impl Senders {
    fn explained(&self, mut fault: Fault) -> Fault {
        if let Some(looks) = &self.looks {
            fault.happened = format!("{}; of the answer, {looks}", fault.happened);
        }
        fault
    }
}

/// What became of one connection.
enum Connection {
    /// All bytes are here.
    Complete,
    /// Another pull has completed the layer meanwhile.
    Overtaken,
    /// It has brought something and broke, or somebody else has brought other bytes than it goes on with.
    Again,
}

impl Download<'_> {
    /// Brings the blob until it is verified: downloads what is missing, unless another attempt does.
    pub(super) async fn run(self) -> Result<(), Fault> {
        if self.blob.received() > 0 {
            self.monitor.bytes_are_there();
        }
        let brought = match (self.turn().await?, &self.layer.data) {
            (None, None) => Brought::BySomebodyElse,
            (Some(writer), None) => self.fetch(writer).await?,
            // The manifest holds it, so whoever may have the one may have the other.
            (None, Some(_)) => Brought::ByUs,
            (Some(writer), Some(data)) => copy(writer, data).await?,
        };
        self.monitor.bytes_are_there();
        let origins = &self.engine.origins;
        if brought == Brought::BySomebodyElse && !origins.has(&self.layer.digest, self.repository) {
            // Another pull brought it, or an earlier run did: ask whether we may have it.
            self.engine
                .registry
                .has_blob(self.repository, &self.layer.digest)
                .await?;
        }
        origins.add(&self.layer.digest, self.repository);
        Ok(())
    }

    /// Waits for the turn to write; none: the blob is verified. Also waits while what is on the volume
    /// already is hashed again.
    async fn turn(&self) -> Result<Option<BlobWriter>, Fault> {
        let what = format!(
            "layer {}, which another pull is bringing or which is being checked",
            self.layer.digest
        );
        let _wait = self.repository.activity.waiting_for(what);
        self.blob.writer().await
    }

    async fn fetch(&self, mut writer: BlobWriter) -> Result<Brought, Fault> {
        loop {
            let mut senders = Senders::default();
            let fault = match self.fetch_from(&mut senders, writer).await {
                Err(fault) if fault.reason == Reason::DigestMismatch => senders.explained(fault),
                ended => return ended,
            };
            if senders.mirrors.is_empty() {
                return Err(fault);
            }
            // Which of them it was can't be known. All rest, so that somebody else is asked now.
            for mirror in senders.mirrors {
                mirror.passed_over(&fault);
            }
            writer = match self.turn().await? {
                Some(writer) => writer,
                None => return Ok(Brought::BySomebodyElse),
            };
        }
    }

    /// The same; who has sent something is noted down.
    async fn fetch_from(&self, senders: &mut Senders, writer: BlobWriter) -> Result<Brought, Fault> {
        let mut holder = Some(writer);
        loop {
            let offset = match &holder {
                Some(writer) => writer.offset(),
                None => match self.turn().await? {
                    None => return Ok(Brought::BySomebodyElse),
                    Some(writer) => holder.insert(writer).offset(),
                },
            };
            let connection = if offset < self.blob.size() {
                self.connection(offset, &mut holder, senders).await?
            } else {
                Connection::Complete
            };
            match (connection, holder.take()) {
                (Connection::Complete, Some(writer)) => {
                    writer.finish().await?;
                    return Ok(Brought::ByUs);
                }
                (Connection::Overtaken, _) => return Ok(Brought::BySomebodyElse),
                (Connection::Complete | Connection::Again, writer) => holder = writer,
            }
        }
    }

    /// Reads from one connection until it ends. One that is cut after it has brought new bytes is worth
    /// another; one that brings nothing ends the attempt, unless it was a mirror's.
    async fn connection(
        &self,
        offset: u64,
        holder: &mut Option<BlobWriter>,
        senders: &mut Senders,
    ) -> Result<Connection, Fault> {
        let asked = self
            .engine
            .registry
            .blob(self.repository, &self.layer.digest, self.blob.size(), offset);
        let mut stream = patiently(holder, asked).await?;
        senders.mirrors.extend(stream.mirror.clone());
        // A registry that sends the whole again sends what is here already first. Should it be other bytes
        // than those, the digest will tell.
        let mut at = stream.start;
        let end = loop {
            let chunk = match patiently(holder, stream.chunks.next()).await {
                Some(Ok(chunk)) => chunk,
                Some(Err(fault)) => break Some(fault),
                None => break None,
            };
            senders.looks.get_or_insert_with(|| stream.looks.with(&chunk));
            self.monitor.bytes_are_there();
            Activity::add(&self.repository.activity.bytes_fetched, chunk.len() as u64);
            patiently(holder, self.slot.hold()).await;
            let writer = match holder {
                Some(writer) => writer,
                None => match self.turn().await? {
                    Some(writer) => holder.insert(writer),
                    None => return Ok(Connection::Overtaken),
                },
            };
            if at > writer.offset() {
                return Ok(Connection::Again);
            }
            let new = after(chunk, &mut at, writer.offset());
            if !new.is_empty() {
                writer.write(new).await?;
            }
        };
        let here = holder
            .as_ref()
            .map_or_else(|| self.blob.received(), BlobWriter::offset);
        if here >= self.blob.size() {
            return Ok(Connection::Complete);
        }
        let fault = match end {
            Some(fault) if fault.reason != Reason::Network || here <= offset => fault,
            None if here <= offset => Fault::new(
                Reason::Network,
                format!(
                    "layer {} of {}/{}",
                    self.layer.digest, self.repository.registry, self.repository.path
                ),
                format!("the answer ended after {here} of {} bytes", self.blob.size()),
                "the next attempt goes on from there",
            ),
            _ => {
                tracing::debug!(digest = %self.layer.digest, here, "the connection was cut; goes on from here");
                return Ok(Connection::Again);
            }
        };
        match stream.mirror {
            Some(mirror) => {
                mirror.passed_over(&fault);
                Ok(Connection::Again)
            }
            None => Err(fault),
        }
    }
}

/// Takes what a manifest held itself.
async fn copy(mut writer: BlobWriter, data: &Bytes) -> Result<Brought, Fault> {
    let new = after(data.clone(), &mut 0, writer.offset());
    if !new.is_empty() {
        writer.write(new).await?;
    }
    writer.finish().await?;
    Ok(Brought::ByUs)
}

/// The part of a chunk that lies at or after `offset`; `at` is where the chunk begins, and becomes where
/// it ends.
fn after(mut chunk: Bytes, at: &mut u64, offset: u64) -> Bytes {
    let known = usize::try_from(offset.saturating_sub(*at))
        .unwrap_or(usize::MAX)
        .min(chunk.len());
    *at += chunk.len() as u64;
    chunk.split_off(known)
}

/// Waits for the network, or for a slot. Whoever holds the writer longer than is decent meanwhile, lets it
/// go.
async fn patiently<T>(holder: &mut Option<BlobWriter>, what: impl Future<Output = T>) -> T {
    tokio::pin!(what);
    if holder.is_some() {
        if let Ok(answer) = tokio::time::timeout(PATIENCE, &mut what).await {
            return answer;
        }
        *holder = None;
    }
    what.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_chunk_is_left_out() {
        let chunk = || Bytes::from_static(b"abcdef");
        for (at, offset, new) in [
            (0, 0, "abcdef"),
            (0, 2, "cdef"),
            (4, 6, "cdef"),
            (0, 6, ""),
            (0, 100, ""),
        ] {
            let mut end = at;
            assert_eq!(after(chunk(), &mut end, offset), new.as_bytes());
            assert_eq!(end, at + 6);
        }
    }
}
