//! A column of timestamps that several series of a bucket share.

use super::TimeList;
use crate::DecodeError;
use crate::reader::{Reader, push_uvarint, push_zigzag};

const RECORD: &str = "TimeColumn";

pub fn encode(bucket_start_ms: i64, timestamps: &[i64]) -> Vec<u8> {
    let mut value = Vec::new();
    push_uvarint(&mut value, timestamps.len() as u64);
    for timestamp in timestamps {
        push_zigzag(&mut value, timestamp.wrapping_sub(bucket_start_ms));
    }
    value
}

pub fn decode(bucket_start_ms: i64, value: &[u8]) -> Result<TimeList, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    let count = reader.count(1)?;
    let mut timestamps = Vec::with_capacity(count);
    for _ in 0..count {
        timestamps.push(bucket_start_ms.wrapping_add(reader.zigzag()?));
    }
    reader.finish()?;
    Ok(TimeList::from(timestamps))
}
