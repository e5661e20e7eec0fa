//! Time that is too old: its samples have been culled, and what comes late would stand alone there.
//!
//! Holds always:
//! - Once it is raised, no request that was decoded before is appended below it: an append looks at
//!   it again, and raising it waits for appends that are under way.

use std::ops::Range;

use icecore_model::BucketStart;

use super::Head;

/// Which hours take no samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeFloor {
    /// Raw samples that are older have been culled.
    raw_ms: i64,
    /// Older than anything that is kept.
    all_ms: i64,
    /// Time between the two of which there are windows. The rest of it is open to imports of
    /// history.
    rolled: Vec<Range<i64>>,
}

impl TimeFloor {
    /// `rolled` is sorted and does not overlap.
    pub(crate) fn new(raw_ms: i64, all_ms: i64, rolled: Vec<Range<i64>>) -> Self {
        Self {
            raw_ms,
            all_ms,
            rolled,
        }
    }

    pub(crate) fn refuses(&self, hour: BucketStart) -> bool {
        let time_ms = hour.start_ms();
        if time_ms >= self.raw_ms {
            return false;
        }
        let after = self.rolled.partition_point(|range| range.end <= time_ms);
        let covered = self.rolled.get(after);
        time_ms < self.all_ms || covered.is_some_and(|range| range.start <= time_ms)
    }
}

impl Head {
    pub(crate) fn refuses(&self, hour: BucketStart) -> bool {
        self.floor.read().refuses(hour)
    }

    /// Raises the floor, and waits for appends that are under way.
    pub(crate) fn set_floor(&self, floor: TimeFloor) {
        let _no_append = self.sequencer.lock();
        *self.floor.write() = floor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_may_be_imported_where_nothing_is_left() {
        let hour = |hour: u32| BucketStart(hour * 60);
        let ms = |hour: u32| hour_ms(hour);
        let floor = TimeFloor::new(ms(100), ms(10), vec![ms(30)..ms(40), ms(60)..ms(100)]);
        for (at, refused) in [
            (9, true),
            (10, false),
            (29, false),
            (30, true),
            (39, true),
            (40, false),
            (60, true),
            (99, true),
            (100, false),
        ] {
            assert_eq!(floor.refuses(hour(at)), refused, "hour {at}");
        }
        assert!(!TimeFloor::default().refuses(hour(0)));
    }

    fn hour_ms(hour: u32) -> i64 {
        i64::from(hour) * icecore_model::HOUR_MS
    }
}
