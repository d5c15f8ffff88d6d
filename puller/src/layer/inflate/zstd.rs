//! zstd (RFC 8878).

use std::io::Read;

use zstd::stream::raw::{DParameter, Decoder, Operation};

use crate::{domain::Activity, error::Fault};

use super::{
    NAME, fault,
    input::Input,
    output::{Output, Stop},
    turn::{Turn, WidePermit},
};

/// RFC 8878, section 3.1.1.
const FRAME: u32 = 0xFD2F_B528;

/// RFC 8878, section 3.1.2: the first of sixteen.
const SKIPPABLE: u32 = 0x184D_2A50;

/// The longest header of a frame: magic, descriptor, window, dictionary ID and content size.
const HEADER: usize = 4 + 1 + 1 + 4 + 8;

/// Windows up to this, a power of two, are free: RFC 8878, section 3.1.1.1.2, asks every decoder to
/// support 8 MiB.
const FREE_WINDOW_LOG: u32 = 23;

/// Windows up to this, a power of two (128 MiB, what the zstd tool itself accepts), are decompressed one
/// at a time in the whole process; larger ones not at all.
const MAX_WINDOW_LOG: u32 = 27;

pub(super) fn begins(head: &[u8]) -> bool {
    magic(head).is_some_and(|magic| magic == FRAME || is_skippable(magic))
}

/// Decompresses every frame. What follows the last one and is no frame ends the stream; whether anything
/// is missing is for the diffID.
pub(super) fn decompress(
    input: &mut Input<impl Read>,
    output: &mut Output,
    turn: &Turn,
    activity: &Activity,
) -> Result<(), Stop> {
    let mut decoder = Decoder::new().map_err(|error| damaged(&error))?;
    let mut permit: Option<WidePermit> = None;
    loop {
        let head = input.peek(HEADER)?;
        match magic(head) {
            Some(FRAME) => {
                let Header { window, content } = Header::parse(head).ok_or_else(cut)?;
                if window > 1 << MAX_WINDOW_LOG {
                    let fault = fault::limit(NAME, "bytes of zstd window", window, 1 << MAX_WINDOW_LOG);
                    return Err(fault.into());
                }
                let wide = window > 1 << FREE_WINDOW_LOG;
                if wide && permit.is_none() {
                    permit = Some(turn.wide(activity)?);
                }
                let log = if wide { MAX_WINDOW_LOG } else { FREE_WINDOW_LOG };
                decoder
                    .reinit()
                    .and_then(|()| decoder.set_parameter(DParameter::WindowLogMax(log)))
                    .map_err(|error| damaged(&error))?;
                let size = frame(&mut decoder, input, output)?;
                // The library looks at this itself, but not where the last block is empty and the frame has come in
                // pieces: what a layer is must not depend on that.
                if content.is_some_and(|content| content != size) {
                    let happened =
                        format!("its zstd data is damaged: a frame of {size} bytes says it has others");
                    return Err(fault::malformed(NAME, happened).into());
                }
            }
            Some(magic) if is_skippable(magic) => skip(input)?,
            _ => return Ok(()),
        }
    }
}

/// Decompresses one frame; how many bytes it has become.
fn frame(decoder: &mut Decoder<'_>, input: &mut Input<impl Read>, output: &mut Output) -> Result<u64, Stop> {
    let mut size = 0;
    loop {
        let bytes = input.fill()?;
        let status = decoder
            .run_on_buffers(bytes, output.space()?)
            .map_err(|error| damaged(&error))?;
        let at_end = bytes.is_empty();
        input.consume(status.bytes_read);
        output.advance(status.bytes_written, input.taken())?;
        size += status.bytes_written as u64;
        if status.remaining == 0 {
            return Ok(size);
        }
        if at_end && status.bytes_written == 0 {
            return Err(cut().into());
        }
    }
}

fn skip(input: &mut Input<impl Read>) -> Result<(), Stop> {
    let size = *input
        .peek(8)?
        .get(4..)
        .and_then(<[u8]>::first_chunk)
        .ok_or_else(cut)?;
    let mut left = 8 + u64::from(u32::from_le_bytes(size));
    while left > 0 {
        let there = input.fill()?.len();
        if there == 0 {
            return Err(cut().into());
        }
        let n = there.min(usize::try_from(left).unwrap_or(usize::MAX));
        input.consume(n);
        left -= n as u64;
    }
    Ok(())
}

fn magic(head: &[u8]) -> Option<u32> {
    head.first_chunk().copied().map(u32::from_le_bytes)
}

fn is_skippable(magic: u32) -> bool {
    magic & !0xF == SKIPPABLE
}

/// What a frame says of itself. RFC 8878, section 3.1.1.1.
struct Header {
    /// Bytes of memory that it asks for: its window, or its content if that is one segment.
    window: u64,
    /// Bytes that it becomes, if it says so.
    content: Option<u64>,
}

impl Header {
    /// `None`: it is not all there.
    fn parse(head: &[u8]) -> Option<Self> {
        let descriptor = *head.get(4)?;
        let single_segment = descriptor & 0x20 != 0;
        let dictionary_id = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let (window, after) = if single_segment {
            (None, 5)
        } else {
            let byte = *head.get(5)?;
            let base = 1_u64 << (10 + (byte >> 3));
            (Some(base + base / 8 * u64::from(byte & 7)), 6)
        };
        let content = head.get(after + dictionary_id..)?;
        let content = match descriptor >> 6 {
            0 if !single_segment => None,
            0 => Some(u64::from(*content.first()?)),
            1 => Some(u64::from(u16::from_le_bytes(*content.first_chunk()?)) + 256),
            2 => Some(u64::from(u32::from_le_bytes(*content.first_chunk()?))),
            _ => Some(u64::from_le_bytes(*content.first_chunk()?)),
        };
        Some(Self {
            window: window.or(content)?,
            content,
        })
    }
}

fn damaged(error: &std::io::Error) -> Fault {
    fault::malformed(NAME, format!("its zstd data is damaged: {error}"))
}

fn cut() -> Fault {
    fault::malformed(NAME, "its zstd data ends too early")
}
