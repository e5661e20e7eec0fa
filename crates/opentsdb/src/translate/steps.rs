//! At which steps an expression has to be evaluated.

use super::interval::Bucket;
use super::options::QueryTime;
use crate::query::{Interval, Scan, Window};

/// At which steps an expression has to be evaluated: parameters of `/api/v1/query_range`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// `None` where it is that of the points, or a variable's.
    pub step_ms: Option<i64>,
    /// First and last step, where the time of the query is known. If the first lies behind the
    /// last, there is none: see [`Steps::first_and_last_ms`].
    pub range_ms: Option<(i64, i64)>,
    /// One value at the end of the time, by `/api/v1/query`.
    pub is_instant: bool,
}

impl Steps {
    /// Returns the first and the last step, if the time of the query is known and has one.
    pub fn first_and_last_ms(&self) -> Option<(i64, i64)> {
        self.range_ms.filter(|(first, last)| first <= last)
    }

    /// Returns `true` if no step lies in the time of the query.
    pub fn are_none(&self) -> bool {
        self.range_ms.is_some() && self.first_and_last_ms().is_none()
    }

    /// Points are so much earlier than steps.
    pub(super) fn new(
        bucket: Option<&Bucket>,
        time: QueryTime,
        is_rate: bool,
        shift_ms: i64,
    ) -> Self {
        let window = time.window().map(|window| earlier(window, shift_ms));
        let step_ms = match bucket {
            Some(Bucket::Fixed(ms) | Bucket::Whole(ms)) => Some(*ms),
            _ => None,
        };
        let range_ms = window.map(|window| match bucket {
            Some(Bucket::Fixed(ms)) => within(window, *ms, is_rate),
            Some(Bucket::Whole(_)) => (window.start_ms, window.start_ms),
            _ => (window.start_ms, window.end_ms),
        });
        let later = |(start, end): (i64, i64)| (start + shift_ms, end + shift_ms);
        Self {
            step_ms,
            range_ms: range_ms.map(later),
            is_instant: bucket == Some(&Bucket::WholeDashboard),
        }
    }
}

/// The window in which points lie that are shown so much later.
pub(super) fn earlier(window: Window, shift_ms: i64) -> Window {
    Window {
        start_ms: window.start_ms.saturating_sub(shift_ms).max(0),
        end_ms: window.end_ms.saturating_sub(shift_ms).max(0),
    }
}

/// What OpenTSDB reads for a window.
pub(super) fn scan(window: Window, interval_ms: i64) -> Scan {
    window.scan(Some(&Interval::Fixed(interval_ms)))
}

fn within(window: Window, interval_ms: i64, is_rate: bool) -> (i64, i64) {
    let up = |ms: i64| {
        let since = ms.rem_euclid(interval_ms);
        if since == 0 {
            ms
        } else {
            ms.saturating_add(interval_ms - since)
        }
    };
    let mut start = up(window.start_ms);
    if is_rate {
        // A rate needs a whole interval before it.
        let first = up(scan(window, interval_ms).start_ms);
        start = start.max(first.saturating_add(interval_ms));
    }
    (start, window.end_ms - window.end_ms.rem_euclid(interval_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_on_the_grid_and_rates_begin_behind_it() {
        const HOUR_MS: i64 = 3_600_000;
        let minute = Bucket::Fixed(60_000);
        let range = |start_ms, end_ms, is_rate, shift_ms| {
            let time = QueryTime::Absolute(Window { start_ms, end_ms });
            Steps::new(Some(&minute), time, is_rate, shift_ms).range_ms
        };
        assert_eq!(range(90_000, 300_001, false, 0), Some((120_000, 300_000)));
        assert_eq!(range(0, 300_000, true, 0), Some((60_000, 300_000)));
        let start = HOUR_MS + 90_000;
        assert_eq!(
            range(start, start, true, 0),
            Some((start + 30_000, start - 30_000))
        );
        assert_eq!(
            range(HOUR_MS, 2 * HOUR_MS, false, 60_000),
            Some((HOUR_MS, 2 * HOUR_MS))
        );
        let none = Steps::new(
            Some(&Bucket::Fixed(6 * HOUR_MS)),
            QueryTime::Absolute(Window {
                start_ms: HOUR_MS,
                end_ms: 3 * HOUR_MS,
            }),
            false,
            0,
        );
        assert!(none.are_none() && none.first_and_last_ms().is_none());
        let unknown = Steps::new(Some(&minute), QueryTime::Unknown, false, 0);
        assert_eq!((unknown.step_ms, unknown.range_ms), (Some(60_000), None));
        assert!(!unknown.are_none());
    }
}
