//! Which windows of a bucket a series has.
//!
//! ```text
//! form u8 = 0 | all of the bucket
//!           1 | varint runs | (varint windows left out before it | varint windows − 1)*
//!           2 | varint windows left out at first | varint bytes | a bit per window from there on
//! ```
//!
//! Series come and go, and a bitmap of a thousand windows would be longer than what a series of
//! ten has to say. Of runs and bitmap the shorter one is written, of equal ones the runs.

use std::ops::Range;

use icecore_model::varint::push_varint;

use crate::DecodeError;
use crate::reader::Reader;

const ALL: u8 = 0;
const RUNS: u8 = 1;
const BITMAP: u8 = 2;

/// The windows of a series, as numbers from the bucket's first on, in runs of neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Presence {
    runs: Vec<Range<u32>>,
    len: usize,
}

impl Presence {
    /// Of numbers that increase strictly.
    pub(super) fn of(numbers: impl Iterator<Item = u32>) -> Self {
        let (mut runs, mut len) = (Vec::<Range<u32>>::new(), 0);
        for number in numbers {
            len += 1;
            match runs.last_mut() {
                Some(run) if run.end == number => run.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        Self { runs, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends which of a bucket's windows these are.
    pub(super) fn push(&self, in_bucket: u32, out: &mut Vec<u8>) {
        if self.len == in_bucket as usize {
            out.push(ALL);
            return;
        }
        let start = out.len();
        out.push(RUNS);
        push_varint(out, self.runs.len() as u64);
        let mut next = 0;
        for run in &self.runs {
            push_varint(out, (run.start - next).into());
            push_varint(out, (run.end - run.start - 1).into());
            next = run.end;
        }
        let (Some(first), Some(last)) = (self.runs.first(), self.runs.last()) else {
            return;
        };
        let bytes = (last.end - first.start).div_ceil(8) as usize;
        if bytes + 2 >= out.len() - start {
            return;
        }
        let mut bitmap = vec![BITMAP];
        push_varint(&mut bitmap, first.start.into());
        push_varint(&mut bitmap, bytes as u64);
        let bits_from = bitmap.len();
        bitmap.resize(bits_from + bytes, 0);
        for number in self.runs.iter().cloned().flatten() {
            let bit = (number - first.start) as usize;
            bitmap[bits_from + bit / 8] |= 1 << (bit % 8);
        }
        if bitmap.len() < out.len() - start {
            out.truncate(start);
            out.extend_from_slice(&bitmap);
        }
    }

    /// Reads the windows of a bucket of so many.
    pub(super) fn read(reader: &mut Reader<'_>, in_bucket: u32) -> Result<Self, DecodeError> {
        let presence = match reader.u8()? {
            ALL => {
                let whole = 0..in_bucket;
                let runs = vec![whole];
                let len = in_bucket as usize;
                Self { runs, len }
            }
            RUNS => Self::read_runs(reader)?,
            BITMAP => Self::read_bitmap(reader)?,
            _ => return Err(reader.error("unknown form of windows")),
        };
        if presence.runs.last().is_some_and(|run| run.end > in_bucket) {
            return Err(reader.error("window after the end of the bucket"));
        }
        Ok(presence)
    }

    fn read_runs(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count(2)?;
        let mut runs: Vec<Range<u32>> = Vec::with_capacity(count);
        let (mut next, mut len) = (0u32, 0);
        for i in 0..count {
            let (skipped, more) = (reader.varint32()?, reader.varint32()?);
            if i > 0 && skipped == 0 {
                return Err(reader.error("runs of windows touch"));
            }
            let start = next.checked_add(skipped);
            let end = start.and_then(|start| start.checked_add(more)?.checked_add(1));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(reader.error("number does not fit 32 bits"));
            };
            runs.push(start..end);
            len += (end - start) as usize;
            next = end;
        }
        Ok(Self { runs, len })
    }

    fn read_bitmap(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let first = reader.varint32()?;
        let bytes = reader.count(1)?;
        let bitmap = reader.bytes(bytes)?;
        let bits = u32::try_from(bytes * 8).ok();
        if bits.and_then(|bits| first.checked_add(bits)).is_none() {
            return Err(reader.error("number does not fit 32 bits"));
        }
        let numbers = bitmap.iter().zip((first..).step_by(8));
        let set = numbers.flat_map(|(byte, from)| {
            let byte = *byte;
            (0..8)
                .filter(move |bit| byte >> bit & 1 != 0)
                .map(move |bit| from + bit)
        });
        Ok(Self::of(set))
    }

    /// The index of the first window that does not lie before this number.
    pub(super) fn index_of(&self, number: i64) -> usize {
        let mut index = 0;
        for run in &self.runs {
            if number <= run.start.into() {
                break;
            }
            index += (number.min(run.end.into()) - i64::from(run.start)) as usize;
        }
        index
    }

    /// Appends the starts of the windows of these indexes.
    pub(super) fn extend_starts(
        &self,
        indexes: Range<usize>,
        start_of: impl Fn(u32) -> i64,
        out: &mut Vec<i64>,
    ) {
        out.reserve(indexes.len());
        let mut first = 0;
        for run in &self.runs {
            let in_run = |index: usize| (index.clamp(first, first + run.len()) - first) as u32;
            let (from, to) = (in_run(indexes.start), in_run(indexes.end));
            out.extend((run.start + from..run.start + to).map(&start_of));
            first += run.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(numbers: &[u32], in_bucket: u32) -> Vec<u8> {
        let presence = Presence::of(numbers.iter().copied());
        let mut bytes = vec![];
        presence.push(in_bucket, &mut bytes);
        let mut reader = Reader::new("test", &bytes);
        assert_eq!(Presence::read(&mut reader, in_bucket), Ok(presence.clone()));
        reader.finish().unwrap();
        let expected: Vec<i64> = numbers.iter().map(|n| i64::from(*n)).collect();
        for indexes in [0..numbers.len(), numbers.len() / 3..numbers.len() / 2] {
            let mut starts = Vec::new();
            presence.extend_starts(indexes.clone(), i64::from, &mut starts);
            assert_eq!(starts, expected[indexes]);
        }
        for number in 0..=in_bucket {
            let before = numbers.iter().filter(|n| **n < number).count();
            assert_eq!(presence.index_of(number.into()), before);
        }
        bytes
    }

    #[test]
    fn the_shorter_form_is_written() {
        assert_eq!(check(&[0, 1, 2, 3], 4), [ALL]);
        assert_eq!(check(&[], 4), [RUNS, 0]);
        assert_eq!(check(&[3], 1024), [RUNS, 1, 3, 0]);
        assert_eq!(
            check(&(200..300).collect::<Vec<_>>(), 1024),
            [RUNS, 1, 200, 1, 99]
        );
        assert_eq!(check(&[4, 6, 8, 9], 1024), [BITMAP, 4, 1, 0b11_0101]);
    }

    proptest! {
        #[test]
        fn any_windows_come_back(
            numbers in prop::collection::btree_set(0u32..400, 0..300),
            spread in 1u32..50,
        ) {
            let numbers: Vec<u32> = numbers.into_iter().map(|number| number / spread).collect();
            let mut numbers = numbers;
            numbers.dedup();
            check(&numbers, 400);
        }

        #[test]
        fn any_bytes_are_windows_or_an_error(
            form in 0u8..4,
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            in_bucket in 0u32..2000,
        ) {
            let bytes = [&[form], &bytes[..]].concat();
            if let Ok(presence) = Presence::read(&mut Reader::new("test", &bytes), in_bucket) {
                prop_assert!(presence.len() <= in_bucket as usize);
            }
        }
    }
}
