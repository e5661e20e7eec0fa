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
    /// Older than anything that is kept.
    kept_since_ms: i64,
    /// Time whose samples are culled, and windows of them are left. What is as old and of which
    /// nothing is left is open to imports of history.
    closed: Vec<Range<i64>>,
}

impl TimeFloor {
    /// `closed` is sorted and does not overlap.
    pub(crate) fn new(kept_since_ms: i64, closed: Vec<Range<i64>>) -> Self {
        Self {
            kept_since_ms,
            closed,
        }
    }

    pub(crate) fn refuses(&self, hour: BucketStart) -> bool {
        let time_ms = hour.start_ms();
        let after = self.closed.partition_point(|range| range.end <= time_ms);
        let closed = self.closed.get(after);
        time_ms < self.kept_since_ms || closed.is_some_and(|range| range.start <= time_ms)
    }
}

impl Head {
    pub(crate) fn refuses(&self, hour: BucketStart) -> bool {
        self.floor.read().refuses(hour)
    }

    /// Sets the floor, and waits for appends that are under way.
    pub(crate) fn set_floor(&self, floor: TimeFloor) {
        if *self.floor.read() == floor {
            return;
        }
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
        let floor = TimeFloor::new(ms(10), vec![ms(30)..ms(40), ms(60)..ms(100)]);
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
