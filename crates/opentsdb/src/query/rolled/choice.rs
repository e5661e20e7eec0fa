//! Which levels answer a sub query.
//!
//! | `rollupUsage` | levels |
//! | --- | --- |
//! | none, not known, `ROLLUP_FALLBACK` | the coarsest that divides the interval, else a finer one, else points; else the finest that is left |
//! | `ROLLUP_NOFALLBACK`, `ROLLUP_FALLBACK_RAW` | the same, without the last one if some level divides the interval |
//! | `ROLLUP_RAW` | points |
//!
//! A finer level that divides the interval gives the numbers that the coarsest would, so nobody can
//! tell it from that, and it is never left out.

use icecore_model::RolledTime;
use icecore_model::rollup::{OffGrid, Resolution, RollupChoice, WindowFields};

use crate::query::downsampler::{Downsampler, Interval};
use crate::query::request::RollupUsage;
use crate::query::window::{Scan, Window};

/// The greatest length of which the borders of all intervals of a query are multiples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment(i64);

/// Borders of the calendar that are looked at; a query with more has none in common.
const BORDERS_MAX: usize = 100_000;

const DAY_MS: i64 = 86_400_000;

impl Alignment {
    pub(crate) fn of(interval: &Interval, window: Window, scan: Scan) -> Self {
        match interval {
            Interval::Fixed(length) => Self(*length),
            Interval::All => Self(gcd(window.start_ms, window.end_ms).max(1)),
            Interval::Calendar(calendar, _) => {
                let elapsed_ms = calendar.elapsed_ms();
                let mut all = elapsed_ms.unwrap_or(0);
                let (mut at, mut border) = (scan.start_ms, calendar.floor(scan.start_ms));
                for _ in 0..BORDERS_MAX {
                    all = gcd(all, border);
                    if at >= scan.end_ms {
                        return Self(all.max(1));
                    }
                    if elapsed_ms.is_some() {
                        // Short intervals begin anew each day, and where clocks are changed.
                        at = at.saturating_add(DAY_MS).min(scan.end_ms);
                        border = calendar.floor(at);
                    } else {
                        border = calendar.next(border);
                        at = border;
                    }
                }
                Self(1)
            }
        }
    }

    /// Whether windows of a level never cross a border.
    pub(crate) fn fits(self, resolution: Resolution) -> bool {
        resolution.is_raw() || self.0 % resolution.ms() == 0
    }
}

/// What to ask of rolled-up time.
pub(crate) fn rolled_time(
    downsampler: Option<&Downsampler>,
    usage: Option<RollupUsage>,
    window: Window,
    scan: Scan,
) -> RolledTime {
    let is_raw = usage == Some(RollupUsage::Raw);
    let max_ms = is_raw.then_some(0);
    let Some(downsampler) = downsampler else {
        if !is_raw {
            return RolledTime::Samples;
        }
        let choice = RollupChoice {
            max_ms,
            ..RollupChoice::default()
        };
        return RolledTime::Windows(choice, WindowFields::NONE);
    };
    let Alignment(step_ms) = Alignment::of(&downsampler.interval, window, scan);
    let choice = RollupChoice {
        start_ms: scan.start_ms - scan.start_ms.rem_euclid(step_ms),
        step_ms,
        range_ms: step_ms,
        is_exact: downsampler.function.is_exact_over_windows(),
        max_ms,
        off_grid: match usage {
            None | Some(RollupUsage::Fallback | RollupUsage::Unknown) => OffGrid::Fallback,
            Some(_) => OffGrid::LastResort,
        },
    };
    RolledTime::Windows(choice, downsampler.function.window_fields())
}

/// The greatest common divisor; 0 has every divisor.
fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.saturating_abs(), b.saturating_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::time::find_zone;

    const HOUR: i64 = 3_600_000;

    fn alignment(text: &str, zone: &TimeZone, (start, end): (i64, i64)) -> Alignment {
        let downsampler = Downsampler::parse(text, false, zone).unwrap();
        let window = Window {
            start_ms: start * HOUR,
            end_ms: end * HOUR,
        };
        let scan = window.scan(Some(&downsampler.interval));
        Alignment::of(&downsampler.interval, window, scan)
    }

    #[test]
    fn intervals_and_levels() {
        let utc = TimeZone::UTC;
        let fits = |text: &str, zone: &TimeZone, level: &str| {
            let level = Resolution::from_name(level).unwrap();
            // 2023-03-20 to 2023-04-10: clocks are changed in Europe.
            alignment(text, zone, (466_344, 466_848)).fits(level)
        };
        assert!(fits("1h-sum", &utc, "1h") && fits("1h-sum", &utc, "5m"));
        assert!(fits("2h-sum", &utc, "1h") && !fits("90m-sum", &utc, "1h"));
        assert!(fits("90m-sum", &utc, "30m") && !fits("7m-sum", &utc, "5m"));
        assert!(fits("1h-sum", &utc, "raw") && fits("7m-sum", &utc, "raw"));
        assert!(fits("0all-sum", &utc, "8h") && fits("0all-sum", &utc, "1h"));
        let zone = |name: &str| find_zone(name).unwrap();
        let berlin = zone("Europe/Berlin");
        assert!(fits("1dc-sum", &berlin, "1h") && !fits("1dc-sum", &berlin, "2h"));
        assert!(fits("1nc-sum", &berlin, "1h") && fits("6hc-sum", &berlin, "1h"));
        assert!(fits("1dc-sum", &utc, "8h") && !fits("1dc-sum", &utc, "16h"));
        let kolkata = zone("Asia/Kolkata");
        assert!(!fits("1dc-sum", &kolkata, "1h") && fits("1dc-sum", &kolkata, "30m"));
        assert!(fits("15mc-sum", &kolkata, "15m") && !fits("15mc-sum", &kolkata, "30m"));
    }

    #[test]
    fn the_whole_window_has_the_grid_of_its_ends() {
        let utc = TimeZone::UTC;
        let hour = Resolution::HOUR;
        assert!(alignment("0all-sum", &utc, (0, 3)).fits(hour));
        let window = |end_ms| Window {
            start_ms: 5 * HOUR,
            end_ms,
        };
        let fits = |end_ms| {
            let window = window(end_ms);
            Alignment::of(&Interval::All, window, window.scan(None)).fits(hour)
        };
        assert!(fits(7 * HOUR) && !fits(7 * HOUR + 1) && !fits(7 * HOUR - 1));
    }

    #[test]
    fn usage_decides_what_else_is_read() {
        let downsampler = Downsampler::parse("15m-avg", false, &TimeZone::UTC).unwrap();
        let window = Window {
            start_ms: 0,
            end_ms: HOUR,
        };
        let scan = window.scan(Some(&downsampler.interval));
        let choice = |usage| match rolled_time(Some(&downsampler), usage, window, scan) {
            RolledTime::Windows(choice, fields) => {
                assert_eq!(fields, WindowFields::COUNTS | WindowFields::SUM);
                choice
            }
            RolledTime::Samples => panic!("windows are wanted"),
        };
        let (five, hour) = (Resolution::FIVE_MINUTES, Resolution::HOUR);
        for (usage, of_hours) in [
            (None, true),
            (Some(RollupUsage::Fallback), true),
            (Some(RollupUsage::parse("rollup_whatever")), true),
            (Some(RollupUsage::NoFallback), false),
            (Some(RollupUsage::FallbackRaw), false),
        ] {
            let choice = choice(usage);
            let among = choice.among([five, hour]);
            assert!(choice.prefers(five) && !choice.prefers(hour) && among.permits(five));
            assert_eq!(among.permits(hour), of_hours, "{usage:?}");
            // Where nothing divides the interval, everything is better than nothing.
            assert!(choice.among([hour]).permits(hour));
        }
        let raw = choice(Some(RollupUsage::Raw));
        assert!(!raw.prefers(five) && !raw.among([five, hour]).permits(five));
        let points = rolled_time(None, None, window, scan);
        assert_eq!(points, RolledTime::Samples);
        let raw = rolled_time(None, Some(RollupUsage::Raw), window, scan);
        assert!(matches!(raw, RolledTime::Windows(..)));
    }
}
