//! Content codings, of servers that encode although `identity` was all that was asked for (RFC 9110 sections 8.4
//! and 12.5.3). Digests are of the bytes that a registry was given, and some storages say `gzip` of bytes that were
//! given to them so: an answer is taken as it is where that can be right, and decoded where it can't.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::{HeaderMap, header::CONTENT_ENCODING};

use crate::error::Fault;

/// What one step may make of the bytes that it takes, whatever they are.
const MOST_AT_ONCE: usize = 4 << 20;

/// Bytes that deflate makes of one at the most: 258 of two bits (RFC 1951, section 3.2.5).
const DEFLATE_RATIO: usize = 1_032;

/// The same of zstd: a block of 128 KiB of four bytes (RFC 8878, section 3.1.1.2).
const ZSTD_RATIO: usize = 32 << 10;

/// The largest window of zstd, as its power of two, that a decoder must have room for as a content coding (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;

/// How a gzip member (RFC 1952) and a frame of zstd (RFC 8878) begin.
const COMPRESSED: [&[u8]; 2] = [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]];

/// How an answer is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Zstd,
}

impl Coding {
    /// All that can be undone.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) const ALL: [Self; 3] = [Self::Gzip, Self::Deflate, Self::Zstd];

    /// The coding of an answer; `None`: it has none, one that nobody here knows, or several.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        match value.to_str().ok()?.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Encoded bytes that are decoded at a time.
    fn piece(self) -> usize {
        MOST_AT_ONCE
            / match self {
                Self::Gzip | Self::Deflate => DEFLATE_RATIO,
                Self::Zstd => ZSTD_RATIO,
            }
    }

    /// The whole of an answer, decoded; `None`: it is not encoded so, is cut off, or is longer than `cap`.
    pub(crate) fn decoded(self, encoded: &[u8], cap: usize) -> Option<Bytes> {
        let mut decoder = Decoder::new(self).ok()?;
        let mut decoded = Vec::new();
        for piece in encoded.chunks(self.piece()) {
            decoded.extend_from_slice(&decoder.decode(piece).ok()?);
            if decoded.len() > cap {
                return None;
            }
        }
        decoded.extend_from_slice(&decoder.finish().ok()?);
        (decoded.len() <= cap).then(|| decoded.into())
    }

    /// Whether what begins with `start` is encoded by this on top of a compression of its own, as an encoded layer is
    /// that is a compressed archive. Of zstd that can be known only if its first block is a short one.
    pub(super) fn is_on_top(self, start: &[u8]) -> bool {
        let begin = || {
            let mut decoder = Decoder::new(self)?;
            let mut begin = decoder.decode(&start[..start.len().min(self.piece())])?;
            begin.extend_from_slice(&decoder.flush()?);
            io::Result::Ok(begin)
        };
        begin().is_ok_and(|begin| COMPRESSED.iter().any(|magic| begin.starts_with(magic)))
    }

    /// The bytes of a body, decoded as they arrive. `broken` makes the fault of those that can't be.
    pub(crate) fn undo(
        self,
        chunks: BoxStream<'static, Result<Bytes, Fault>>,
        broken: impl Fn(&io::Error) -> Fault + Send + 'static,
    ) -> BoxStream<'static, Result<Bytes, Fault>> {
        let decoder = match Decoder::new(self) {
            Ok(decoder) => Some(decoder),
            Err(error) => return stream::iter([Err(broken(&error))]).boxed(),
        };
        let undone = Undone {
            chunks,
            left: Bytes::new(),
            piece: self.piece(),
            decoder,
            broken,
        };
        let next = |mut undone: Undone<_>| async { Ok(undone.next().await?.map(|bytes| (bytes, undone))) };
        stream::try_unfold(undone, next).boxed()
    }
}

struct Undone<F> {
    chunks: BoxStream<'static, Result<Bytes, Fault>>,
    /// What has come and is not decoded yet.
    left: Bytes,
    piece: usize,
    /// None: all has been decoded.
    decoder: Option<Decoder>,
    broken: F,
}

impl<F: Fn(&io::Error) -> Fault> Undone<F> {
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        while let Some(mut decoder) = self.decoder.take() {
            let decoded = if !self.left.is_empty() {
                let piece = self.left.split_to(self.left.len().min(self.piece));
                let decoded = decoder.decode(&piece);
                self.decoder = Some(decoder);
                decoded
            } else if let Some(chunk) = self.chunks.next().await {
                self.left = chunk?;
                self.decoder = Some(decoder);
                continue;
            } else {
                decoder.finish()
            };
            let decoded = decoded.map_err(|error| (self.broken)(&error))?;
            if !decoded.is_empty() {
                return Ok(Some(decoded.into()));
            }
        }
        Ok(None)
    }
}

/// Takes encoded bytes and gives what they decode to.
enum Decoder {
    // Several members are one body, as in files.
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Vec<u8>>>),
}

impl Decoder {
    fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(MultiGzDecoder::new(Vec::new())),
            Coding::Deflate => Self::Deflate(ZlibDecoder::new(Vec::new())),
            Coding::Zstd => {
                let mut decoder = zstd::stream::write::Decoder::new(Vec::new())?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Self::Zstd(Box::new(decoder))
            }
        })
    }

    fn decode(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        Ok(match self {
            Self::Gzip(decoder) => {
                decoder.write_all(piece)?;
                std::mem::take(decoder.get_mut())
            }
            Self::Deflate(decoder) => {
                decoder.write_all(piece)?;
                std::mem::take(decoder.get_mut())
            }
            Self::Zstd(decoder) => {
                decoder.write_all(piece)?;
                std::mem::take(decoder.get_mut())
            }
        })
    }

    /// What has been decoded and not been given yet.
    fn flush(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(decoder) => decoder.flush()?,
            Self::Deflate(decoder) => decoder.flush()?,
            Self::Zstd(decoder) => decoder.flush()?,
        }
        self.decode(&[])
    }

    /// What is left at the end.
    fn finish(mut self) -> io::Result<Vec<u8>> {
        match &mut self {
            Self::Gzip(decoder) => decoder.try_finish()?,
            Self::Deflate(decoder) => decoder.try_finish()?,
            Self::Zstd(decoder) => decoder.flush()?,
        }
        self.decode(&[])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::Reason;

    /// The bytes as a server sends them that encodes.
    pub(in crate::registry) fn encoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::new();
        let level = flate2::Compression::default();
        match coding {
            Coding::Gzip => flate2::read::GzEncoder::new(bytes, level)
                .read_to_end(&mut encoded)
                .map(drop),
            Coding::Deflate => flate2::read::ZlibEncoder::new(bytes, level)
                .read_to_end(&mut encoded)
                .map(drop),
            Coding::Zstd => zstd::stream::copy_encode(bytes, &mut encoded, 3),
        }
        .unwrap();
        encoded
    }

    async fn undone(coding: Coding, chunks: Vec<Result<Bytes, Fault>>) -> Result<Vec<u8>, Fault> {
        let broken = |error: &io::Error| Fault::new(Reason::DigestMismatch, "test", error.to_string(), "");
        let mut undone = coding.undo(stream::iter(chunks).boxed(), broken);
        let mut all = Vec::new();
        while let Some(bytes) = undone.next().await {
            all.extend_from_slice(&bytes?);
        }
        Ok(all)
    }

    #[test]
    fn reads_the_header() {
        for (values, coding) in [
            (&[][..], None),
            (&["identity"], None),
            (&["br"], None),
            (&["gzip"], Some(Coding::Gzip)),
            (&[" X-GZIP "], Some(Coding::Gzip)),
            (&["deflate"], Some(Coding::Deflate)),
            (&["zstd"], Some(Coding::Zstd)),
            (&["gzip, gzip"], None),
            (&["gzip", "gzip"], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(Coding::of(&headers), coding, "{values:?}");
        }
    }

    #[test]
    fn what_is_not_encoded_so_or_too_long_is_not_decoded() {
        for coding in Coding::ALL {
            assert_eq!(coding.decoded(b"{}", 100), None, "{coding:?}");
            let bomb = encoded(coding, &vec![0; 1 << 20]);
            assert_eq!(coding.decoded(&bomb, (1 << 20) - 1), None, "{coding:?}");
            assert!(coding.decoded(&bomb, 1 << 20).is_some(), "{coding:?}");
        }
    }

    #[test]
    fn a_step_makes_little_whatever_it_is_given() {
        for coding in Coding::ALL {
            // A block that is being made may be let out with the next bytes.
            const SLACK: usize = 256 << 10;
            let mut decoder = Decoder::new(coding).unwrap();
            for piece in encoded(coding, &vec![0; 64 << 20]).chunks(coding.piece()) {
                let made = decoder.decode(piece).unwrap().len();
                assert!(made <= MOST_AT_ONCE + SLACK, "{coding:?}: {made}");
            }
        }
    }

    #[test]
    fn an_encoded_layer_is_told_from_a_layer() {
        for coding in Coding::ALL {
            for compression in [Coding::Gzip, Coding::Zstd] {
                let layer = encoded(compression, &[7; 100_000]);
                assert!(coding.is_on_top(&encoded(coding, &layer)), "{coding:?}");
                assert!(!coding.is_on_top(&layer), "{coding:?}");
            }
            assert!(!coding.is_on_top(b""), "{coding:?}");
        }
    }

    proptest! {
        #[test]
        fn bodies_of_any_chunks_are_decoded(
            bytes in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2]), 0..20_000),
            cuts in prop::collection::vec(1usize..6_000, 1..5),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            for coding in Coding::ALL {
                let mut encoded = Bytes::from(encoded(coding, &bytes));
                prop_assert_eq!(coding.decoded(&encoded, bytes.len()), Some(bytes.clone().into()));
                let mut chunks = Vec::new();
                for cut in cuts.iter().cycle() {
                    if encoded.is_empty() {
                        break;
                    }
                    chunks.push(Ok(encoded.split_to(encoded.len().min(*cut))));
                    chunks.push(Ok(Bytes::new()));
                }
                prop_assert_eq!(runtime.block_on(undone(coding, chunks)), Ok(bytes.clone()));
            }
        }
    }

    #[tokio::test]
    async fn a_fault_of_the_body_and_one_of_its_coding_end_it() {
        for coding in Coding::ALL {
            let cut = Fault::new(Reason::Network, "test", "cut", "");
            let half = Bytes::from(encoded(coding, b"bytes").split_off(9));
            assert_eq!(
                undone(coding, vec![Err(cut.clone())]).await,
                Err(cut),
                "{coding:?}"
            );
            let fault = undone(coding, vec![Ok(half)]).await.unwrap_err();
            assert_eq!(fault.reason, Reason::DigestMismatch, "{coding:?}");
        }
    }
}
