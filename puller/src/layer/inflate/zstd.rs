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

/// The longest part of a frame's header that [`window`] reads: magic, descriptor, dictionary ID and
/// content size.
const HEADER: usize = 4 + 1 + 4 + 8;

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
                let window = window(head).ok_or_else(cut)?;
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
                frame(&mut decoder, input, output)?;
            }
            Some(magic) if is_skippable(magic) => skip(input)?,
            _ => return Ok(()),
        }
    }
}

fn frame(decoder: &mut Decoder<'_>, input: &mut Input<impl Read>, output: &mut Output) -> Result<(), Stop> {
    loop {
        let bytes = input.fill()?;
        let status = decoder
            .run_on_buffers(bytes, output.space()?)
            .map_err(|error| damaged(&error))?;
        let at_end = bytes.is_empty();
        input.consume(status.bytes_read);
        output.advance(status.bytes_written, input.taken())?;
        if status.remaining == 0 {
            return Ok(());
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

/// Bytes of memory that the frame asks for: its window, or its content if that is one segment. `None`
/// when the header is not all there. RFC 8878, section 3.1.1.1.
fn window(head: &[u8]) -> Option<u64> {
    let descriptor = *head.get(4)?;
    let single_segment = descriptor & 0x20 != 0;
    if !single_segment {
        let byte = *head.get(5)?;
        let base = 1_u64 << (10 + (byte >> 3));
        return Some(base + base / 8 * u64::from(byte & 7));
    }
    let dictionary_id = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = head.get(5 + dictionary_id..)?;
    Some(match descriptor >> 6 {
        0 => u64::from(*content.first()?),
        1 => u64::from(u16::from_le_bytes(*content.first_chunk()?)) + 256,
        2 => u64::from(u32::from_le_bytes(*content.first_chunk()?)),
        _ => u64::from_le_bytes(*content.first_chunk()?),
    })
}

fn damaged(error: &std::io::Error) -> Fault {
    fault::malformed(NAME, format!("its zstd data is damaged: {error}"))
}

fn cut() -> Fault {
    fault::malformed(NAME, "its zstd data ends too early")
}
