//! Which window answers a question, and how a range is made of windows.
//!
//! Holds always: an answer is the same whichever window it is read from, for as long as the window
//! is kept.

use icecore_model::event::EventWindow;

use super::Interval;
use crate::{Metric, Problem};

/// A window, and whether some of the range may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowChoice {
    pub(crate) window: EventWindow,
    pub(crate) is_partial: bool,
}

impl WindowChoice {
    /// The coarsest window that intervals are made of and that reaches back to the start of the
    /// range; if there is none, the one that reaches back the furthest.
    pub(crate) fn of(
        metric: &Metric,
        interval: Interval,
        start_s: i64,
        guarded_ms: i64,
    ) -> Result<Self, Problem> {
        let mut fitting: Vec<EventWindow> = metric.windows().collect();
        fitting.retain(|window| interval.is_multiple_of(*window));
        let reaches = |window: &&EventWindow| start_s >= kept_since_s(metric, **window, guarded_ms);
        if let Some(window) = fitting.iter().rev().find(reaches) {
            return Ok(Self {
                window: *window,
                is_partial: false,
            });
        }
        let longest = fitting.into_iter().max_by_key(|w| metric.retention.of(*w));
        let window = longest.ok_or_else(|| {
            let base = metric.base.code();
            let detail = format!("{} is kept in windows of {base} and longer", metric.name);
            Problem::new(400, "query.interval-too-fine", detail)
                .with_hint(format!("use an interval that is a multiple of {base}"))
        })?;
        Ok(Self {
            window,
            is_partial: true,
        })
    }
}

/// From where on a window has all of its cells: late events make no older ones.
pub(crate) fn kept_since_s(metric: &Metric, window: EventWindow, guarded_ms: i64) -> i64 {
    let retention = metric.retention.of(window).as_secs();
    let retention = i64::try_from(retention).unwrap_or(i64::MAX);
    let since_s = guarded_ms.div_euclid(1000).saturating_sub(retention);
    // An interval is kept until its end is too old.
    window.start_of(since_s.max(0))
}

/// A part of a range, made of whole windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) window: EventWindow,
    pub(crate) start_s: i64,
    pub(crate) end_s: i64,
}

/// A range as few windows: coarse ones within, finer ones at its ends. `windows` are from the
/// finest to the coarsest; the range lies on the grid of the finest.
pub(crate) fn cover(windows: &[EventWindow], start_s: i64, end_s: i64) -> Vec<Segment> {
    let Some((coarsest, finer)) = windows.split_last() else {
        return Vec::new();
    };
    if start_s >= end_s {
        return Vec::new();
    }
    let segment = |start_s, end_s| Segment {
        window: *coarsest,
        start_s,
        end_s,
    };
    if finer.is_empty() {
        return vec![segment(start_s, end_s)];
    }
    let floor = coarsest.start_of(start_s);
    let from = if floor == start_s {
        start_s
    } else {
        floor + coarsest.seconds()
    };
    let until = coarsest.start_of(end_s);
    if from >= until {
        return cover(finer, start_s, end_s);
    }
    let mut segments = cover(finer, start_s, from);
    segments.push(segment(from, until));
    segments.extend(cover(finer, until, end_s));
    segments
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{NOW_MS, counter};
    use super::*;

    #[test]
    fn the_coarsest_window_that_fits_is_read() {
        let metric = counter(1, "orders", &["channel"]);
        let now_s = NOW_MS / 1000;
        let choose = |interval: &str, start_s| {
            let interval = Interval::parse(interval).unwrap();
            let choice = WindowChoice::of(&metric, interval, start_s, NOW_MS).unwrap();
            (choice.window.code(), choice.is_partial)
        };
        let hour_ago = now_s - 3_600;
        for (interval, window) in [
            ("5s", "5s"),
            ("90s", "5s"),
            ("1m", "1m"),
            ("15m", "1m"),
            ("1h", "1h"),
            ("36h", "1h"),
            ("1d", "1d"),
            ("8d", "1d"),
            ("7d", "7d"),
            ("14d", "7d"),
        ] {
            assert_eq!(choose(interval, hour_ago), (window, false), "{interval}");
        }
        // 90 s are no minutes: what is older than the 5 s cells is gone.
        let eight_days = now_s - 8 * 86_400;
        assert_eq!(choose("90s", eight_days), ("5s", true));
        assert_eq!(choose("1m", eight_days), ("1m", false));
        assert_eq!(choose("1m", now_s - 31 * 86_400), ("1m", true));
    }

    #[test]
    fn shorter_retention_of_a_coarse_window_is_no_reason_for_gaps() {
        let mut metric = (*counter(1, "orders", &[])).clone();
        let day = std::time::Duration::from_secs(86_400);
        metric.retention.set(EventWindow::Hour, day);
        let start_s = NOW_MS / 1000 - 2 * 86_400;
        let interval = Interval::parse("1h").unwrap();
        let choice = WindowChoice::of(&metric, interval, start_s, NOW_MS).unwrap();
        assert_eq!((choice.window.code(), choice.is_partial), ("1m", false));
        metric.base = EventWindow::Minute;
        let interval = Interval::parse("90s").unwrap();
        let problem = WindowChoice::of(&metric, interval, start_s, NOW_MS).unwrap_err();
        assert_eq!(problem.code, "query.interval-too-fine");
    }

    proptest! {
        #[test]
        fn a_cover_is_the_range(
            start in 0i64..500_000,
            length in 0i64..500_000,
            finest in 0usize..5,
        ) {
            let windows = &EventWindow::ALL[finest..];
            let step = |at_s| windows[0].start_of(1_790_000_000 + at_s * 5);
            let (start_s, end_s) = (step(start), step(start + length));
            let mut at_s = start_s;
            for segment in cover(windows, start_s, end_s) {
                prop_assert_eq!(segment.start_s, at_s);
                prop_assert!(segment.start_s < segment.end_s);
                prop_assert_eq!(segment.window.start_of(segment.start_s), segment.start_s);
                prop_assert_eq!(segment.window.start_of(segment.end_s), segment.end_s);
                at_s = segment.end_s;
            }
            prop_assert_eq!(at_s, end_s.max(start_s));
        }
    }
}
