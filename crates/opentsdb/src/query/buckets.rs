//! Which points of a series become which downsampled value.
//!
//! ```text
//! times    1  4  9 | 11 | 25 29      (interval 10)
//! starts   0         10   20
//! bounds   0         3    4       6  indices of times
//! ```

use icecore_model::TimeColumn;

use super::downsampler::Interval;
use super::window::{Scan, Window};

/// The buckets of one column of times that hold at least one point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Buckets {
    /// When they begin: the times of the downsampled points.
    pub(crate) starts: TimeColumn,
    /// Bucket `i` holds the points from `bounds[i]` up to and without `bounds[i + 1]`.
    pub(crate) bounds: Vec<u32>,
}

/// Sorts times into buckets. Points of an interval that the scan cuts at its start are left out.
pub(crate) fn buckets(times: &[i64], interval: &Interval, window: Window, scan: Scan) -> Buckets {
    let first_from = |start_ms: i64| times.partition_point(|time| *time < start_ms);
    match interval {
        Interval::All => {
            let bounds = [first_from(window.start_ms), first_from(window.end_ms)];
            if bounds[0] >= bounds[1] {
                return Buckets::none();
            }
            Buckets {
                starts: vec![window.start_ms].into(),
                bounds: bounds.map(|bound| bound as u32).to_vec(),
            }
        }
        Interval::Fixed(length) => {
            let start_ms = floor(scan.start_ms.saturating_add(length - 1), *length);
            walk(times, first_from(start_ms), |time| {
                let start = floor(time, *length);
                (start, start.saturating_add(*length))
            })
        }
        Interval::Calendar(calendar, _) => {
            let mut start_ms = calendar.floor(scan.start_ms);
            if start_ms < scan.start_ms {
                start_ms = calendar.next(start_ms);
            }
            let first = first_from(start_ms);
            // Buckets follow each other from that of the first point on, whatever would be aligned
            // after a change of the clocks.
            let mut start = times.get(first).map_or(0, |time| calendar.floor(*time));
            let mut end = calendar.next(start);
            walk(times, first, |time| {
                while end <= time {
                    (start, end) = (end, calendar.next(end));
                }
                (start, end)
            })
        }
    }
}

impl Buckets {
    fn none() -> Self {
        Self {
            starts: TimeColumn::default(),
            bounds: vec![0],
        }
    }
}

/// Start and end of the bucket of each point that begins one.
fn walk(times: &[i64], first: usize, mut bucket_of: impl FnMut(i64) -> (i64, i64)) -> Buckets {
    let mut starts = Vec::new();
    let mut bounds = Vec::new();
    let mut end = i64::MIN;
    for (i, time) in times.iter().enumerate().skip(first) {
        if *time >= end {
            let start;
            (start, end) = bucket_of(*time);
            starts.push(start);
            bounds.push(i as u32);
        }
    }
    bounds.push(times.len() as u32);
    Buckets {
        starts: starts.into(),
        bounds,
    }
}

/// A time rounded down to a multiple of a length.
pub(crate) fn floor(ms: i64, length: i64) -> i64 {
    ms - ms.rem_euclid(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        start_ms: 4,
        end_ms: 29,
    };

    fn found(times: &[i64], interval: &Interval, scan_start: i64) -> Vec<(i64, Vec<i64>)> {
        let scan = Scan {
            start_ms: scan_start,
            end_ms: 1000,
        };
        let buckets = buckets(times, interval, WINDOW, scan);
        let points = buckets.bounds.windows(2);
        let points = points.map(|b| times[b[0] as usize..b[1] as usize].to_vec());
        buckets.starts.iter().copied().zip(points).collect()
    }

    #[test]
    fn intervals_are_aligned_to_the_epoch() {
        let times = [1, 4, 9, 11, 25, 29];
        let ten = Interval::Fixed(10);
        let all = [(0, vec![1, 4, 9]), (10, vec![11]), (20, vec![25, 29])];
        assert_eq!(found(&times, &ten, 0), all);
        // The interval that the scan cuts is left out.
        assert_eq!(found(&times, &ten, 1), all[1..]);
        assert_eq!(found(&times, &ten, 10), all[1..]);
        assert_eq!(found(&[], &ten, 0), []);
        // Intervals of a week begin on Thursdays, those of 36 minutes where they do.
        assert_eq!(floor(1_388_550_980, 36 * 60), 1_388_549_520);
    }

    #[test]
    fn all_of_the_window_is_one_bucket_without_its_end() {
        let times = [1, 4, 9, 11, 25, 29];
        let all = Interval::All;
        assert_eq!(found(&times, &all, 0), [(4, vec![4, 9, 11, 25])]);
        assert_eq!(found(&[29], &all, 0), []);
    }
}
