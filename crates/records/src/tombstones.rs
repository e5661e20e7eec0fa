//! Tombstones of a bucket: what was deleted and still lies in its records.
//!
//! ```text
//! version u8 = 2 | through: journal sequence uv | erased series: length uv, bitmap
//! | ranges: count uv, (first ms zz | last ms − first ms, uv | length uv, bitmap of series)*
//! ```
//!
//! Holds always:
//! - Bitmaps are those of the inverted index. A range has at least one series and begins no earlier
//!   than the one before it; of ranges that begin together the shorter one comes first, and none
//!   comes twice.
//! - A series that is erased is in no range.
//! - Version 1 has no journal sequence, which reads as 0.

use bytes::Bytes;
use icecore_model::varint::{push_varint, push_zigzag};
use roaring::RoaringBitmap;

use crate::reader::Reader;
use crate::{DecodeError, SeriesId, inverted_index};

const RECORD: &str = "Tombstones";
const VERSION: u8 = 2;
const VERSION_WITHOUT_SEQUENCE: u8 = 1;

/// What was deleted from a bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tombstones {
    /// The journal sequence from which on they hold: up to it the bucket had everything of its
    /// hours when something was last deleted from it, so a replay has nothing to add.
    pub through_seq: u64,
    /// Series of which nothing is left. Their ids are never used again.
    pub erased: RoaringBitmap,
    /// Times that some series lost, in order.
    pub ranges: Vec<ErasedRange>,
}

/// Times that some series lost, both ends included.
#[derive(Clone, Debug, PartialEq)]
pub struct ErasedRange {
    pub first_ms: i64,
    pub last_ms: i64,
    pub series: RoaringBitmap,
}

impl Tombstones {
    pub fn is_empty(&self) -> bool {
        self.erased.is_empty() && self.ranges.is_empty()
    }

    /// The ranges that a series lost.
    pub fn ranges_of(&self, series: SeriesId) -> Vec<(i64, i64)> {
        let ranges = self.ranges.iter();
        let lost = ranges.filter(|range| range.series.contains(series.0));
        lost.map(|range| (range.first_ms, range.last_ms)).collect()
    }

    /// The series that lost some range.
    pub fn in_ranges(&self) -> RoaringBitmap {
        let mut all = RoaringBitmap::new();
        for range in &self.ranges {
            all |= &range.series;
        }
        all
    }

    /// Notes that nothing is left of these series.
    pub fn erase(&mut self, series: &RoaringBitmap) {
        self.forget_ranges(series);
        self.erased |= series;
    }

    /// Notes that these series lost a range.
    pub fn erase_range(&mut self, first_ms: i64, last_ms: i64, series: &RoaringBitmap) {
        let lost = series - &self.erased;
        if lost.is_empty() || first_ms > last_ms {
            return;
        }
        let place = |range: &ErasedRange| (range.first_ms, range.last_ms);
        match self
            .ranges
            .binary_search_by_key(&(first_ms, last_ms), place)
        {
            Ok(at) => self.ranges[at].series |= lost,
            Err(at) => self.ranges.insert(
                at,
                ErasedRange {
                    first_ms,
                    last_ms,
                    series: lost,
                },
            ),
        }
    }

    /// The records of these series no longer hold what their ranges say.
    pub fn forget_ranges(&mut self, series: &RoaringBitmap) {
        for range in &mut self.ranges {
            range.series -= series;
        }
        self.ranges.retain(|range| !range.series.is_empty());
    }

    /// What [`decode`] insists on.
    fn is_consistent(&self) -> bool {
        let place = |range: &ErasedRange| (range.first_ms, range.last_ms);
        self.ranges.is_sorted_by(|a, b| place(a) < place(b))
            && self.ranges.iter().all(|range| {
                range.first_ms <= range.last_ms
                    && !range.series.is_empty()
                    && range.series.is_disjoint(&self.erased)
            })
    }

    /// Bytes that the bitmaps take, about.
    pub fn size(&self) -> usize {
        let ranges = self.ranges.iter();
        let ranges = ranges.map(|range| size_of::<ErasedRange>() + range.series.serialized_size());
        self.erased.serialized_size() + ranges.sum::<usize>()
    }
}

pub fn encode(tombstones: &Tombstones) -> Bytes {
    assert!(
        tombstones.is_consistent(),
        "tombstones contradict themselves"
    );
    encode_any(tombstones)
}

fn encode_any(tombstones: &Tombstones) -> Bytes {
    let mut value = vec![VERSION];
    push_varint(&mut value, tombstones.through_seq);
    push_series(&mut value, &tombstones.erased);
    push_varint(&mut value, tombstones.ranges.len() as u64);
    for range in &tombstones.ranges {
        push_zigzag(&mut value, range.first_ms);
        push_varint(
            &mut value,
            range.last_ms.wrapping_sub(range.first_ms) as u64,
        );
        push_series(&mut value, &range.series);
    }
    value.into()
}

fn push_series(value: &mut Vec<u8>, series: &RoaringBitmap) {
    let bitmap = inverted_index::encode(&mut series.clone());
    push_varint(value, bitmap.len() as u64);
    value.extend_from_slice(&bitmap);
}

pub fn decode(value: &[u8]) -> Result<Tombstones, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    let through_seq = match reader.u8()? {
        VERSION => reader.varint()?,
        VERSION_WITHOUT_SEQUENCE => 0,
        _ => return Err(reader.error("unknown version")),
    };
    let erased = series(&mut reader)?;
    let count = reader.varint()?;
    let mut ranges: Vec<ErasedRange> = Vec::new();
    for _ in 0..count {
        let first_ms = reader.zigzag()?;
        let length = i128::from(reader.varint()?);
        let last_ms = i64::try_from(i128::from(first_ms) + length);
        let last_ms = last_ms.map_err(|_| reader.error("range end out of bounds"))?;
        let before = ranges.last().map(|range| (range.first_ms, range.last_ms));
        if before.is_some_and(|before| before >= (first_ms, last_ms)) {
            return Err(reader.error("ranges are not in order"));
        }
        let series = series(&mut reader)?;
        if series.is_empty() {
            return Err(reader.error("range without series"));
        }
        if !series.is_disjoint(&erased) {
            return Err(reader.error("erased series in a range"));
        }
        ranges.push(ErasedRange {
            first_ms,
            last_ms,
            series,
        });
    }
    reader.finish()?;
    Ok(Tombstones {
        through_seq,
        erased,
        ranges,
    })
}

fn series(reader: &mut Reader<'_>) -> Result<RoaringBitmap, DecodeError> {
    let length = reader.varint()?;
    let length = usize::try_from(length).map_err(|_| reader.error("truncated"))?;
    let at = reader.position();
    let bitmap = reader.bytes(length)?;
    inverted_index::decode(bitmap)
        .map_err(|cause| DecodeError::new(RECORD, at, format!("bitmap: {cause}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bitmap(ids: &[u32]) -> RoaringBitmap {
        ids.iter().copied().collect()
    }

    #[test]
    fn what_is_erased_is_in_no_range() {
        let mut tombstones = Tombstones::default();
        tombstones.erase_range(10, 20, &bitmap(&[1, 2, 3]));
        tombstones.erase_range(15, 30, &bitmap(&[2]));
        tombstones.erase_range(10, 20, &bitmap(&[9]));
        assert_eq!(tombstones.ranges.len(), 2);
        assert_eq!(tombstones.ranges_of(SeriesId(2)), [(10, 20), (15, 30)]);
        assert_eq!(tombstones.in_ranges(), bitmap(&[1, 2, 3, 9]));
        tombstones.erase(&bitmap(&[2, 7]));
        assert_eq!(tombstones.ranges.len(), 1);
        tombstones.erase_range(1, 2, &bitmap(&[7]));
        assert_eq!(
            tombstones.ranges.len(),
            1,
            "an erased series has nothing to lose"
        );
        tombstones.forget_ranges(&bitmap(&[1, 3, 9]));
        assert!(tombstones.ranges.is_empty() && !tombstones.is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let mut tombstones = Tombstones::default();
        tombstones.erase_range(i64::MIN, i64::MAX, &bitmap(&[1]));
        let value = encode(&tombstones);
        assert_eq!(decode(&value), Ok(tombstones.clone()));
        tombstones.erased = bitmap(&[1]);
        assert!(decode(&encode_any(&tombstones)).is_err() && !tombstones.is_consistent());
        tombstones.erased = bitmap(&[2]);
        tombstones.ranges.push(tombstones.ranges[0].clone());
        assert!(decode(&encode_any(&tombstones)).is_err() && !tombstones.is_consistent());
        tombstones.ranges = vec![ErasedRange {
            first_ms: 0,
            last_ms: 0,
            series: bitmap(&[]),
        }];
        assert!(decode(&encode_any(&tombstones)).is_err() && !tombstones.is_consistent());
    }

    proptest! {
        #[test]
        fn what_was_encoded_decodes(
            through_seq in any::<u64>(),
            erased in prop::collection::vec(any::<u32>(), 0..50),
            ranges in prop::collection::vec((any::<i64>(), any::<i64>(), prop::collection::vec(0..90u32, 0..9)), 0..5),
        ) {
            let mut tombstones = Tombstones {
                through_seq,
                ..Tombstones::default()
            };
            tombstones.erase(&bitmap(&erased));
            for (first, last, series) in ranges {
                tombstones.erase_range(first.min(last), first.max(last), &bitmap(&series));
            }
            prop_assert_eq!(decode(&encode(&tombstones)), Ok(tombstones));
        }
    }
}
