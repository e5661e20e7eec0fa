//! Running totals of delta points: what has been added up for each series, up to which point.
//!
//! ```text
//! version u8 = 1 | saved at, seconds since 1970 uv | count uv | total*
//! total   series: fingerprint u128 BE, check u64
//!         | flags u8 (bit 0 histogram, bit 1 has a start) | idle seconds when it was saved uv
//!         | end − end of the total before, zz | [end − start, zz]
//!         | float: f64; histogram: as in the journal
//! ```
//!
//! A record holds the totals of one part of all series, by the first bits of their fingerprints
//! (`SeriesKey::part`), so that what has not changed need not be written again.
//!
//! Holds always:
//! - A series is recognised by its labels alone, by 192 bits of two hashes of them.
//! - Totals are sorted by series, and none occurs twice.

use bytes::Bytes;
use icecore_model::Histogram;
use icecore_model::varint::{push_varint, push_zigzag};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

use crate::forward_index::push_bindings;
use crate::reader::Reader;
use crate::{DecodeError, histogram};

const RECORD: &str = "DeltaTotals";
const VERSION: u8 = 1;

/// Parts into which the totals are divided. A million series make records of about 250 totals each.
pub const PARTS: u16 = 1 << PART_BITS;
const PART_BITS: u32 = 12;

/// Makes the second hash independent of the first.
const CHECK_SEED: u64 = 0x6963_6563_6f72_6531;

const HISTOGRAM: u8 = 1;
const HAS_START: u8 = 2;

/// Identity, flags and a byte for each number.
const MIN_TOTAL_LEN: usize = 24 + 1 + 1 + 1;

/// Identity of a series, whatever its references and ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesKey {
    /// `Labels::fingerprint`.
    pub fingerprint: u128,
    /// Another hash of the same bytes.
    pub check: u64,
}

impl SeriesKey {
    /// The key of labels that are sorted by name, unique and without empty values. `buffer` is only
    /// there to be reused.
    pub fn of<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>, buffer: &mut Vec<u8>) -> Self {
        buffer.clear();
        push_bindings(buffer, labels);
        let pairs = buffer.get(2..).unwrap_or_default();
        Self {
            fingerprint: xxh3_128(pairs),
            check: xxh3_64_with_seed(pairs, CHECK_SEED),
        }
    }

    /// The part to which the series belongs.
    pub fn part(self) -> u16 {
        (self.fingerprint >> (128 - PART_BITS)) as u16
    }
}

/// What has been added up for one series.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaTotal {
    pub series: SeriesKey,
    /// Where the last point ended.
    pub end_ms: i64,
    /// Where the first point began; 0 when it did not say.
    pub start_ms: i64,
    /// Seconds since 1970 at which the last point came.
    pub written_s: u32,
    pub value: TotalValue,
}

#[derive(Clone, Debug)]
pub enum TotalValue {
    Float(f64),
    Histogram(Box<Histogram>),
}

impl PartialEq for TotalValue {
    /// Bit for bit.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => one.to_bits() == other.to_bits(),
            (Self::Histogram(one), Self::Histogram(other)) => one == other,
            _ => false,
        }
    }
}

/// The record of one part, each series once. The totals are sorted here.
pub fn encode(totals: &mut [DeltaTotal], saved_s: u32) -> Bytes {
    totals.sort_unstable_by_key(|total| total.series);
    let repeated = totals.windows(2).any(|two| two[0].series == two[1].series);
    assert!(!repeated, "two totals of one series");
    let mut value = Vec::with_capacity(16 + 48 * totals.len());
    value.push(VERSION);
    push_varint(&mut value, saved_s.into());
    push_varint(&mut value, totals.len() as u64);
    let mut end_before = 0i64;
    for total in totals {
        value.extend_from_slice(&total.series.fingerprint.to_be_bytes());
        value.extend_from_slice(&total.series.check.to_le_bytes());
        let histogram = matches!(total.value, TotalValue::Histogram(_));
        let has_start = total.start_ms != 0;
        value.push((u8::from(histogram) * HISTOGRAM) | (u8::from(has_start) * HAS_START));
        push_varint(&mut value, saved_s.saturating_sub(total.written_s).into());
        push_zigzag(&mut value, total.end_ms.wrapping_sub(end_before));
        end_before = total.end_ms;
        if has_start {
            push_zigzag(&mut value, total.end_ms.wrapping_sub(total.start_ms));
        }
        match &total.value {
            TotalValue::Float(sum) => value.extend_from_slice(&sum.to_bits().to_le_bytes()),
            TotalValue::Histogram(sum) => histogram::push(&mut value, None, sum),
        }
    }
    value.into()
}

pub fn decode(value: &[u8]) -> Result<Vec<DeltaTotal>, DecodeError> {
    let mut reader = Reader::new(RECORD, value);
    reader.version(VERSION)?;
    let saved_s = reader.varint32()?;
    let count = reader.count(MIN_TOTAL_LEN)?;
    let mut totals: Vec<DeltaTotal> = Vec::with_capacity(count);
    let mut end_ms = 0i64;
    for _ in 0..count {
        let series = SeriesKey {
            fingerprint: u128::from_be_bytes(reader.array()?),
            check: reader.u64()?,
        };
        if totals.last().is_some_and(|before| before.series >= series) {
            return Err(reader.error("totals are not sorted"));
        }
        let flags = reader.u8()?;
        if flags & !(HISTOGRAM | HAS_START) != 0 {
            return Err(reader.error("unknown flags"));
        }
        let idle_s = reader.varint32()?;
        end_ms = end_ms.wrapping_add(reader.zigzag()?);
        let start_ms = if flags & HAS_START != 0 {
            end_ms.wrapping_sub(reader.zigzag()?)
        } else {
            0
        };
        let value = if flags & HISTOGRAM != 0 {
            let found = histogram::read(&mut reader, None)?;
            let found = found.ok_or_else(|| reader.error("total without a histogram"))?;
            TotalValue::Histogram(Box::new(found))
        } else {
            TotalValue::Float(reader.f64()?)
        };
        totals.push(DeltaTotal {
            series,
            end_ms,
            start_ms,
            written_s: saved_s.saturating_sub(idle_s),
            value,
        });
    }
    reader.finish()?;
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use icecore_model::Labels;
    use proptest::prelude::*;

    use super::*;

    fn total() -> impl Strategy<Value = DeltaTotal> {
        let times = (any::<i64>(), any::<i64>(), any::<u32>());
        (any::<u128>(), any::<u64>(), times, any::<u64>()).prop_map(
            |(fingerprint, check, (end_ms, start_ms, written_s), bits)| DeltaTotal {
                series: SeriesKey { fingerprint, check },
                end_ms,
                start_ms,
                written_s,
                value: TotalValue::Float(f64::from_bits(bits)),
            },
        )
    }

    #[test]
    fn the_key_is_the_fingerprint_of_the_labels() {
        let labels = Labels::from_pairs([("__name__", "m"), ("a", "b")]);
        let key = SeriesKey::of(labels.iter(), &mut Vec::new());
        assert_eq!(key.fingerprint, labels.fingerprint());
        assert!(key.part() < PARTS);
        let other = Labels::from_pairs([("__name__", "m"), ("ab", "")]);
        assert_ne!(key, SeriesKey::of(other.iter(), &mut Vec::new()));
    }

    proptest! {
        #[test]
        fn totals_come_back(
            totals in prop::collection::vec(total(), 0..20),
            saved_s in any::<u32>(),
        ) {
            let mut totals = totals;
            totals.sort_by_key(|t| t.series);
            totals.dedup_by_key(|t| t.series);
            for total in &mut totals {
                total.written_s = total.written_s.min(saved_s);
            }
            let value = encode(&mut totals, saved_s);
            prop_assert_eq!(decode(&value).unwrap(), totals);
        }
    }
}
