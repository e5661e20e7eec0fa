//! HistogramSeries: the native histograms of one series in one bucket.
//!
//! ```text
//! version u8 = 1 | varint count | (zigzag timestamp − previous | histogram)*
//! version u8 = 2 | columns (`histogram_columns`)
//! ```
//!
//! Flushes write version 1: a layout (schema, spans, bounds) is written once while it does not
//! change, counts as differences to the histogram before (see `histogram`). Buckets larger than an
//! hour are made of version 2, and late flushes append version 1: readers merge the parts; of equal
//! timestamps the newest part wins.
//!
//! An entry may also say "no histogram here": a float has replaced the one that an older value
//! holds for this timestamp.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::Histogram;
use icecore_model::varint::{push_varint, push_zigzag};

use crate::reader::Reader;
use crate::{DecodeError, columns, container, histogram, histogram_columns, union};

const RECORD: &str = "HistogramSeries";
const VERSION: u8 = 1;
const COLUMNS_VERSION: u8 = 2;
const MIN_ENTRY_LEN: usize = 2;

/// What a series has at one timestamp.
#[derive(Clone, Debug)]
pub struct HistogramEntry {
    pub timestamp_ms: i64,
    /// `None`: there is no histogram at this timestamp, whatever older values say; the float stream
    /// decides.
    pub value: Option<Arc<Histogram>>,
}

/// Writes entries, strictly increasing in time, as version 1.
pub fn encode(entries: &[HistogramEntry]) -> Vec<u8> {
    assert!(
        entries.is_sorted_by(|a, b| a.timestamp_ms < b.timestamp_ms),
        "timestamps must increase"
    );
    let mut value = vec![VERSION];
    push_varint(&mut value, entries.len() as u64);
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

/// Writes entries, strictly increasing in time, as version 2: for buckets larger than an hour.
pub fn encode_columns(entries: &[HistogramEntry]) -> Vec<u8> {
    assert!(
        entries.is_sorted_by(|a, b| a.timestamp_ms < b.timestamp_ms),
        "timestamps must increase"
    );
    if entries.len() > columns::MAX_SAMPLES {
        return encode(entries);
    }
    let mut value = vec![COLUMNS_VERSION];
    histogram_columns::encode(entries, &mut value);
    value
}

/// Reads either version.
pub fn decode(value: &[u8]) -> Result<Vec<HistogramEntry>, DecodeError> {
    container::refuse(RECORD, value)?;
    let mut reader = Reader::new(RECORD, value);
    let entries = match reader.u8()? {
        VERSION => decode_rows(&mut reader)?,
        COLUMNS_VERSION => histogram_columns::decode(&mut reader)?,
        _ => return Err(reader.error("unknown version")),
    };
    reader.finish()?;
    Ok(entries)
}

/// Whether a value (or a part of one) is columns.
pub fn is_columns(value: &[u8]) -> bool {
    value.first() == Some(&COLUMNS_VERSION)
}

/// The parts of a value of a bucket larger than an hour, oldest first, each to be read by
/// [`decode`].
pub fn parts(value: &Bytes) -> Vec<Bytes> {
    container::decode(value).unwrap_or_else(|| vec![value.clone()])
}

/// Reads a value of a bucket larger than an hour, which may have several parts.
pub fn decode_coarse(value: &Bytes) -> Result<Vec<HistogramEntry>, DecodeError> {
    let mut all: Vec<HistogramEntry> = Vec::new();
    for part in parts(value) {
        all.extend(decode(&part)?);
    }
    // Stable: of equal timestamps the newest part's entry comes last, and stays.
    all.sort_by_key(|entry| entry.timestamp_ms);
    all.dedup_by(|newer, older| {
        let same = newer.timestamp_ms == older.timestamp_ms;
        if same {
            std::mem::swap(newer, older);
        }
        same
    });
    Ok(all)
}

fn decode_rows(reader: &mut Reader<'_>) -> Result<Vec<HistogramEntry>, DecodeError> {
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
        let value = histogram::read(reader, previous.as_deref())?.map(Arc::new);
        if value.is_some() {
            previous.clone_from(&value);
        }
        entries.push(HistogramEntry {
            timestamp_ms,
            value,
        });
    }
    Ok(entries)
}

/// The union by timestamp; of equal timestamps the newest entry counts, also where it is "none".
pub(crate) fn merge(parts: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut all = Vec::new();
    for part in parts {
        all = union::newest_wins(all, decode(part)?, |entry| entry.timestamp_ms);
    }
    Ok(encode(&all))
}
