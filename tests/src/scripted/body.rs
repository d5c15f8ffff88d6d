//! Bodies that come slowly, stop, or break.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream::unfold};
use tokio::time::{Instant, sleep_until};

use super::rule::RuleState;

/// Bytes in one piece when nothing slows the body down.
const PIECE: u64 = 64 << 10;

/// A throttled body comes in so many pieces a second: often enough that a progress bar moves.
const PIECES_PER_SECOND: u64 = 20;

/// How a body is sent.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The connection breaks after so many bytes.
    pub(crate) cut_after: Option<u64>,
    /// Nothing more after so many bytes until the rule is released.
    pub(crate) stall_after: Option<u64>,
    /// Bytes a second.
    pub(crate) rate: Option<u64>,
    /// After the body come spaces, without end.
    pub(crate) endless: bool,
}

struct Sending {
    body: Bytes,
    sent: u64,
    started: Instant,
    pace: Pace,
    rule: Option<Arc<RuleState>>,
}

/// The body's pieces. An error makes hyper break the connection.
pub(crate) fn stream(
    body: Bytes,
    pace: Pace,
    rule: Option<Arc<RuleState>>,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let sending = Sending {
        body,
        sent: 0,
        started: Instant::now(),
        pace,
        rule,
    };
    unfold(Some(sending), |sending| async {
        let mut sending = sending?;
        match sending.next().await? {
            Ok(piece) => Some((Ok(piece), Some(sending))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

impl Sending {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let Self { sent, pace, .. } = self;
        if let Some(rate) = pace.rate {
            sleep_until(self.started + Duration::from_secs_f64(*sent as f64 / rate as f64)).await;
        }
        // hyper writes out what it has when a body has nothing ready: what was sent before a cut arrives.
        tokio::task::yield_now().await;
        if pace.cut_after.is_some_and(|limit| *sent >= limit) {
            return Some(Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "cut as the scenario wants it",
            )));
        }
        if let (Some(limit), Some(rule)) = (pace.stall_after, &self.rule)
            && *sent >= limit
        {
            rule.released().await;
            pace.stall_after = None;
        }
        if self.body.is_empty() && pace.endless {
            self.body = Bytes::from_static(&[b' '; PIECE as usize]);
        }
        if self.body.is_empty() {
            return None;
        }
        let piece = pace
            .rate
            .map_or(PIECE, |rate| (rate / PIECES_PER_SECOND).clamp(1, PIECE));
        let stops = [pace.cut_after, pace.stall_after].into_iter().flatten();
        let piece = stops
            .map(|stop| stop - *sent)
            .chain([piece, self.body.len() as u64])
            .min()?;
        *sent += piece;
        Some(Ok(self.body.split_to(piece as usize)))
    }
}
