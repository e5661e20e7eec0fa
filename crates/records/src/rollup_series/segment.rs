//! A segment: columns, each of which can be left out or skipped.
//!
//! ```text
//! stored columns u16 LE | length of each of them, varint | payloads
//! ```

use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::Reader;

/// A segment that is being written, column by column in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct SegmentBuffer {
    stored: u16,
    lengths: Vec<u8>,
    payloads: Vec<u8>,
    /// Where the open payload begins.
    start: usize,
}

impl SegmentBuffer {
    pub(crate) fn clear(&mut self) {
        self.stored = 0;
        self.lengths.clear();
        self.payloads.clear();
        self.start = 0;
    }

    /// What the payload of the next column is appended to.
    pub(crate) fn payload(&mut self) -> &mut Vec<u8> {
        &mut self.payloads
    }

    /// Takes a payload instead of the one that was appended, if it is shorter.
    pub(crate) fn take_shorter(&mut self, payload: &[u8]) {
        if payload.len() < self.payloads.len() - self.start {
            self.payloads.truncate(self.start);
            self.payloads.extend_from_slice(payload);
        }
    }

    /// Stores what was appended as this column.
    pub(crate) fn close(&mut self, column: u8) {
        self.stored |= 1 << column;
        push_varint(&mut self.lengths, (self.payloads.len() - self.start) as u64);
        self.start = self.payloads.len();
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.stored.to_le_bytes());
        out.extend_from_slice(&self.lengths);
        out.extend_from_slice(&self.payloads);
    }
}

/// The payloads of a segment, by the numbers of their columns.
pub(crate) struct Payloads<'a, const COLUMNS: usize>([Option<&'a [u8]>; COLUMNS]);

impl<'a, const COLUMNS: usize> Payloads<'a, COLUMNS> {
    pub(crate) fn parse(record: &'static str, segment: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(record, segment);
        let stored = reader.u16()?;
        if stored >> COLUMNS != 0 {
            return Err(reader.error("unknown column"));
        }
        let mut lengths = [None; COLUMNS];
        for (column, length) in lengths.iter_mut().enumerate() {
            if stored >> column & 1 != 0 {
                *length = Some(reader.count(1)?);
            }
        }
        let mut payloads = [None; COLUMNS];
        for (payload, length) in payloads.iter_mut().zip(lengths) {
            if let Some(length) = length {
                *payload = Some(reader.bytes(length)?);
            }
        }
        reader.finish()?;
        Ok(Self(payloads))
    }

    /// `None` for a column that is not stored.
    pub(crate) fn get(&self, column: u8) -> Option<&'a [u8]> {
        self.0.get(usize::from(column)).copied().flatten()
    }
}
