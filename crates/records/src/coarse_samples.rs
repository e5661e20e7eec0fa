//! The samples of a series in a bucket larger than an hour: a base of columns and late streams.
//!
//! ```text
//! part    u8 kind: 1 columns (`columns`), 2 a Gorilla stream (`gorilla`) | the rest
//! value   one part, or a container of parts, oldest first
//! ```
//!
//! Holds always:
//! - A late stream is complete in itself; the merge operator only concatenates parts. Readers
//!   merge them; of equal timestamps the newest part wins.

use bytes::Bytes;

use crate::columns::{self, ColumnRecord, Times};
use crate::{DecodeError, container};

const RECORD: &str = "TimeSeries";
const COLUMNS: u8 = 1;
const STREAM: u8 = 2;

/// A part of a value.
#[derive(Clone, Debug)]
pub enum Part<'a> {
    Columns(ColumnRecord<'a>),
    /// A Gorilla stream.
    Stream(&'a [u8]),
}

/// The parts of a value, oldest first.
pub fn parts(value: &Bytes) -> Vec<Bytes> {
    container::decode(value).unwrap_or_else(|| vec![value.clone()])
}

pub fn parse(part: &[u8]) -> Result<Part<'_>, DecodeError> {
    match part.split_first() {
        Some((&COLUMNS, columns)) => ColumnRecord::parse(columns).map(Part::Columns),
        Some((&STREAM, stream)) => Ok(Part::Stream(stream)),
        Some(_) => Err(DecodeError::new(RECORD, 0, "unknown kind of samples")),
        None => Err(DecodeError::new(RECORD, 0, "empty")),
    }
}

/// A base.
pub fn encode_columns(bucket_start_ms: i64, times: Times<'_>, values: &[f64]) -> Vec<u8> {
    let mut part = vec![COLUMNS];
    columns::encode(bucket_start_ms, times, values, &mut part);
    part
}

/// What a flush adds to a coarse bucket.
pub fn late_stream(stream: &[u8]) -> Bytes {
    let mut part = Vec::with_capacity(1 + stream.len());
    part.push(STREAM);
    part.extend_from_slice(stream);
    part.into()
}
