//! The dictionary of dimension sets, and the limit of how many a metric may have.
//!
//! Holds always:
//! - A set that has cells has a record with its values, written in the batch of its first cells of
//!   the day.
//! - On one day of arrival a metric gets at most `max_dimension_sets` sets. What comes beyond them
//!   is counted in one overflow cell, and so are values that share a hash with others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use icecore_model::event::DimensionHash;
use icecore_model::varint::{push_varint, take_varint};
use icecore_model::{CatalogChange, CatalogRecord};

use super::dimension_set::{DimensionSet, OVERFLOW};
use crate::Metric;
use crate::catalog_key;
use crate::dimension::DimensionHasher;

const VERSION: u8 = 1;

/// The hash of a set, and more of the same digest: values that share the hash differ in the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetDigest {
    pub(crate) hash: DimensionHash,
    rest: [u8; 8],
}

impl SetDigest {
    pub(crate) fn of(values: &[u8]) -> Self {
        let all = digest(&SHA256, values);
        let mut read = Self {
            hash: DimensionHash::default(),
            rest: [0; 8],
        };
        read.hash.0.copy_from_slice(&all.as_ref()[..16]);
        read.rest.copy_from_slice(&all.as_ref()[16..24]);
        read
    }
}

/// Which sets have cells.
#[derive(Debug)]
pub(crate) struct DimensionGuard {
    limit: usize,
    metrics: HashMap<u32, KnownSets>,
}

#[derive(Debug, Default)]
struct KnownSets {
    /// The day that is counted.
    day: i64,
    /// Sets of that day.
    today: usize,
    sets: HashMap<DimensionHash, KnownSet>,
}

#[derive(Clone, Copy, Debug)]
struct KnownSet {
    rest: [u8; 8],
    /// The last day that its record names.
    day: i64,
}

/// Where the cells of a set go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Known,
    /// Its record is to be written.
    New,
    TooMany,
    /// Others have its hash.
    Collision,
}

impl DimensionGuard {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            metrics: HashMap::new(),
        }
    }

    /// Takes note of a stored set.
    pub(crate) fn load(&mut self, record: &CatalogRecord, today: i64) {
        let Some((metric, stored)) = StoredSet::decode(record) else {
            return;
        };
        // Older ones would only take memory: they are written again when they come back. The set of
        // the overflow cell is beside the limit.
        let set = DimensionSet::decode(stored.hash, stored.values);
        if stored.day < today || set.is_none_or(|set| set.is_overflow()) {
            return;
        }
        // The machine's clock may have been ahead: the limit is one of today.
        let day = stored.day.min(today);
        let known = self.metrics.entry(metric).or_default();
        known.day = known.day.max(day);
        known.today += 1;
        let digest = SetDigest::of(stored.values);
        known.sets.insert(
            digest.hash,
            KnownSet {
                rest: digest.rest,
                day,
            },
        );
    }

    pub(crate) fn admit(&mut self, metric: u32, digest: SetDigest, day: i64) -> Admission {
        let known = self.metrics.entry(metric).or_default();
        if day > known.day {
            known.day = day;
            known.today = 0;
            known.sets.retain(|_, set| set.day >= day - 1);
        }
        let is_full = known.today >= self.limit;
        match known.sets.entry(digest.hash) {
            Entry::Occupied(set) if set.get().rest != digest.rest => Admission::Collision,
            // What was admitted on an earlier day counts again today.
            Entry::Occupied(set) if set.get().day >= known.day => Admission::Known,
            _ if is_full => Admission::TooMany,
            entry => {
                entry.insert_entry(KnownSet {
                    rest: digest.rest,
                    day: known.day,
                });
                known.today += 1;
                Admission::New
            }
        }
    }
}

/// The values of a metric's overflow cell.
pub(crate) fn overflow_values(metric: &Metric) -> Arc<[u8]> {
    let mut hasher = DimensionHasher::new();
    for dimension in &metric.dimensions {
        hasher.push(&dimension.path, OVERFLOW);
    }
    Arc::from(hasher.canonical())
}

/// A set as its record has it.
struct StoredSet<'a> {
    hash: DimensionHash,
    day: i64,
    values: &'a [u8],
}

impl<'a> StoredSet<'a> {
    fn decode((key, value): &'a CatalogRecord) -> Option<(u32, Self)> {
        let (metric, hash) = catalog_key::read_dimension_set(key)?;
        let (version, mut values) = value.split_first()?;
        let day = take_varint(&mut values).ok()?;
        let set = Self {
            hash,
            day: i64::try_from(day).ok()?,
            values,
        };
        (*version == VERSION).then_some((metric, set))
    }
}

/// The record of a set that was admitted on a day.
pub(crate) fn set_record(
    metric: u32,
    hash: DimensionHash,
    values: &[u8],
    day: i64,
) -> CatalogChange {
    let mut value = vec![VERSION];
    push_varint(&mut value, u64::try_from(day).unwrap_or_default());
    value.extend_from_slice(values);
    CatalogChange {
        key: catalog_key::dimension_set(metric, hash),
        value: Some(value),
    }
}

/// The last day on which the set of a record came.
pub(crate) fn last_day(record: &CatalogRecord) -> Option<i64> {
    StoredSet::decode(record).map(|(_, set)| set.day)
}

pub(crate) fn read_set(record: &CatalogRecord) -> Option<DimensionSet> {
    let (_, set) = StoredSet::decode(record)?;
    DimensionSet::decode(set.hash, set.values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(values: &str) -> SetDigest {
        SetDigest::of(values.as_bytes())
    }

    #[test]
    fn a_metric_gets_so_many_sets_a_day() {
        let mut guard = DimensionGuard::new(2);
        assert_eq!(guard.admit(1, digest_of("a"), 5), Admission::New);
        assert_eq!(guard.admit(1, digest_of("b"), 5), Admission::New);
        assert_eq!(guard.admit(1, digest_of("a"), 5), Admission::Known);
        assert_eq!(guard.admit(1, digest_of("c"), 5), Admission::TooMany);
        assert_eq!(guard.admit(2, digest_of("c"), 5), Admission::New);
        assert_eq!(guard.admit(1, digest_of("c"), 6), Admission::New);
        assert_eq!(guard.admit(1, digest_of("a"), 6), Admission::New);
        assert_eq!(guard.admit(1, digest_of("b"), 6), Admission::TooMany);
    }

    #[test]
    fn values_that_share_a_hash_are_told_apart() {
        let mut guard = DimensionGuard::new(2);
        let first = digest_of("a");
        assert_eq!(guard.admit(1, first, 5), Admission::New);
        let second = SetDigest {
            rest: [1; 8],
            ..first
        };
        assert_eq!(guard.admit(1, second, 5), Admission::Collision);
        assert_eq!(guard.admit(1, first, 5), Admission::Known);
    }

    #[test]
    fn the_sets_of_today_are_known_after_a_restart() {
        let values = b"a\x1fx\x1e";
        let digest = SetDigest::of(values);
        let change = set_record(7, digest.hash, values, 20_000);
        let record = (change.key, change.value.unwrap());
        let expected = DimensionSet {
            hash: digest.hash,
            values: vec![("a".into(), "x".into())],
        };
        assert_eq!(read_set(&record), Some(expected));
        let mut guard = DimensionGuard::new(1);
        guard.load(&record, 20_000);
        assert_eq!(guard.admit(7, digest, 20_000), Admission::Known);
        assert_eq!(guard.admit(7, digest_of("b"), 20_000), Admission::TooMany);
        let mut guard = DimensionGuard::new(1);
        guard.load(&record, 20_001);
        assert_eq!(guard.admit(7, digest_of("b"), 20_001), Admission::New);
        // Of a day that has not come yet.
        let mut guard = DimensionGuard::new(1);
        guard.load(&record, 19_000);
        assert_eq!(guard.admit(7, digest, 19_000), Admission::Known);
        assert_eq!(guard.admit(7, digest_of("b"), 19_000), Admission::TooMany);
        assert_eq!(guard.admit(7, digest_of("b"), 19_001), Admission::New);
    }
}
