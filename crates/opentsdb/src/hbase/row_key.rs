//! Keys of the data table: the series and an hour of it.

use super::{LayoutError, take};
use crate::uid::{Tsuid, Uid, UidKind, push_uid};

/// Bytes of the base time.
const TIME_BYTES: usize = 4;

/// Seconds of a row.
pub const ROW_SECONDS: i64 = 3600;

const SALT_WIDTH_MAX: usize = 8;

/// How rows are spread over servers: bytes before the key, and how many values they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salt {
    /// 0 where there is none.
    width: usize,
    buckets: u32,
}

impl Salt {
    /// What the original takes where nothing is set.
    pub const BUCKETS: u32 = 20;

    pub fn width(self) -> usize {
        self.width
    }

    pub fn buckets(self) -> u32 {
        self.buckets
    }

    /// `None` where they cannot be.
    pub fn new(width: usize, buckets: u32) -> Option<Self> {
        let is_good = width <= SALT_WIDTH_MAX && (width == 0 || buckets > 0);
        is_good.then_some(Self { width, buckets })
    }

    /// The bucket of a series, by the hash that Java gives its TSUID.
    fn bucket(self, tsuid: &[u8]) -> u32 {
        let hash = tsuid.iter().fold(1i32, |hash, byte| {
            let byte = i32::from(*byte as i8);
            hash.wrapping_mul(31).wrapping_add(byte)
        });
        let buckets = i32::try_from(self.buckets).unwrap_or(i32::MAX);
        hash.wrapping_rem(buckets).unsigned_abs()
    }

    fn push(self, key: &mut Vec<u8>, tsuid: &[u8]) {
        if self.width > 0 {
            let bucket = u64::from(self.bucket(tsuid)).to_be_bytes();
            key.extend_from_slice(&bucket[bucket.len() - self.width..]);
        }
    }
}

/// Which bytes of a key are what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    pub widths: [usize; 3],
    pub salt: Salt,
}

/// A row of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowKey {
    pub tsuid: Tsuid,
    /// The start of the row, in seconds.
    pub base_s: u32,
}

/// The start of the row that holds a time.
pub fn row_base(timestamp_s: i64) -> Option<u32> {
    u32::try_from(timestamp_s - timestamp_s.rem_euclid(ROW_SECONDS)).ok()
}

impl KeyLayout {
    pub fn encode(&self, row: &RowKey) -> Vec<u8> {
        let tsuid = row.tsuid.to_bytes(self.widths);
        let (metric, tags) = tsuid.split_at(self.widths[UidKind::Metric as usize]);
        let mut key = Vec::with_capacity(self.salt.width + tsuid.len() + TIME_BYTES);
        self.salt.push(&mut key, &tsuid);
        key.extend_from_slice(metric);
        key.extend_from_slice(&row.base_s.to_be_bytes());
        key.extend_from_slice(tags);
        key
    }

    /// Keys of global annotations have metric 0 and no tags. The salt is not checked: rows may have
    /// been written with another number of buckets.
    pub fn decode(&self, key: &[u8]) -> Result<RowKey, LayoutError> {
        let parse = || {
            let mut rest = key;
            take(&mut rest, self.salt.width)?;
            let metric = take(&mut rest, self.widths[UidKind::Metric as usize])?;
            let base = take(&mut rest, TIME_BYTES)?;
            let tsuid = Tsuid::from_bytes(&[metric, rest].concat(), self.widths)?;
            let base_s = u32::from_be_bytes(base.try_into().ok()?);
            Some(RowKey { tsuid, base_s })
        };
        parse().ok_or_else(|| LayoutError::new("no row key", key))
    }

    /// The row of global annotations that holds a time.
    pub fn global_annotations(&self, base_s: u32) -> Vec<u8> {
        // These rows have a salt of zeros: there is no series to spread.
        let mut key = vec![0; self.salt.width];
        push_uid(&mut key, Uid(0), self.widths[UidKind::Metric as usize]);
        key.extend_from_slice(&base_s.to_be_bytes());
        key
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(salt: Salt) -> KeyLayout {
        KeyLayout {
            widths: [3; 3],
            salt,
        }
    }

    #[test]
    fn the_worked_example_is_written_and_read() {
        let row = RowKey {
            tsuid: Tsuid::new(Uid(1), vec![(Uid(1), Uid(1))]),
            base_s: row_base(1_356_998_430).unwrap(),
        };
        assert_eq!(row.base_s, 1_356_998_400);
        let plain = layout(Salt::default());
        let key = plain.encode(&row);
        assert_eq!(hex::encode_upper(&key), "00000150E22700000001000001");
        assert_eq!(plain.decode(&key), Ok(row.clone()));
        let salted = layout(Salt::new(1, 20).unwrap());
        let key = salted.encode(&row);
        assert_eq!(hex::encode_upper(&key), "0800000150E22700000001000001");
        assert_eq!(salted.decode(&key), Ok(row));
        let global = plain.global_annotations(1_356_998_400);
        assert_eq!(hex::encode_upper(&global), "00000050E22700");
        let tsuid = plain.decode(&global).unwrap().tsuid;
        assert_eq!(tsuid, Tsuid::new(Uid(0), vec![]));
    }

    #[test]
    fn series_are_spread_by_their_hash() {
        let salt = Salt::new(1, 20).unwrap();
        assert_eq!(salt.bucket(&hex::decode("000001000001000001").unwrap()), 8);
        assert_eq!(salt.bucket(&hex::decode("000001000001000002").unwrap()), 9);
        assert_eq!(Salt::new(1, 0), None);
        assert_eq!(Salt::new(9, 20), None);
    }

    proptest! {
        #[test]
        fn keys_survive(
            metric in 1u64..1 << 24,
            tags in prop::collection::btree_map(1u64..1 << 16, 1u64..1 << 32, 0..8),
            base_s in any::<u32>(),
            width in 0usize..=8,
        ) {
            let tags = tags.into_iter().map(|(key, value)| (Uid(key), Uid(value)));
            let row = RowKey { tsuid: Tsuid::new(Uid(metric), tags.collect()), base_s };
            let layout = KeyLayout {
                widths: [3, 2, 4],
                salt: Salt::new(width, 7).unwrap(),
            };
            prop_assert_eq!(layout.decode(&layout.encode(&row)), Ok(row));
        }

        #[test]
        fn no_bytes_panic(key in prop::collection::vec(any::<u8>(), 0..40), width in 0usize..=8) {
            let layout = layout(Salt::new(width, 20).unwrap());
            if let Ok(row) = layout.decode(&key) {
                prop_assert_eq!(&layout.encode(&row)[width..], &key[width..]);
            }
        }
    }
}
