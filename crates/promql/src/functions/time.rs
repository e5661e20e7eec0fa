//! The calendar: what a float means as seconds since 1970, in UTC.
//!
//! ```text
//! seconds ─► days since the 1st of March of a year far back ─► year, month, day
//! ```
//!
//! Holds always: every `i64` has a date, and it is the one that Go's `time` gives it (Gregorian
//! before 1582, too).

use super::math::each_float;
use super::{CallContext, MapFunction};
use crate::exec::{ABSENT, Row};

pub(super) fn function(name: &str) -> Option<MapFunction> {
    let function: MapFunction = match name {
        "day_of_month" => |_, row| each_date(row, |date| date.day),
        "day_of_week" => |_, row| each_float(row, |v| Moment::of_float(v).weekday() as f64),
        "day_of_year" => |_, row| each_date(row, Date::day_of_year),
        "days_in_month" => |_, row| each_date(row, Date::days_in_month),
        "hour" => |_, row| each_float(row, |v| (Moment::of_float(v).second / 3600) as f64),
        "minute" => |_, row| each_float(row, |v| (Moment::of_float(v).second / 60 % 60) as f64),
        "month" => |_, row| each_date(row, |date| date.month),
        "start_timestamp" => |_, row| start_timestamp(row),
        "timestamp" => timestamp,
        "year" => |_, row| each_float(row, |v| Moment::of_float(v).date().year as f64),
        _ => return None,
    };
    Some(function)
}

/// The time of each step that has a value. Selectors have times of their own: the planner asks them.
fn timestamp(ctx: &CallContext<'_>, mut row: Row) -> Row {
    let times: Vec<f64> = (0..row.values.floats.len())
        .map(|step| match row.values.is_present(step) {
            true => ctx.grid.time(step) as f64 / 1000.0,
            false => ABSENT,
        })
        .collect();
    row.drop_name = true;
    row.values.floats = times;
    row.values.histograms = Vec::new();
    row
}

/// Only samples have a start time, computed values have none.
fn start_timestamp(mut row: Row) -> Row {
    row.drop_name = true;
    row.values.floats.fill(ABSENT);
    row.values.histograms = Vec::new();
    row
}

fn each_date(row: Row, field: impl Fn(Date) -> u64) -> Row {
    each_float(row, |value| field(Moment::of_float(value).date()) as f64)
}

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Days of 400 years, after which the calendar repeats.
const CYCLE_DAYS: u64 = 146_097;

/// Where days are counted from: the 1st of March of the year −292 277 022 400. It is a multiple of 400,
/// and as in Go's `time`, times before it wrap around to the far future.
const ZERO_YEAR: i64 = -292_277_022_400;

/// Seconds from there to 1970: whole cycles up to the 1st of March of the year 0, and 719 468 days.
const UNIX_OFFSET: u64 = (ZERO_YEAR.unsigned_abs() / 400 * CYCLE_DAYS + 719_468) * DAY_SECONDS;

/// A second of a day, days counted from [`ZERO_YEAR`].
#[derive(Clone, Copy, Debug)]
struct Moment {
    day: u64,
    second: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: i64,
    /// 1 to 12.
    month: u64,
    /// 1 to 31.
    day: u64,
}

impl Moment {
    /// Fractions are cut off towards zero. What is no 64-bit number becomes the least one, as Go's
    /// conversion does on amd64.
    fn of_float(seconds: f64) -> Self {
        let limit = i64::MAX as f64;
        match seconds > -limit && seconds < limit {
            true => Self::of_seconds(seconds as i64),
            false => Self::of_seconds(i64::MIN),
        }
    }

    fn of_seconds(unix_seconds: i64) -> Self {
        let seconds = unix_seconds.cast_unsigned().wrapping_add(UNIX_OFFSET);
        Self {
            day: seconds / DAY_SECONDS,
            second: seconds % DAY_SECONDS,
        }
    }

    /// 0 is Sunday. The 1st of March of a year that 400 divides is a Wednesday.
    fn weekday(self) -> u64 {
        (self.day + 3) % 7
    }

    /// Years begin in March here, so that the leap day is the last one of a year.
    fn date(self) -> Date {
        let (cycle, day) = (self.day / CYCLE_DAYS, self.day % CYCLE_DAYS);
        // A year has 365 days, and one more every 4 years, but not every 100, but every 400.
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        // From March on, five months have 153 days, again and again.
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let next_year = month >= 10;
        Date {
            year: ZERO_YEAR + (cycle * 400 + year).cast_signed() + i64::from(next_year),
            month: if next_year { month - 9 } else { month + 3 },
            day,
        }
    }
}

impl Date {
    fn is_leap_year(self) -> bool {
        let divisible = |by| self.year % by == 0;
        divisible(4) && (!divisible(100) || divisible(400))
    }

    fn days_in_month(self) -> u64 {
        match self.month {
            2 => 28 + u64::from(self.is_leap_year()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn day_of_year(self) -> u64 {
        const DAYS_BEFORE: [u64; 13] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap_day = self.month > 2 && self.is_leap_year();
        DAYS_BEFORE[self.month as usize] + u64::from(leap_day) + self.day
    }
}

/// Seconds since 1970 as `2006-01-02T15:04:05Z`.
pub(crate) fn rfc3339(unix_seconds: i64) -> String {
    let moment = Moment::of_seconds(unix_seconds);
    let Date { year, month, day } = moment.date();
    let (hour, minute) = (moment.second / 3600, moment.second / 60 % 60);
    let second = moment.second % 60;
    // Go counts the sign apart from the four digits.
    let sign = if year < 0 { "-" } else { "" };
    let year = year.unsigned_abs();
    format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Setup, check_floats};
    use super::*;

    fn at(name: &str, seconds: f64) -> f64 {
        let row = Setup::new(1)
            .series()
            .map(name, Setup::row("m", &[seconds]));
        assert!(row.drop_name);
        row.values.floats[0]
    }

    #[test]
    fn values_of_the_scripts() {
        for (name, seconds, expected) in [
            ("year", 0.0, 1970.0),
            ("year", 1136239445.0, 2006.0),
            ("month", 1136239445.0, 1.0),
            ("day_of_month", 1136239445.0, 2.0),
            ("day_of_year", 0.0, 1.0),
            ("day_of_year", 1136239445.0, 2.0),
            ("day_of_week", 0.0, 4.0),
            ("day_of_week", 1136239445.0, 1.0),
            ("hour", 1136239445.0, 22.0),
            ("minute", 1136239445.0, 4.0),
            ("year", 1230767999.0, 2008.0),
            ("year", 1230768000.0, 2009.0),
            ("month", 1456790399.0, 2.0),
            ("day_of_month", 1456790399.0, 29.0),
            ("month", 1456790400.0, 3.0),
            ("day_of_year", 1483191420.0, 366.0),
            ("day_of_year", 1672493820.0, 365.0),
            ("days_in_month", 1454284800.0, 29.0),
            ("days_in_month", 1485907200.0, 28.0),
            // Fractions are cut off, not rounded down.
            ("minute", -0.5, 0.0),
            ("minute", -1.0, 59.0),
            ("year", -1.0, 1969.0),
        ] {
            assert_eq!(at(name, seconds), expected, "{name} {seconds}");
        }
    }

    #[test]
    fn every_float_has_a_date() {
        for seconds in [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, 9.3e18, -9.3e18] {
            // The least i64 lies before the first year that can be counted, and wraps around.
            assert_eq!(at("year", seconds), 292_277_026_596.0, "{seconds}");
        }
        for (name, from, to) in [
            ("month", 1.0, 12.0),
            ("day_of_month", 1.0, 31.0),
            ("day_of_year", 1.0, 366.0),
            ("days_in_month", 28.0, 31.0),
            ("day_of_week", 0.0, 6.0),
            ("hour", 0.0, 23.0),
            ("minute", 0.0, 59.0),
        ] {
            for seconds in [f64::NAN, 9.2e18, -9.2e18, 0.0] {
                assert!((from..=to).contains(&at(name, seconds)), "{name}");
            }
        }
    }

    #[test]
    fn timestamps_are_those_of_the_steps() {
        let mut row = Setup::row("m", &[7.0, ABSENT, ABSENT]);
        row.values.set_histogram(2, Default::default());
        let row = Setup::new(3).series().map("timestamp", row);
        check_floats(&row.values.floats, &[0.0, ABSENT, 120.0]);
        assert!(row.drop_name && !row.values.has_histograms());
        let row = Setup::new(2)
            .series()
            .map("start_timestamp", Setup::row("m", &[1.0, 2.0]));
        assert!(row.values.is_empty());
    }

    /// A calendar that counts on its fingers.
    fn next_day(date: Date) -> Date {
        let Date { year, month, day } = date;
        if day < date.days_in_month() {
            Date {
                year,
                month,
                day: day + 1,
            }
        } else if month < 12 {
            Date {
                year,
                month: month + 1,
                day: 1,
            }
        } else {
            Date {
                year: year + 1,
                month: 1,
                day: 1,
            }
        }
    }

    #[test]
    fn days_follow_each_other_for_a_thousand_years() {
        let mut date = Date {
            year: 1970,
            month: 1,
            day: 1,
        };
        let (mut weekday, mut day_of_year) = (4, 1);
        for day in 0..365_250i64 {
            let moment = Moment::of_seconds(day * 86_400);
            assert_eq!(moment.date(), date);
            assert_eq!(moment.weekday(), weekday, "{date:?}");
            assert_eq!(date.day_of_year(), day_of_year, "{date:?}");
            let next = next_day(date);
            weekday = (weekday + 1) % 7;
            day_of_year = if next.year > date.year {
                1
            } else {
                day_of_year + 1
            };
            date = next;
        }
        assert_eq!(date.year, 2970);
    }

    proptest! {
        #[test]
        fn days_follow_each_other_anywhere(day in -106_751_991_000_000i64..106_751_991_000_000) {
            let moment = Moment::of_seconds(day * 86_400);
            let next = Moment::of_seconds((day + 1) * 86_400);
            prop_assert_eq!(next.date(), next_day(moment.date()));
            prop_assert_eq!(next.weekday(), (moment.weekday() + 1) % 7);
        }

        #[test]
        fn a_cycle_later_is_the_same_day(seconds in -1i64 << 40..1i64 << 40, cycles in -1000i64..1000) {
            let moment = Moment::of_seconds(seconds);
            let later = Moment::of_seconds(seconds + cycles * 146_097 * 86_400);
            let (date, other) = (moment.date(), later.date());
            prop_assert_eq!((date.month, date.day), (other.month, other.day));
            prop_assert_eq!(date.year + 400 * cycles, other.year);
            prop_assert_eq!(moment.second, later.second);
            prop_assert_eq!(moment.second as i64, seconds.rem_euclid(86_400));
        }
    }
}
