//! gzip (RFC 1952).

use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};

use super::{NAME, fault, input::Input, output::Output, output::Stop};

/// RFC 1952, section 2.3.1: ID1 and ID2.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Largest window of RFC 1951, as a power of two.
const WINDOW_BITS: u8 = 15;

pub(super) fn begins(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Decompresses every member: pigz and eStargz write many. What follows the last one and is not
/// another member (padding, garbage) ends the stream; whether anything is missing is for the diffID.
pub(super) fn decompress(input: &mut Input<impl Read>, output: &mut Output) -> Result<(), Stop> {
    let mut state = Decompress::new_gzip(WINDOW_BITS);
    loop {
        member(&mut state, input, output)?;
        if !begins(input.peek(MAGIC.len())?) {
            return Ok(());
        }
        state.reset(true);
    }
}

fn member(state: &mut Decompress, input: &mut Input<impl Read>, output: &mut Output) -> Result<(), Stop> {
    loop {
        let bytes = input.fill()?;
        let at_end = bytes.is_empty();
        let (taken, given) = (state.total_in(), state.total_out());
        let status = state
            .decompress(bytes, output.space()?, FlushDecompress::None)
            .map_err(|error| fault::malformed(NAME, format!("its gzip data is damaged: {error}")))?;
        let taken = (state.total_in() - taken) as usize;
        let given = (state.total_out() - given) as usize;
        input.consume(taken);
        output.advance(given, input.taken())?;
        match status {
            Status::StreamEnd => return Ok(()),
            Status::Ok | Status::BufError if taken + given > 0 => {}
            Status::Ok | Status::BufError => {
                let happened = if at_end {
                    "its gzip data ends too early"
                } else {
                    "its gzip data is damaged"
                };
                return Err(fault::malformed(NAME, happened).into());
            }
        }
    }
}
