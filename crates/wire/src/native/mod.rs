//! The native form of exports: frames of columns, lossless to the bit.
//!
//! ```text
//! series ─► encode ─► columns, about 1 MiB ─► zstd ─► frame with its checksum ─► stream
//! stream ─► FrameReader ─► frame, checked ─► decode_series, decode_metadata ─► SampleSink
//! ```
//!
//! Holds always:
//! - A frame is self-contained: none depends on another.
//! - A complete stream ends with a frame of counts. Streams may be concatenated, and so may files.
//! - The same series give the same columns. (The compressed bytes depend on the version of zstd.)
//! - Decoding ends in calls or an error, with memory in proportion to the frame.
//!
//! The bytes are `docs/native-format.md`.

mod bytes;
mod decode;
mod encode;
mod frame;
mod histogram;

pub use decode::{Counts, Summary, decode_counts, decode_metadata, decode_series, summary_of};
pub use encode::Encoder;
pub use frame::{
    FRAME_RAW_BYTES_MAX, Frame, FrameError, FrameHead, FrameKind, FrameReader, Step, frame_head,
};

/// What a stream begins with. The first byte is not text, the line ends show what a transfer as
/// text does to them, and the last byte is the version.
pub const MAGIC: [u8; 8] = *b"\x89ICE\r\n\x1a\x01";

/// The media type of a stream.
pub const CONTENT_TYPE: &str = "application/vnd.icecore.native";

#[cfg(test)]
mod tests;
