//! Columns: the samples of one series in a bucket larger than an hour.

mod bitpack;
mod decimal;
mod huffman;
pub(crate) mod integers;
mod predictor;
pub mod time_column;
mod time_list;
pub mod values;

use std::ops::Range;

pub use time_list::{TimeList, is_regular};

use crate::DecodeError;
use crate::reader::{Reader, push_uvarint};

const RECORD: &str = "TimeSeries";

/// Where the timestamps of a record are to lie.
#[derive(Clone, Copy, Debug)]
pub enum Times<'a> {
    /// In the record itself.
    Own(&'a [i64]),
    /// In a column of the bucket, from index `first` on.
    Shared { column: u32, first: u32, len: u32 },
}

/// Where the timestamps of a record lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordTimes {
    Own,
    Shared { column: u32, first: u32 },
}

/// Appends a record.
pub fn encode(bucket_start_ms: i64, times: Times<'_>, values: &[f64], out: &mut Vec<u8>) {
    push_uvarint(out, values.len() as u64);
    match times {
        Times::Own(list) => {
            out.push(0);
            let list = time_column::encode(bucket_start_ms, list);
            push_uvarint(out, list.len() as u64);
            out.extend_from_slice(&list);
        }
        Times::Shared { column, first, .. } => {
            out.push(2);
            push_uvarint(out, column.into());
            push_uvarint(out, first.into());
        }
    }
    for value in values {
        out.extend_from_slice(&value.to_bits().to_le_bytes());
    }
}

/// A record whose header is read and whose chunks are not.
#[derive(Clone, Debug)]
pub struct ColumnRecord<'a> {
    len: usize,
    times: RecordTimes,
    own: &'a [u8],
    chunks: &'a [u8],
}

impl<'a> ColumnRecord<'a> {
    pub fn parse(record: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(RECORD, record);
        let len = reader.count(8)?;
        let mut own: &[u8] = &[];
        let times = match reader.u8()? {
            0 => {
                let len = reader.count(1)?;
                own = reader.bytes(len)?;
                RecordTimes::Own
            }
            _ => RecordTimes::Shared {
                column: reader.uvarint32()?,
                first: reader.uvarint32()?,
            },
        };
        let chunks = reader.bytes(len * 8)?;
        reader.finish()?;
        Ok(Self {
            len,
            times,
            own,
            chunks,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Samples per chunk.
    pub fn chunk_len(&self) -> usize {
        self.len
    }

    pub fn times(&self) -> RecordTimes {
        self.times
    }

    /// The timestamps, where they are the record's own.
    pub fn decode_times(&self, bucket_start_ms: i64) -> Result<TimeList, DecodeError> {
        time_column::decode(bucket_start_ms, self.own)
    }

    /// Appends the values of a range of samples.
    pub fn decode_values(
        &self,
        range: Range<usize>,
        out: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        for chunk in self
            .chunks
            .chunks_exact(8)
            .take(range.end)
            .skip(range.start)
        {
            let mut reader = Reader::new(RECORD, chunk);
            out.push(reader.f64()?);
        }
        Ok(())
    }
}
