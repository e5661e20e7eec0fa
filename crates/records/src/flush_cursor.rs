//! Flush cursors: the journal sequence up to which a bucket (or the catalog) holds everything.
//! Eight bytes; written with put in the last batch of a flush.

use bytes::Bytes;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "FlushCursor";

pub fn encode(seq: u64) -> Bytes {
    Bytes::copy_from_slice(&seq.to_le_bytes())
}

pub fn decode(value: &[u8]) -> Result<u64, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    let seq = reader.u64()?;
    reader.finish()?;
    Ok(seq)
}
