//! HistogramSeries: the native histograms of one series in one bucket.
//!
//! ```text
//! version u8 = 1 | varint count | (zigzag timestamp − previous | histogram)*
//! ```
//!
//! A layout (schema, spans, bounds) is written once while it does not change, counts as differences
//! to the histogram before (see `histogram`). An entry may also say "no histogram here": a float has
//! replaced the one that an older value holds for this timestamp.

use std::sync::Arc;

use icecore_model::Histogram;

use crate::container;
use crate::reader::{Reader, push_uvarint, push_zigzag};
use crate::{DecodeError, histogram, union};

const RECORD: &str = "HistogramSeries";
const VERSION: u8 = 1;
const MIN_ENTRY_LEN: usize = 2;

/// What a series has at one timestamp.
#[derive(Clone, Debug)]
pub struct HistogramEntry {
    pub timestamp_ms: i64,
    /// `None`: there is no histogram at this timestamp, whatever older values say; the float stream
    /// decides.
    pub value: Option<Arc<Histogram>>,
}

/// Writes entries, strictly increasing in time.
pub fn encode(entries: &[HistogramEntry]) -> Vec<u8> {
    debug_assert!(
        entries.is_sorted_by(|a, b| a.timestamp_ms < b.timestamp_ms),
        "timestamps must increase"
    );
    let mut value = vec![VERSION];
    push_uvarint(&mut value, entries.len() as u64);
    let mut previous_timestamp = 0i64;
    let mut previous: Option<&Histogram> = None;
    for entry in entries {
        push_zigzag(
            &mut value,
            entry.timestamp_ms.wrapping_sub(previous_timestamp),
        );
        previous_timestamp = entry.timestamp_ms;
        match &entry.value {
            None => value.push(histogram::KIND_NONE),
            Some(histogram) => {
                histogram::push(&mut value, previous, histogram);
                previous = Some(histogram);
            }
        }
    }
    value
}

pub fn decode(value: &[u8]) -> Result<Vec<HistogramEntry>, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let count = reader.count(MIN_ENTRY_LEN)?;
    let mut entries: Vec<HistogramEntry> = Vec::with_capacity(count);
    let mut previous_timestamp = 0i64;
    let mut previous: Option<Arc<Histogram>> = None;
    for i in 0..count {
        let timestamp_ms = previous_timestamp.wrapping_add(reader.zigzag()?);
        if i > 0 && timestamp_ms <= previous_timestamp {
            return Err(reader.error("timestamps do not increase"));
        }
        previous_timestamp = timestamp_ms;
        let value = histogram::read(&mut reader, previous.as_deref())?.map(Arc::new);
        if value.is_some() {
            previous.clone_from(&value);
        }
        entries.push(HistogramEntry {
            timestamp_ms,
            value,
        });
    }
    reader.finish()?;
    Ok(entries)
}

/// The union by timestamp; of equal timestamps the newest entry counts, also where it says "none".
pub(crate) fn merge(parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut all = Vec::new();
    for part in parts {
        all = union::newest_wins(all, decode(part)?, |entry| entry.timestamp_ms);
    }
    Ok(encode(&all))
}
