//! Journal records: accepted writes that are not in buckets yet.
//!
//! ```text
//! record   version u8 = 1 | xxh3-64 of the rest, u64 LE | varint count | (varint length | block)*
//! block    (kind u8 | codec u8 | varint raw length | varint stored length | bytes)*
//! ```
//!
//! A record is one group commit, a block one request; blocks of a record have consecutive sequence
//! numbers, the first of which is in the key. Requests encode and compress their block themselves;
//! the commit loop only puts blocks together.
//!
//! Holds always:
//! - A block needs no other block to be read, except for the definitions of the series it refers
//!   to: later records are readable without a lost one.
//! - A section of a kind that this program does not know is reported, never skipped silently.
//! - A section expands to at most [`MAX_EXPANSION`] times its stored size, and to at most
//!   [`MAX_SECTION_BYTES`]. More entries of a kind are written as several sections in a row, and
//!   read as one.
//! - The encoder checks every limit of the decoder, in every build, before the request is
//!   acknowledged.

mod compression;
mod decode;
mod encode;
mod floats;
#[cfg(test)]
mod tests;

pub use compression::{MAX_EXPANSION, MAX_SECTION_BYTES};
pub use decode::{Section, decode_block, decode_block_with};
pub use encode::BlockEncoder;

use icecore_model::varint::push_varint;
use xxhash_rust::xxh3::xxh3_64;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "Journal";
const VERSION: u8 = 1;
const CHECKSUM_END: usize = 9;

/// The most blocks of a record: so many sequence numbers are not used again after a record that
/// cannot be read.
pub const MAX_BLOCKS: usize = 1 << 20;

/// The most bytes of a block: a SlateDB value has a length of 32 bits.
pub const MAX_BLOCK_BYTES: usize = 2 << 30;

/// What a section holds. The numbers are stored.
mod kind {
    pub(super) const DEFINITIONS: u8 = 1;
    pub(super) const FLOATS: u8 = 2;
    pub(super) const HISTOGRAMS: u8 = 3;
    pub(super) const EXEMPLARS: u8 = 4;
    pub(super) const METADATA: u8 = 5;
    pub(super) const START_TIMESTAMPS: u8 = 6;
    // 7 is reserved for deletions.
    pub(super) const EVENTS: u8 = 8;
    pub(super) const TOTALS: u8 = 9;
    pub(super) const CATALOG: u8 = 10;
}

/// Puts blocks into one record.
pub fn encode_record(blocks: &[impl AsRef<[u8]>]) -> Vec<u8> {
    assert!(blocks.len() <= MAX_BLOCKS, "too many blocks for a record");
    let len = blocks
        .iter()
        .map(|block| block.as_ref().len() + 5)
        .sum::<usize>();
    let mut value = Vec::with_capacity(CHECKSUM_END + 5 + len);
    value.push(VERSION);
    value.extend_from_slice(&[0; 8]);
    push_varint(&mut value, blocks.len() as u64);
    for block in blocks {
        push_varint(&mut value, block.as_ref().len() as u64);
        value.extend_from_slice(block.as_ref());
    }
    let checksum = xxh3_64(&value[CHECKSUM_END..]);
    value[1..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
    value
}

/// The blocks of a record whose checksum is right.
pub fn decode_record(value: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let checksum = reader.u64()?;
    if checksum != xxh3_64(&value[CHECKSUM_END..]) {
        return Err(reader.error("checksum does not match"));
    }
    let count = reader.count(1)?;
    if count > MAX_BLOCKS {
        return Err(reader.error("more blocks than a record has"));
    }
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let len = reader.count(1)?;
        blocks.push(reader.bytes(len)?);
    }
    reader.finish()?;
    Ok(blocks)
}
