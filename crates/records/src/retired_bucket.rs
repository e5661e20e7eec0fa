//! A retired bucket: no longer listed, its records are dropped after a grace time.
//!
//! ```text
//! version u8 = 1 | zigzag milliseconds since 1970 at which it was retired
//! ```

use bytes::Bytes;
use icecore_model::varint::push_zigzag;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "RetiredBucket";
const VERSION: u8 = 1;

pub fn encode(retired_at_ms: i64) -> Bytes {
    let mut value = vec![VERSION];
    push_zigzag(&mut value, retired_at_ms);
    value.into()
}

pub fn decode(value: &[u8]) -> Result<i64, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let retired_at_ms = reader.zigzag()?;
    reader.finish()?;
    Ok(retired_at_ms)
}
