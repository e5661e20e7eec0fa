//! Which time a query asks for, and which it looks at.
//!
//! ```text
//!        scan start        start                    end       scan end
//!            │ whole hours   │  answers lie in here   │ whole hours │
//! ```
//!
//! Points outside of the window take part in downsampling, rates and interpolation, because the
//! original reads whole hours.

use super::downsampler::Interval;

const HOUR_S: i64 = 3600;

/// The time that a query asks for, both ends included, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
}

/// The time that is read: from the start, up to and without the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
}

impl Window {
    pub(crate) fn contains(&self, ms: i64) -> bool {
        (self.start_ms..=self.end_ms).contains(&ms)
    }

    /// Whole intervals, then whole hours, around the window.
    pub(crate) fn scan(&self, interval: Option<&Interval>) -> Scan {
        let length_ms = interval.and_then(Interval::length_ms);
        let start = self.start_ms / 1000;
        let end = self.end_ms / 1000 + 1;
        let (start, end) = match length_ms {
            None => (start, end - end % HOUR_S + HOUR_S),
            Some(length_ms) => {
                let since = (start * 1000) % length_ms;
                let until = length_ms - (end * 1000) % length_ms;
                let end = end.saturating_add(until / 1000);
                let over = end % HOUR_S;
                let to_hour = if over == 0 { 0 } else { HOUR_S - over };
                (start - since / 1000, end.saturating_add(to_hour))
            }
        };
        Scan {
            start_ms: (start - start.rem_euclid(HOUR_S)).max(0) * 1000,
            end_ms: end.saturating_mul(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A whole hour.
    const B: i64 = 1_356_998_400;

    fn scan(start: i64, end: i64, interval: Option<Interval>) -> (i64, i64) {
        let window = Window {
            start_ms: start * 1000,
            end_ms: end * 1000,
        };
        let scan = window.scan(interval.as_ref());
        (scan.start_ms / 1000 - B, scan.end_ms / 1000 - B)
    }

    #[test]
    fn whole_hours_are_read() {
        assert_eq!(scan(B + 90, B + 300, None), (0, 3600));
        assert_eq!(scan(B, B + 3599, None), (0, 7200));
        assert_eq!(scan(B, B + 3600, None), (0, 7200));
        let minute = || Some(Interval::Fixed(60_000));
        assert_eq!(scan(B + 90, B + 300, minute()), (0, 3600));
        assert_eq!(scan(B, B + 3539, minute()), (0, 3600));
        assert_eq!(scan(B, B + 3541, minute()), (0, 3600));
        assert_eq!(scan(B, B + 3600, minute()), (0, 7200));
        let day = || Some(Interval::Fixed(86_400_000));
        assert_eq!(scan(B + 7200, B + 10_000, day()), (0, 86_400));
        assert_eq!(scan(B, B + 3600, Some(Interval::All)), (0, 7200));
    }

    #[test]
    fn no_time_overflows() {
        let all = Window {
            start_ms: 0,
            end_ms: crate::time::TIME_MS_MAX,
        };
        for length_ms in [1, 7, i64::MAX] {
            let scan = all.scan(Some(&Interval::Fixed(length_ms)));
            assert!(scan.end_ms > all.end_ms);
        }
    }
}
