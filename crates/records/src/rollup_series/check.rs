//! What holds for the windows of every record, checked in what was read of one.

use icecore_model::is_stale_nan;
use icecore_model::rollup::WindowFields;

use super::column::{COUNT_LIMIT, Column};
use super::read::{SegmentReader, broken};
use crate::DecodeError;

impl SegmentReader {
    /// What every record of windows keeps to, as far as it was read.
    pub(super) fn check(&self, fields: WindowFields, width_ms: i64) -> Result<(), DecodeError> {
        for column in [
            Column::Numbers,
            Column::Nans,
            Column::Resets,
            Column::Changes,
        ] {
            let is_count = |count: &i64| (0..COUNT_LIMIT as i64).contains(count);
            if column.is_in(fields) && !self.integers(column).iter().all(is_count) {
                return Err(broken("count out of range"));
            }
        }
        if fields.contains(WindowFields::COUNTS) {
            let numbers = self.integers(Column::Numbers).iter();
            let mut counts = numbers.zip(self.integers(Column::Nans));
            if counts.any(|(numbers, nans)| numbers | nans == 0) {
                return Err(broken("interior without samples"));
            }
        }
        for column in [Column::FirstTime, Column::LastTime] {
            let is_inside = |offset: &i64| (0..width_ms - 1).contains(offset);
            if column.is_in(fields) && !self.integers(column).iter().all(is_inside) {
                return Err(broken("sample outside of its window"));
            }
        }
        if fields.contains(WindowFields::FIRST | WindowFields::LAST) {
            let firsts = self.integers(Column::FirstTime).iter();
            let mut ends = firsts.zip(self.integers(Column::LastTime));
            if !ends.all(|(first, last)| first + last <= width_ms - 2) {
                return Err(broken("last sample before the first"));
            }
        }
        for column in Column::ALL {
            let is_read = column.is_in(fields) && self.done & column.bit() != 0;
            if is_read && self.floats(column).iter().any(|value| is_stale_nan(*value)) {
                return Err(broken("stale marker as a value"));
            }
        }
        Ok(())
    }
}
