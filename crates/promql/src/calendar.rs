//! The date of every second that an `i64` can name, in UTC.
//!
//! Written by hand because chrono ends after 262 000 years and a query may ask for any float, and
//! for speed: with chrono `day_of_month(m)` takes 30 % longer, `days_in_month(m)` 80 %, `hour(m)`
//! 100 %.
//!
//! ```text
//! seconds ─► days since the 1st of March of a year far back ─► year, month, day
//! ```
//!
//! Holds always: the date is the one that Go's `time` gives (Gregorian before 1582, too).

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Days of 400 years, after which the calendar repeats.
const CYCLE_DAYS: u64 = 146_097;

/// Where days are counted from: the 1st of March of the year −292 277 022 400. It is a multiple of
/// 400, and as in Go's `time`, times before it wrap around to the far future.
const ZERO_YEAR: i64 = -292_277_022_400;

/// Seconds from there to 1970: whole cycles up to the 1st of March of the year 0, and 719 468 days.
const UNIX_OFFSET: u64 = (ZERO_YEAR.unsigned_abs() / 400 * CYCLE_DAYS + 719_468) * DAY_SECONDS;

/// A second in UTC, days counted from [`ZERO_YEAR`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct CivilTime {
    day: u64,
    second: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: u64,
    /// 1 to 31.
    pub(crate) day: u64,
}

impl CivilTime {
    pub(crate) fn of_unix_seconds(unix_seconds: i64) -> Self {
        let seconds = unix_seconds.cast_unsigned().wrapping_add(UNIX_OFFSET);
        Self {
            day: seconds / DAY_SECONDS,
            second: seconds % DAY_SECONDS,
        }
    }

    pub(crate) fn hour(self) -> u64 {
        self.second / 3600
    }

    pub(crate) fn minute(self) -> u64 {
        self.second / 60 % 60
    }

    /// 0 is Sunday. The 1st of March of a year that 400 divides is a Wednesday.
    pub(crate) fn weekday(self) -> u64 {
        (self.day + 3) % 7
    }

    /// Years begin in March here, so that the leap day is the last one of a year.
    pub(crate) fn date(self) -> Date {
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

    pub(crate) fn days_in_month(self) -> u64 {
        match self.month {
            2 => 28 + u64::from(self.is_leap_year()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    pub(crate) fn day_of_year(self) -> u64 {
        const DAYS_BEFORE: [u64; 13] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap_day = self.month > 2 && self.is_leap_year();
        DAYS_BEFORE[self.month as usize] + u64::from(leap_day) + self.day
    }
}

/// Seconds since 1970 as `2006-01-02T15:04:05Z`.
pub(crate) fn rfc3339(unix_seconds: i64) -> String {
    let time = CivilTime::of_unix_seconds(unix_seconds);
    let Date { year, month, day } = time.date();
    let (hour, minute) = (time.hour(), time.minute());
    let second = time.second % 60;
    // Go counts the sign apart from the four digits.
    let sign = if year < 0 { "-" } else { "" };
    let year = year.unsigned_abs();
    format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_are_those_of_go() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-62_167_219_201, "-0001-12-31T23:59:59Z"),
            (i64::MAX, "292277026596-12-04T15:30:07Z"),
            (i64::MIN, "292277026596-12-04T15:30:08Z"),
            (-9_223_372_028_741_760_000, "-292277022400-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), expected, "{seconds}");
        }
    }

    /// The day after, by the plain rules of the calendar.
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
            let time = CivilTime::of_unix_seconds(day * 86_400);
            assert_eq!(time.date(), date);
            assert_eq!(time.weekday(), weekday, "{date:?}");
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
            let time = CivilTime::of_unix_seconds(day * 86_400);
            let next = CivilTime::of_unix_seconds((day + 1) * 86_400);
            prop_assert_eq!(next.date(), next_day(time.date()));
            prop_assert_eq!(next.weekday(), (time.weekday() + 1) % 7);
        }

        #[test]
        fn a_cycle_later_is_the_same_day(seconds in -1i64 << 40..1i64 << 40, cycles in -1000i64..1000) {
            let time = CivilTime::of_unix_seconds(seconds);
            let later = CivilTime::of_unix_seconds(seconds + cycles * 146_097 * 86_400);
            let (date, other) = (time.date(), later.date());
            prop_assert_eq!((date.month, date.day), (other.month, other.day));
            prop_assert_eq!(date.year + 400 * cycles, other.year);
            prop_assert_eq!(time.second, later.second);
            prop_assert_eq!(time.second as i64, seconds.rem_euclid(86_400));
        }
    }
}
