//! A column of timestamps that several series of a bucket share.
//!
//! ```text
//! version u8 = 1 | n uv | timestamps (`timestamps`)
//! ```
//!
//! A record names a column and where in it its samples begin. Columns never change and go with the
//! bucket.

use icecore_model::varint::push_varint;

use super::TimeList;
use super::timestamps::{self, StoredTimes};
use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "TimeColumn";
const VERSION: u8 = 1;

/// Writes a strictly increasing list.
pub fn encode(bucket_start_ms: i64, timestamps: &[i64]) -> Vec<u8> {
    let mut value = vec![VERSION];
    push_varint(&mut value, timestamps.len() as u64);
    timestamps::encode(bucket_start_ms, timestamps, &mut value);
    value
}

pub fn decode(bucket_start_ms: i64, value: &[u8]) -> Result<TimeList, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let len = timestamps::read_len(&mut reader)?;
    let form = reader.u8()?;
    let stored = StoredTimes::parse(form, &mut reader)?;
    reader.finish()?;
    stored.decode(RECORD, bucket_start_ms, len)
}
