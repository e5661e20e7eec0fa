//! The values of a column record: the record itself, and those of its chunks that were asked for
//! again.
//!
//! A record takes less memory than anything that it could be decoded to, and decoding a chunk of it
//! costs two or three nanoseconds a sample. A narrow range still pays for its whole chunk, so what
//! is read a second time is kept in the form that unpacks at memory speed, while there is room.
//!
//! Holds always:
//! - It does not change: what was unpacked lies in a copy that shares everything else.
//! - Only chunks that overlap the range are decoded, so a chunk that is damaged is an error only for
//!   those who need it.

use std::ops::Range;
use std::sync::Arc;

use icecore_records::DecodeError;
use icecore_records::columns::ColumnRecord;

use super::packed::Packed;

#[derive(Clone)]
pub(crate) struct RecordValues {
    record: Arc<[u8]>,
    len: u32,
    chunk_len: u32,
    /// One per chunk; empty while no chunk is unpacked.
    unpacked: Box<[Option<Arc<Packed>>]>,
}

impl RecordValues {
    /// Copies a record; `None` where it has more samples than any bucket.
    pub(crate) fn new(record: &[u8], parsed: &ColumnRecord<'_>) -> Option<Self> {
        Some(Self {
            record: record.into(),
            len: u32::try_from(parsed.len()).ok()?,
            chunk_len: u32::try_from(parsed.chunk_len().max(1)).ok()?,
            unpacked: Box::default(),
        })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let unpacked = self.unpacked.iter().flatten();
        let unpacked = unpacked.map(|p| p.heap_bytes() + size_of::<Packed>() + ARC_BYTES);
        let list = size_of_val(&*self.unpacked);
        self.record.len() + ARC_BYTES + list + unpacked.sum::<usize>()
    }

    /// Appends the values of a range, which lies within the record.
    pub(super) fn unpack_into(
        &self,
        range: Range<usize>,
        values: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        if range.is_empty() {
            return Ok(());
        }
        if self.unpacked.is_empty() {
            return self.decode(&ColumnRecord::parse(&self.record)?, range, values);
        }
        let mut parsed = None;
        for chunk in self.chunks_of(&range) {
            let of_chunk = self.samples_of(chunk);
            let (start, end) = (range.start.max(of_chunk.start), range.end.min(of_chunk.end));
            match &self.unpacked[chunk] {
                Some(packed) => {
                    packed.unpack_into(start - of_chunk.start, end - of_chunk.start, values);
                }
                None => {
                    let record = match parsed.take() {
                        Some(record) => record,
                        None => ColumnRecord::parse(&self.record)?,
                    };
                    self.decode(&record, start..end, values)?;
                    parsed = Some(record);
                }
            }
        }
        Ok(())
    }

    /// Whether a chunk of the range is not unpacked.
    pub(super) fn is_packed(&self, range: &Range<usize>) -> bool {
        !range.is_empty()
            && (self.unpacked.is_empty()
                || self.unpacked[self.chunks_of(range)]
                    .iter()
                    .any(Option::is_none))
    }

    /// The same with all chunks of the range unpacked.
    pub(super) fn unpacked(&self, range: &Range<usize>) -> Result<Self, DecodeError> {
        let record = ColumnRecord::parse(&self.record)?;
        let mut made = self.clone();
        if made.unpacked.is_empty() {
            let chunks = self.len.div_ceil(self.chunk_len) as usize;
            made.unpacked = vec![None; chunks].into();
        }
        let mut values = Vec::new();
        for chunk in self.chunks_of(range) {
            if made.unpacked[chunk].is_none() {
                values.clear();
                self.decode(&record, self.samples_of(chunk), &mut values)?;
                made.unpacked[chunk] = Some(Arc::new(Packed::new(&values)));
            }
        }
        Ok(made)
    }

    /// The chunks that a range overlaps, which is not empty and lies within the record.
    fn chunks_of(&self, range: &Range<usize>) -> Range<usize> {
        let chunk_len = self.chunk_len as usize;
        range.start / chunk_len..range.end.div_ceil(chunk_len)
    }

    fn samples_of(&self, chunk: usize) -> Range<usize> {
        let (len, chunk_len) = (self.len as usize, self.chunk_len as usize);
        let start = chunk * chunk_len;
        start..(start + chunk_len).min(len)
    }

    fn decode(
        &self,
        record: &ColumnRecord<'_>,
        range: Range<usize>,
        values: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        let wanted = values.len() + range.len();
        record.decode_values(range, values)?;
        match values.len() == wanted {
            true => Ok(()),
            false => Err(DecodeError {
                record: "TimeSeries",
                offset: 0,
                reason: "a chunk has another number of values than it should".into(),
            }),
        }
    }
}

/// The counters of an `Arc`.
const ARC_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use icecore_records::columns::{Times, encode};

    use super::*;

    fn record(values: &[f64]) -> Vec<u8> {
        let times: Vec<i64> = (0..values.len() as i64).map(|i| i * 15_000).collect();
        let mut record = Vec::new();
        encode(0, Times::Own(&times), values, &mut record);
        record
    }

    #[test]
    fn unpacked_chunks_say_the_same_as_the_record() {
        let values: Vec<f64> = (0..3_000).map(|i| f64::from(i * i % 977) / 4.0).collect();
        let record = record(&values);
        let packed = RecordValues::new(&record, &ColumnRecord::parse(&record).unwrap()).unwrap();
        let narrow = packed.unpacked(&(1_100..1_105)).unwrap();
        let all = narrow.unpacked(&(0..3_000)).unwrap();
        assert!(packed.heap_bytes() <= narrow.heap_bytes());
        assert!(narrow.heap_bytes() <= all.heap_bytes());
        assert!(!all.is_packed(&(0..3_000)) && !narrow.is_packed(&(1_100..1_105)));
        assert!(packed.is_packed(&(0..1)) && !packed.is_packed(&(5..5)));
        for range in [0..0, 0..1, 7..1_024, 1_000..1_001, 900..2_100, 0..3_000] {
            for form in [&packed, &narrow, &all] {
                let mut found = vec![-1.0];
                form.unpack_into(range.clone(), &mut found).unwrap();
                assert_eq!(found[1..], values[range.clone()]);
            }
        }
    }

    #[test]
    fn a_range_that_is_not_there_is_an_error() {
        let record = record(&[1.0, 2.0]);
        let values = RecordValues::new(&record, &ColumnRecord::parse(&record).unwrap()).unwrap();
        assert!(values.unpack_into(0..3, &mut Vec::new()).is_err());
    }
}
