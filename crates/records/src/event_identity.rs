//! The identity of an accepted event: the sequence number of the block of the journal that has it.
//!
//! ```text
//! version u8 = 1 | sequence uv
//! ```

use bytes::Bytes;
use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "EventIdentity";
const VERSION: u8 = 1;

pub fn encode(seq: u64) -> Bytes {
    let mut value = vec![VERSION];
    push_varint(&mut value, seq);
    value.into()
}

pub fn decode(value: &[u8]) -> Result<u64, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let seq = reader.varint()?;
    reader.finish()?;
    Ok(seq)
}
