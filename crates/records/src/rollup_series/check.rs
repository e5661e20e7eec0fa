//! What holds for the windows of every record, checked in what was read of one.

use icecore_model::is_stale_nan;
use icecore_model::rollup::WindowFields;

use super::column::{COUNT_LIMIT, Column};
use super::read::{SegmentReader, broken};
use crate::DecodeError;

impl SegmentReader {
    /// What every record of windows keeps to, as far as it was read. Loops without an early end:
    /// what was read is nearly always right, and they take several entries at a time.
    pub(super) fn check(&self, fields: WindowFields, width_ms: i64) -> Result<(), DecodeError> {
        for column in [
            Column::Numbers,
            Column::Nans,
            Column::Resets,
            Column::Changes,
        ] {
            let is_read = column.is_in(fields) && self.is_stored(column);
            let all = |bits, count: &i64| bits | count;
            if is_read && self.integers(column).iter().fold(0, all) as u64 >= COUNT_LIMIT {
                return Err(broken("count out of range"));
            }
        }
        if fields.contains(WindowFields::COUNTS) {
            let numbers = self.integers(Column::Numbers).iter();
            let counts = numbers.zip(self.integers(Column::Nans));
            if any(counts.map(|(numbers, nans)| numbers | nans == 0)) {
                return Err(broken("interior without samples"));
            }
        }
        // Negative ones are large.
        let most = (width_ms - 2) as u64;
        for column in [Column::FirstTime, Column::LastTime] {
            let offsets = self.integers(column).iter();
            let is_read = column.is_in(fields) && self.is_stored(column);
            if is_read && any(offsets.map(|offset| *offset as u64 > most)) {
                return Err(broken("sample outside of its window"));
            }
        }
        if fields.contains(WindowFields::FIRST | WindowFields::LAST) {
            let firsts = self.integers(Column::FirstTime).iter();
            let ends = firsts.zip(self.integers(Column::LastTime));
            if any(ends.map(|(first, last)| (first + last) as u64 > most)) {
                return Err(broken("last sample before the first"));
            }
        }
        for column in Column::ALL {
            let is_read = column.is_in(fields) && self.done & column.bit() != 0;
            let values = self.floats(column).iter();
            if is_read && any(values.map(|value| is_stale_nan(*value))) {
                return Err(broken("stale marker as a value"));
            }
        }
        Ok(())
    }
}

/// Looks at all of them.
fn any(found: impl Iterator<Item = bool>) -> bool {
    found.fold(false, |any, found| any | found)
}
