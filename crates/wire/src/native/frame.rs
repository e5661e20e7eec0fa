//! Frames: they delimit columns and carry their checksum.
//!
//! ```text
//! 0 kind  1 version  2 codec  3 zero  4 stored length u32  8 length u32  12 checksum u64
//! 20 payload
//! ```
//!
//! Numbers are little endian. The checksum is XXH3-64 of the first twelve bytes and the payload as
//! it is stored.

use std::fmt;

use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

use super::MAGIC;

/// The version of frames that are written, and the only one that is read.
const VERSION: u8 = 1;

const HEADER_BYTES: usize = 20;

/// A frame holds no more than this before compression. The encoder closes a frame at an eighth of
/// it; the rest is room for the one histogram that may come on top.
pub const FRAME_RAW_BYTES_MAX: usize = 8 << 20;

/// Payloads that are shorter are not worth compressing.
const PLAIN_BYTES_MAX: usize = 64;

/// Level 1 is faster than a disk and takes most of what there is to take from columns.
const ZSTD_LEVEL: i32 = 1;

const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Series,
    Metadata,
    /// Counts of everything since the beginning of the stream.
    End,
}

impl FrameKind {
    const ALL: [Self; 3] = [Self::Series, Self::Metadata, Self::End];

    fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// One frame, checked and decompressed.
pub struct Frame {
    pub kind: FrameKind,
    pub payload: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.kind, self.payload.len())
    }
}

/// Why bytes are not a stream of frames.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    #[error("this is not the native form: the magic bytes are missing")]
    NotNative,
    #[error("unsupported frame version {0}")]
    Version(u8),
    #[error("unknown frame kind {0}")]
    Kind(u8),
    #[error("unknown frame codec {0}")]
    Codec(u8),
    #[error("a frame of {0} bytes is longer than {FRAME_RAW_BYTES_MAX}")]
    TooLong(usize),
    #[error("the checksum of a frame is wrong")]
    Checksum,
    #[error("a frame does not decompress to its stated length")]
    Decompress,
    #[error("a frame is truncated")]
    Short,
    #[error("{0}")]
    Malformed(&'static str),
    #[error("the stream breaks off: it has no final frame")]
    Truncated,
}

/// Appends a frame.
pub(super) fn push_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    payload: &[u8],
    compressor: &mut zstd::bulk::Compressor<'static>,
) {
    debug_assert!(payload.len() <= FRAME_RAW_BYTES_MAX);
    let begin = out.len();
    out.extend_from_slice(&[kind.number(), VERSION, RAW, 0]);
    out.resize(begin + HEADER_BYTES, 0);
    let stored = begin + HEADER_BYTES;
    let mut codec = RAW;
    if payload.len() > PLAIN_BYTES_MAX {
        out.resize(stored + zstd::zstd_safe::compress_bound(payload.len()), 0);
        let shorter = compressor.compress_to_buffer(payload, &mut out[stored..]);
        match shorter {
            Ok(length) if length < payload.len() => {
                out.truncate(stored + length);
                codec = ZSTD;
            }
            _ => out.truncate(stored),
        }
    }
    if codec == RAW {
        out.extend_from_slice(payload);
    }
    let stored_bytes = (out.len() - stored) as u32;
    let header = &mut out[begin..stored];
    header[2] = codec;
    header[4..8].copy_from_slice(&stored_bytes.to_le_bytes());
    header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let checksum = checksum(&out[begin..begin + 12], &out[stored..]);
    out[begin + 12..stored].copy_from_slice(&checksum.to_le_bytes());
}

pub(super) fn compressor() -> zstd::bulk::Compressor<'static> {
    zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("a level of zstd's own is no error")
}

fn checksum(header: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(header);
    hash.update(payload);
    hash.digest()
}

/// The result of one read from a stream.
#[derive(Debug)]
pub enum Step {
    /// The input must hold at least this many bytes to continue.
    More { at_least: usize },
    /// A frame, and how many bytes of the input it took.
    Frame { frame: Frame, taken: usize },
    /// Nothing follows.
    End,
}

/// What a stream continues with, without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHead {
    /// The magic bytes of a stream.
    Mark,
    /// A frame of so many bytes in all; the last one of its stream or not.
    Frame { length: usize, last: bool },
    /// More input is needed.
    More,
}

/// Identifies what `input` begins with. `open`: the magic bytes of the stream came before.
pub fn frame_head(input: &[u8], open: bool) -> Result<FrameHead, FrameError> {
    if !open {
        let known = input.len().min(MAGIC.len());
        return if input.get(..known) != MAGIC.get(..known) {
            Err(FrameError::NotNative)
        } else if known < MAGIC.len() {
            Ok(FrameHead::More)
        } else {
            Ok(FrameHead::Mark)
        };
    }
    let Some(header) = input.get(..HEADER_BYTES) else {
        return Ok(FrameHead::More);
    };
    let header = Header::parse(header)?;
    Ok(FrameHead::Frame {
        length: HEADER_BYTES + header.stored_bytes,
        last: header.kind == FrameKind::End,
    })
}

/// Splits a stream into frames, however its bytes arrive.
#[derive(Default)]
pub struct FrameReader {
    /// Whether the magic bytes have been read, and no final frame since.
    open: bool,
    /// Whether anything was read at all.
    begun: bool,
}

impl FrameReader {
    /// The next frame of `input`, which begins where the last one ended. `at_end`: nothing
    /// follows the input.
    pub fn next(&mut self, input: &[u8], at_end: bool) -> Result<Step, FrameError> {
        let more = |at_least: usize| {
            if at_end {
                return Err(FrameError::Truncated);
            }
            Ok(Step::More { at_least })
        };
        let mut taken = 0;
        if !self.open {
            if input.is_empty() && at_end {
                return if self.begun {
                    Ok(Step::End)
                } else {
                    Err(FrameError::NotNative)
                };
            }
            let known = input.len().min(MAGIC.len());
            if input.get(..known) != MAGIC.get(..known) {
                return Err(FrameError::NotNative);
            }
            if known < MAGIC.len() {
                return more(MAGIC.len());
            }
            taken = MAGIC.len();
        }
        let header = taken..taken + HEADER_BYTES;
        let Some(header) = input.get(header) else {
            if at_end && self.open && input.is_empty() {
                return Err(FrameError::Truncated);
            }
            return more(taken + HEADER_BYTES);
        };
        let header = Header::parse(header)?;
        taken += HEADER_BYTES;
        let Some(stored) = input.get(taken..taken + header.stored_bytes) else {
            return more(taken + header.stored_bytes);
        };
        let frame = header.open(stored)?;
        taken += header.stored_bytes;
        self.begun = true;
        self.open = frame.kind != FrameKind::End;
        Ok(Step::Frame { frame, taken })
    }
}

struct Header<'a> {
    kind: FrameKind,
    codec: u8,
    stored_bytes: usize,
    raw_bytes: usize,
    checksum: u64,
    checked: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (checked, checksum) = bytes.split_at_checked(12).ok_or(FrameError::Short)?;
        let [kind, version, codec, zero, lengths @ ..] = checked else {
            return Err(FrameError::Short);
        };
        if *version != VERSION {
            return Err(FrameError::Version(*version));
        }
        let known = FrameKind::ALL.into_iter().find(|k| k.number() == *kind);
        let kind = known.ok_or(FrameError::Kind(*kind))?;
        if *zero != 0 {
            return Err(FrameError::Malformed("reserved byte is not zero"));
        }
        let length = |at: usize| -> Result<usize, FrameError> {
            let bytes = lengths.get(at..).and_then(|rest| rest.first_chunk());
            let length = u32::from_le_bytes(*bytes.ok_or(FrameError::Short)?) as usize;
            if length > FRAME_RAW_BYTES_MAX {
                return Err(FrameError::TooLong(length));
            }
            Ok(length)
        };
        Ok(Self {
            kind,
            codec: *codec,
            stored_bytes: length(0)?,
            raw_bytes: length(4)?,
            checksum: u64::from_le_bytes(*checksum.first_chunk().ok_or(FrameError::Short)?),
            checked,
        })
    }

    fn open(&self, stored: &[u8]) -> Result<Frame, FrameError> {
        if checksum(self.checked, stored) != self.checksum {
            return Err(FrameError::Checksum);
        }
        let payload = match self.codec {
            RAW => stored.to_vec(),
            ZSTD => zstd::bulk::decompress(stored, self.raw_bytes)
                .map_err(|_| FrameError::Decompress)?,
            other => return Err(FrameError::Codec(other)),
        };
        if payload.len() != self.raw_bytes {
            return Err(FrameError::Decompress);
        }
        Ok(Frame {
            kind: self.kind,
            payload,
        })
    }
}
