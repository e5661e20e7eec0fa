//! What a finished epoch of the journal holds: a start skips an epoch whose samples are all in
//! buckets.
//!
//! ```text
//! version u8 = 1 | xxh3-64 of the rest, u64 LE | first sequence uv | last sequence − first, uv
//! | units: count uv, (unit − the one before, uv | last sequence − the unit's last, uv)*
//! unit: the start of an hour in minutes, or 2³² − 3 for events, 2³² − 2 for running totals,
//! 2³² − 1 for the catalog
//! ```
//!
//! Holds always:
//! - It is written once the epoch is finished and durable, and never changed.
//! - It names every unit with entries that were not in the store by then, with the last sequence
//!   number that touched it. What it does not name was covered by a cursor.
//! - Believing damaged bytes would lose samples, hence the checksum: a summary that cannot be read
//!   is ignored.

use std::collections::BTreeMap;

use bytes::Bytes;
use icecore_model::BucketStart;
use icecore_model::varint::push_varint;
use xxhash_rust::xxh3::xxh3_64;

use crate::DecodeError;
use crate::reader::Reader;

const RECORD: &str = "EpochSummary";
const VERSION: u8 = 1;
const CHECKSUM_END: usize = 9;

/// A unit and a sequence number take at least a byte each.
const MIN_UNIT_LEN: usize = 2;

/// What a flush brings into the store as a whole, and what epochs of the journal wait for. In the
/// order in which it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlushUnit {
    /// Samples of an hour.
    Hour(BucketStart),
    /// Events that are not in files.
    Events,
    /// Running totals of deltas.
    Totals,
    /// Metric metadata.
    Catalog,
}

impl FlushUnit {
    const EVENTS: u32 = u32::MAX - 2;
    const TOTALS: u32 = u32::MAX - 1;
    const CATALOG: u32 = u32::MAX;

    fn number(self) -> u32 {
        match self {
            // Starts of hours are multiples of 60.
            Self::Hour(hour) => hour.minutes(),
            Self::Events => Self::EVENTS,
            Self::Totals => Self::TOTALS,
            Self::Catalog => Self::CATALOG,
        }
    }

    fn from_number(number: u32) -> Self {
        match number {
            Self::EVENTS => Self::Events,
            Self::TOTALS => Self::Totals,
            Self::CATALOG => Self::Catalog,
            minutes => Self::Hour(BucketStart(minutes)),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochSummary {
    pub first_seq: u64,
    pub last_seq: u64,
    /// The last sequence number that touched each unit.
    pub units: BTreeMap<FlushUnit, u64>,
}

impl EpochSummary {
    /// Whether the store has all of the epoch. `cursor` is up to where it has a unit.
    pub fn is_covered(&self, cursor: impl Fn(FlushUnit) -> Option<u64>) -> bool {
        let covered =
            |(unit, last): (&FlushUnit, &u64)| cursor(*unit).is_some_and(|at| at >= *last);
        self.units.iter().all(covered)
    }
}

pub fn encode(summary: &EpochSummary) -> Bytes {
    let mut value = Vec::with_capacity(CHECKSUM_END + 16 + 8 * summary.units.len());
    value.push(VERSION);
    value.extend_from_slice(&[0; 8]);
    push_varint(&mut value, summary.first_seq);
    push_varint(&mut value, summary.last_seq.wrapping_sub(summary.first_seq));
    push_varint(&mut value, summary.units.len() as u64);
    let mut before = 0;
    for (unit, last) in &summary.units {
        push_varint(&mut value, u64::from(unit.number() - before));
        push_varint(&mut value, summary.last_seq.wrapping_sub(*last));
        before = unit.number();
    }
    let checksum = xxh3_64(&value[CHECKSUM_END..]);
    value[1..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
    value.into()
}

pub fn decode(value: &[u8]) -> Result<EpochSummary, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let checksum = reader.u64()?;
    if checksum != xxh3_64(&value[CHECKSUM_END..]) {
        return Err(reader.error("checksum does not match"));
    }
    let first_seq = reader.varint()?;
    let last_seq = first_seq.checked_add(reader.varint()?);
    let last_seq = last_seq.ok_or_else(|| reader.error("sequence number"))?;
    let count = reader.count(MIN_UNIT_LEN)?;
    let mut units = BTreeMap::new();
    let mut before = 0u32;
    for i in 0..count {
        let step = reader.varint32()?;
        let number = before.checked_add(step).filter(|_| i == 0 || step > 0);
        let number = number.ok_or_else(|| reader.error("units do not ascend"))?;
        let last = last_seq.checked_sub(reader.varint()?);
        let last = last.filter(|last| *last >= first_seq);
        let last = last.ok_or_else(|| reader.error("sequence number outside of the epoch"))?;
        units.insert(FlushUnit::from_number(number), last);
        before = number;
    }
    reader.finish()?;
    Ok(EpochSummary {
        first_seq,
        last_seq,
        units,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary() -> EpochSummary {
        EpochSummary {
            first_seq: 10,
            last_seq: 20,
            units: [(0, 10), (60, 20), (u32::MAX, 15)]
                .map(|(number, last)| (FlushUnit::from_number(number), last))
                .into(),
        }
    }

    #[test]
    fn covered_means_every_unit() {
        let cursors = |catalog: u64| {
            move |unit: FlushUnit| match unit {
                FlushUnit::Hour(BucketStart(0)) => Some(10),
                FlushUnit::Hour(_) => Some(25),
                FlushUnit::Totals | FlushUnit::Events => None,
                FlushUnit::Catalog => Some(catalog),
            }
        };
        assert!(summary().is_covered(cursors(15)));
        assert!(!summary().is_covered(cursors(14)));
        assert!(!summary().is_covered(|unit| (unit != FlushUnit::Catalog).then_some(99)));
        let nothing_left = EpochSummary {
            units: BTreeMap::new(),
            ..summary()
        };
        assert!(nothing_left.is_covered(|_| None));
    }

    #[test]
    fn units_are_stored_in_their_order_and_none_is_an_hour() {
        let last_hour = BucketStart(u32::MAX / 60 * 60);
        let units = [
            FlushUnit::Hour(last_hour),
            FlushUnit::Events,
            FlushUnit::Totals,
            FlushUnit::Catalog,
        ];
        assert!(units.is_sorted());
        assert!(units.map(FlushUnit::number).is_sorted_by(|a, b| a < b));
        for unit in units {
            assert_eq!(FlushUnit::from_number(unit.number()), unit);
        }
        let summary = EpochSummary {
            units: units.map(|unit| (unit, 20)).into(),
            ..summary()
        };
        assert_eq!(decode(&encode(&summary)), Ok(summary));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let value = encode(&summary());
        for at in 0..value.len() * 8 {
            let mut damaged = value.to_vec();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(decode(&damaged).is_err(), "bit {at}");
        }
        for end in 0..value.len() {
            assert!(decode(&value[..end]).is_err(), "cut at {end}");
        }
    }

    /// With a checksum that is right.
    fn sealed(rest: &[u64]) -> Vec<u8> {
        let mut value = vec![VERSION, 0, 0, 0, 0, 0, 0, 0, 0];
        rest.iter().for_each(|n| push_varint(&mut value, *n));
        let checksum = xxh3_64(&value[CHECKSUM_END..]);
        value[1..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
        value
    }

    #[test]
    fn what_no_encoder_writes_is_an_error() {
        assert!(decode(&sealed(&[10, 10, 1, 60, 0])).is_ok());
        for (wrong, reason) in [
            (&[u64::MAX, 1, 0][..], "sequence number"),
            (&[10, 10, 1, 60, 11], "sequence number outside of the epoch"),
            (
                &[10, 10, 1, 60, u64::MAX],
                "sequence number outside of the epoch",
            ),
            (&[10, 10, 2, 60, 0, 0, 0], "units do not ascend"),
            (&[10, 10, 2, 4_294_967_295, 0, 1, 0], "units do not ascend"),
            (&[10, 10, 1 << 40, 1, 1], "more elements than bytes"),
            (&[10, 10, 0, 0], "bytes after the end"),
        ] {
            assert_eq!(
                decode(&sealed(wrong)).unwrap_err().reason,
                reason,
                "{wrong:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            first_seq in any::<u64>(),
            length in any::<u32>(),
            hours in prop::collection::btree_map(any::<u32>(), any::<u32>(), 0..50),
        ) {
            let last_seq = first_seq.saturating_add(length.into());
            let length = last_seq - first_seq;
            let within = |offset: u32| first_seq + u64::from(offset) % (length + 1);
            let unit = |(number, offset)| (FlushUnit::from_number(number), within(offset));
            let units = hours.into_iter().map(unit).collect();
            let summary = EpochSummary { first_seq, last_seq, units };
            prop_assert_eq!(decode(&encode(&summary)), Ok(summary));
        }
    }
}
