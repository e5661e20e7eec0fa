//! The streamed answer: frames, each with chunks of one series.
//!
//! ```text
//! frame = uvarint length │ CRC-32C, big endian │ ChunkedReadResponse
//! ChunkedReadResponse { ChunkedSeries chunked_series = 1; int64 query_index = 2; }
//! ChunkedSeries { Label labels = 1; Chunk chunks = 2; }
//! Chunk { int64 min_time_ms = 1, max_time_ms = 2; Encoding type = 3; bytes data = 4; }
//! ```
//!
//! Holds always: a frame ends with the chunk that fills it, so that it is larger than asked for by
//! at most one chunk; a series that does not fit continues in the next frame, with its labels
//! again.

use crc_fast::crc32_iscsi;
use icecore_model::SeriesSamples;
use icecore_model::varint::push_varint;

use super::chunks::{Chunk, encode_chunks};
use super::samples::push_labels;
use crate::prometheus::message::{put_bytes, put_message, put_number};

/// Appends the frames of one series. One without samples, as for those who ask for labels alone, is
/// a frame without chunks. `frame_bytes_max` is how large a frame should be at most.
pub fn push_series_frames(
    out: &mut Vec<u8>,
    query_index: usize,
    series: &SeriesSamples,
    frame_bytes_max: usize,
) {
    let mut labels = Vec::new();
    push_labels(&mut labels, &series.labels);
    if series.sample_count() == 0 {
        return push_frame(out, query_index, &labels, &[]);
    }
    let chunk_bytes_max = frame_bytes_max.saturating_sub(labels.len());
    let mut chunks = Vec::new();
    let mut flush = |chunks: &mut Vec<u8>| {
        if !chunks.is_empty() {
            push_frame(out, query_index, &labels, chunks);
            chunks.clear();
        }
    };
    encode_chunks(series, |chunk| {
        push_chunk(&mut chunks, &chunk);
        if chunks.len() >= chunk_bytes_max {
            flush(&mut chunks);
        }
    });
    flush(&mut chunks);
}

fn push_chunk(out: &mut Vec<u8>, chunk: &Chunk) {
    put_message(out, 2, |out| {
        put_number(out, 1, chunk.start_ms as u64);
        put_number(out, 2, chunk.end_ms as u64);
        put_number(out, 3, chunk.encoding as u64);
        put_bytes(out, 4, &chunk.data);
    });
}

fn push_frame(out: &mut Vec<u8>, query_index: usize, labels: &[u8], chunks: &[u8]) {
    let mut message = Vec::with_capacity(labels.len() + chunks.len() + 24);
    push_varint(&mut message, 1 << 3 | 2);
    push_varint(&mut message, (labels.len() + chunks.len()) as u64);
    message.extend_from_slice(labels);
    message.extend_from_slice(chunks);
    put_number(&mut message, 2, query_index as u64);
    push_varint(out, message.len() as u64);
    // The CRC-32C of RFC 3720, which is iSCSI's.
    out.extend_from_slice(&crc32_iscsi(&message).to_be_bytes());
    out.extend_from_slice(&message);
}
