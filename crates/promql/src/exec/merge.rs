//! Merging rows with equal labels.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use icecore_model::Labels;

use super::Row;
use crate::error::{Error, Result};

/// Merges rows with equal labels. It is an error if two of them have a value at the same step: the
/// answer would contain a series twice.
pub(crate) fn merge_equal_labels(rows: Vec<Row>) -> Result<Vec<Row>> {
    let mut indexes: HashMap<Labels, usize, BuildHasherDefault<FingerprintHasher>> =
        HashMap::with_capacity_and_hasher(rows.len(), BuildHasherDefault::default());
    let mut merged: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        match indexes.get(&row.labels) {
            None => {
                indexes.insert(row.labels.clone(), merged.len());
                merged.push(row);
            }
            Some(index) => merge_into(&mut merged[*index], row)?,
        }
    }
    Ok(merged)
}

/// The same for results that Prometheus merges step by step: the row with the first value decides
/// whether the name is to be removed.
pub(crate) fn merge_steps(mut rows: Vec<Row>) -> Result<Vec<Row>> {
    if !has_equal_labels(&rows) {
        return Ok(rows);
    }
    let first = |row: &Row| (0..row.values.floats.len()).find(|step| row.values.is_present(*step));
    rows.sort_by_cached_key(first);
    merge_equal_labels(rows)
}

/// Whether any two rows have the same labels.
pub(crate) fn has_equal_labels(rows: &[Row]) -> bool {
    let mut seen: HashSet<&Labels, BuildHasherDefault<FingerprintHasher>> =
        HashSet::with_capacity_and_hasher(rows.len(), BuildHasherDefault::default());
    !rows.iter().all(|row| seen.insert(&row.labels))
}

fn merge_into(target: &mut Row, row: Row) -> Result<()> {
    for step in 0..row.values.floats.len() {
        if !row.values.is_present(step) {
            continue;
        }
        if target.values.is_present(step) {
            return Err(Error::same_labelset());
        }
        match row.values.histogram(step) {
            Some(histogram) => target.values.set_histogram(step, histogram.clone()),
            None => target.values.set_float(step, row.values.floats[step]),
        }
    }
    Ok(())
}

/// Takes the fingerprint of a label set as its hash; it needs no further mixing.
#[derive(Default)]
struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
