//! When a target is scraped, and with which timestamp.
//!
//! ```text
//! interval   ├───────────────┼───────────────┼───────────────┤   multiples since the UNIX epoch
//! ticks          │               │               │               the same offset in each
//!              offset = hash of the target mod interval
//! ```
//!
//! Holds always:
//! - The offset depends on the target's labels and URL alone, so that a restart goes on where it
//!   left off, and targets are spread over the interval.
//! - A scrape that begins nearly on time has the tick's own timestamp: regular timestamps compress
//!   far better, and series of a target share them.
//! - A scrape that takes longer than the interval is followed by the next at once, for the newest
//!   tick that passed meanwhile; older ones are skipped, never made up for. As in Prometheus: a
//!   target that uses up its time-out is scraped once per interval, not every second time.

use std::time::Duration;

/// How far from its tick a scrape may begin and still have the tick's timestamp; Prometheus' own
/// value.
const TIMESTAMP_TOLERANCE_MS: i64 = 2;

/// The ticks of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    interval_ms: i64,
    offset_ms: i64,
}

impl Schedule {
    /// `hash` is that of the target.
    pub(super) fn new(interval: Duration, hash: u64) -> Self {
        // Durations are configured in ms, and longer than half of all time is never waited for.
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX / 4);
        let interval_ms = interval_ms.clamp(1, i64::MAX / 4);
        let offset_ms = (hash % interval_ms.unsigned_abs()).cast_signed();
        Self {
            interval_ms,
            offset_ms,
        }
    }

    /// The tick to serve next: the one after the tick that was served last, or the newest if
    /// several have passed since. A clock that was set back by more than an interval starts over.
    pub(super) fn next(&self, now_ms: i64, last_tick_ms: Option<i64>) -> i64 {
        let upcoming = self.after(now_ms);
        match last_tick_ms {
            Some(last) if last - now_ms < self.interval_ms => {
                self.after(last).max(upcoming - self.interval_ms)
            }
            _ => upcoming,
        }
    }

    /// The first tick after a moment.
    fn after(&self, ms: i64) -> i64 {
        let into = (ms - self.offset_ms).rem_euclid(self.interval_ms);
        ms - into + self.interval_ms
    }

    /// The timestamp of a scrape that was due at `tick_ms` and begins at `now_ms`.
    pub(super) fn timestamp(&self, tick_ms: i64, now_ms: i64) -> i64 {
        // Of a short interval at most a hundredth.
        let tolerance = TIMESTAMP_TOLERANCE_MS.min(self.interval_ms / 100);
        if (now_ms - tick_ms).abs() <= tolerance {
            tick_ms
        } else {
            now_ms
        }
    }

    /// How many ticks lie between the one that was served and `next_ms`, both excluded.
    pub(super) fn missed(&self, last_tick_ms: i64, next_ms: i64) -> u64 {
        let steps = (next_ms - last_tick_ms) / self.interval_ms;
        u64::try_from(steps - 1).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ticks_are_regular_and_do_not_depend_on_when_one_asks() {
        let schedule = Schedule::new(15 * SECOND, 4_000);
        assert_eq!(schedule.next(0, None), 4_000);
        assert_eq!(schedule.next(3_999, None), 4_000);
        assert_eq!(schedule.next(4_000, Some(4_000)), 19_000);
        assert_eq!(schedule.next(18_999, Some(4_000)), 19_000);
        // A second process asks at some other time.
        assert_eq!(schedule.next(5_123, None), 19_000);
    }

    #[test]
    fn a_tick_is_not_served_twice_when_the_timer_was_early() {
        let schedule = Schedule::new(SECOND, 0);
        assert_eq!(schedule.next(2_999, Some(3_000)), 4_000);
    }

    #[test]
    fn missed_ticks_are_skipped_and_counted() {
        let schedule = Schedule::new(SECOND, 0);
        let next = schedule.next(4_500, Some(2_000));
        assert_eq!(next, 4_000, "the newest is served late");
        assert_eq!(schedule.missed(2_000, next), 1);
        assert_eq!(schedule.missed(3_000, next), 0);
        assert_eq!(schedule.missed(9_000, next), 0);
        // One that takes exactly its interval misses nothing.
        assert_eq!(schedule.next(3_001, Some(2_000)), 3_000);
        assert_eq!(schedule.next(4_002, Some(3_000)), 4_000);
        // A scrape that was no tick's.
        assert_eq!(schedule.next(2_400, Some(2_300)), 3_000);
    }

    #[test]
    fn a_clock_that_was_set_back_begins_anew() {
        let schedule = Schedule::new(SECOND, 0);
        assert_eq!(schedule.next(2_500, Some(90_000)), 3_000);
    }

    #[test]
    fn timestamps_are_those_of_ticks_within_the_tolerance() {
        let schedule = Schedule::new(15 * SECOND, 0);
        assert_eq!(schedule.timestamp(15_000, 15_002), 15_000);
        assert_eq!(schedule.timestamp(15_000, 14_999), 15_000);
        assert_eq!(schedule.timestamp(15_000, 15_003), 15_003);
        let short = Schedule::new(SECOND / 10, 0);
        assert_eq!(short.timestamp(100, 102), 102);
    }

    #[test]
    fn targets_are_spread_over_the_interval() {
        let mut tenths = [0; 10];
        for target in 0..1000u64 {
            let hash = xxhash_rust::xxh3::xxh3_64(&target.to_le_bytes());
            let at = Schedule::new(10 * SECOND, hash).next(0, None);
            tenths[usize::try_from((at - 1) / 1000).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|n| (50..200).contains(n)), "{tenths:?}");
    }

    proptest! {
        #[test]
        fn the_next_tick_is_the_nearest_one(
            interval in 1i64..1_000_000, hash: u64, now in 0i64..4_000_000_000_000,
        ) {
            let schedule = Schedule::new(Duration::from_millis(interval.unsigned_abs()), hash);
            let next = schedule.next(now, None);
            prop_assert!(next > now && next - now <= interval);
            prop_assert_eq!(schedule.next(next, Some(next)), next + interval);
        }
    }
}
