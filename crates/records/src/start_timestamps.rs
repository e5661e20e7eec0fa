//! Start timestamps of samples: when the counter behind a sample began to count.
//!
//! ```text
//! version u8 = 1 | varint count | (zigzag timestamp − previous | zigzag start − previous)*
//! ```
//!
//! Stored only where a client sends them. A start of 0 means unknown; it replaces an older known
//! one, as the sample it belongs to replaced the older sample. A number of OpenTSDB may have its
//! form instead of a start ([`NumberForm::as_start`](icecore_model::NumberForm::as_start)).

use icecore_model::varint::{push_varint, push_zigzag};

use crate::container;
use crate::reader::Reader;
use crate::{DecodeError, union};

const RECORD: &str = "StartTimestamps";
const VERSION: u8 = 1;
const MIN_ENTRY_LEN: usize = 2;

/// Writes `(timestamp, start)` pairs, strictly increasing in time.
pub fn encode(starts: &[(i64, i64)]) -> Vec<u8> {
    assert!(
        starts.is_sorted_by(|a, b| a.0 < b.0),
        "timestamps must increase"
    );
    let mut value = vec![VERSION];
    push_varint(&mut value, starts.len() as u64);
    let mut previous = (0i64, 0i64);
    for &(timestamp, start) in starts {
        push_zigzag(&mut value, timestamp.wrapping_sub(previous.0));
        push_zigzag(&mut value, start.wrapping_sub(previous.1));
        previous = (timestamp, start);
    }
    value
}

pub fn decode(value: &[u8]) -> Result<Vec<(i64, i64)>, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let count = reader.count(MIN_ENTRY_LEN)?;
    let mut starts = Vec::with_capacity(count);
    let mut previous = (0i64, 0i64);
    for i in 0..count {
        let timestamp = previous.0.wrapping_add(reader.zigzag()?);
        let start = previous.1.wrapping_add(reader.zigzag()?);
        if i > 0 && timestamp <= previous.0 {
            return Err(reader.error("timestamps do not increase"));
        }
        previous = (timestamp, start);
        starts.push(previous);
    }
    reader.finish()?;
    Ok(starts)
}

/// The union by timestamp; of equal timestamps the newest value counts.
pub(crate) fn merge(parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut all = Vec::new();
    for part in parts {
        all = union::newest_wins(all, decode(part)?, |&(timestamp, _)| timestamp);
    }
    Ok(encode(&all))
}
