//! The values of a column record: the record itself, and those of its pieces that were asked for
//! again.
//!
//! A record takes less memory than anything that it could be decoded to, and decoding a chunk of it
//! costs two or three nanoseconds a sample. A narrow range still pays for its whole chunk, so what
//! is read a second time is kept in the form that unpacks at memory speed, while there is room: in
//! pieces of about an hour, because a narrow range is asked for again and its neighbours are not.
//!
//! Holds always:
//! - It does not change: what was unpacked lies in a copy that shares everything else.
//! - Only chunks that overlap the range are decoded, so a chunk that is damaged is an error only
//!   for those who need it.

use std::ops::Range;
use std::sync::Arc;

use icecore_records::DecodeError;
use icecore_records::columns::ColumnRecord;

use super::packed::Packed;

/// Samples of a piece: an hour at 15 s, and a little more.
const PIECE: usize = 256;

#[derive(Clone)]
pub(crate) struct RecordValues {
    record: Arc<[u8]>,
    len: usize,
    /// One per [`PIECE`] samples; empty while no piece is unpacked.
    unpacked: Box<[Option<Arc<Packed>>]>,
}

impl RecordValues {
    /// Copies a record.
    pub(crate) fn new(record: &[u8], parsed: &ColumnRecord<'_>) -> Self {
        Self {
            record: record.into(),
            len: parsed.len(),
            unpacked: Box::default(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let unpacked = self.unpacked.iter().flatten();
        let unpacked = unpacked.map(|p| p.heap_bytes() + size_of::<Packed>() + ARC_BYTES);
        let list = size_of_val(&*self.unpacked);
        self.record.len() + ARC_BYTES + list + unpacked.sum::<usize>()
    }

    /// Appends the values of a range; one that does not lie within the record is an error.
    pub(super) fn unpack_into(
        &self,
        range: Range<usize>,
        values: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        if range.is_empty() {
            return Ok(());
        }
        if self.is_packed(&range) {
            return decode(&ColumnRecord::parse(&self.record)?, range, values);
        }
        for number in pieces_of(&range) {
            let piece = self.samples_of(number);
            let start = range.start.max(piece.start) - piece.start;
            let end = range.end.min(piece.end) - piece.start;
            if let Some(Some(packed)) = self.unpacked.get(number) {
                packed.unpack_into(start, end, values);
            }
        }
        Ok(())
    }

    /// Whether a piece of the range is not unpacked.
    pub(super) fn is_packed(&self, range: &Range<usize>) -> bool {
        let pieces = || self.unpacked.get(pieces_of(range));
        let is_unpacked = || pieces().is_some_and(|p| p.iter().all(Option::is_some));
        !range.is_empty() && (range.end > self.len || !is_unpacked())
    }

    /// The same with all pieces of the range unpacked.
    pub(super) fn unpacked(&self, range: &Range<usize>) -> Result<Self, DecodeError> {
        let record = ColumnRecord::parse(&self.record)?;
        let mut made = self.clone();
        if made.unpacked.is_empty() {
            made.unpacked = vec![None; self.len.div_ceil(PIECE)].into();
        }
        let missing = |number: &usize| made.unpacked.get(*number).is_some_and(Option::is_none);
        let missing: Vec<usize> = pieces_of(range).filter(missing).collect();
        let mut values = Vec::new();
        // Neighbours are decoded at once: they may lie in one chunk, which is decoded from its
        // start.
        for run in missing.chunk_by(|a, b| a + 1 == *b) {
            let start = self.samples_of(run[0]).start;
            let end = self.samples_of(run[run.len() - 1]).end;
            values.clear();
            decode(&record, start..end, &mut values)?;
            for (number, piece) in run.iter().zip(values.chunks(PIECE)) {
                made.unpacked[*number] = Some(Arc::new(Packed::new(piece)));
            }
        }
        Ok(made)
    }

    fn samples_of(&self, piece: usize) -> Range<usize> {
        let start = piece * PIECE;
        start..(start + PIECE).min(self.len)
    }
}

/// The pieces that a range overlaps.
fn pieces_of(range: &Range<usize>) -> Range<usize> {
    range.start / PIECE..range.end.div_ceil(PIECE)
}

fn decode(
    record: &ColumnRecord<'_>,
    range: Range<usize>,
    values: &mut Vec<f64>,
) -> Result<(), DecodeError> {
    let wanted = values.len() + range.len();
    record.decode_values(range, values)?;
    if values.len() == wanted {
        Ok(())
    } else {
        Err(DecodeError {
            record: "TimeSeries",
            offset: 0,
            reason: "a chunk has another number of values than it should".into(),
        })
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
        let packed = RecordValues::new(&record, &ColumnRecord::parse(&record).unwrap());
        let narrow = packed.unpacked(&(1_100..1_105)).unwrap();
        let all = narrow.unpacked(&(0..3_000)).unwrap();
        assert!(packed.heap_bytes() <= narrow.heap_bytes());
        assert!(narrow.heap_bytes() <= all.heap_bytes());
        assert!(!all.is_packed(&(0..3_000)) && !narrow.is_packed(&(1_100..1_105)));
        assert!(packed.is_packed(&(0..1)) && !packed.is_packed(&(5..5)));
        let ranges = [
            0..0,
            0..1,
            7..1_024,
            1_000..1_001,
            1_101..1_103,
            900..2_100,
            0..3_000,
        ];
        for range in ranges {
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
        let values = RecordValues::new(&record, &ColumnRecord::parse(&record).unwrap());
        let unpacked = values.unpacked(&(0..2)).unwrap();
        for form in [values, unpacked] {
            assert!(form.unpack_into(0..3, &mut Vec::new()).is_err());
            assert!(form.unpack_into(900..901, &mut Vec::new()).is_err());
        }
    }
}
