//! The date of every second that an `i64` can name, in UTC.
//!
//! chrono has dates up to some 262 000 years from now; a query may ask for any second. The calendar
//! repeats after 400 years, so chrono is asked for the same second of one cycle.
//!
//! Holds always: the date is the one that Go's `time` gives, which is Gregorian before 1582, too.

use chrono::{DateTime, Datelike, Timelike, Utc};

const CYCLE_YEARS: i64 = 400;
const CYCLE_SECONDS: u64 = 146_097 * 86_400;

/// The 1st of March of the year 0 in seconds since 1970. The cycle that starts here is what chrono is
/// asked for.
const CYCLE_START: i64 = -719_468 * 86_400;

/// Cycles from the first second of Go's `time`, in the year −292 277 022 400, to [`CYCLE_START`].
/// Earlier seconds wrap around to the far future there.
const CYCLES_BEFORE: u64 = 730_692_556;

/// A second of the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UtcTime {
    /// The second with the same month, day, weekday and time of day in the cycle of [`CYCLE_START`].
    pub(crate) in_cycle: DateTime<Utc>,
    /// Cycles from there.
    cycles: i64,
}

impl UtcTime {
    pub(crate) fn of_unix_seconds(seconds: i64) -> Self {
        let seconds = (seconds.cast_unsigned())
            .wrapping_add(CYCLES_BEFORE * CYCLE_SECONDS - CYCLE_START.cast_unsigned());
        let in_cycle = (seconds % CYCLE_SECONDS).cast_signed() + CYCLE_START;
        Self {
            in_cycle: DateTime::from_timestamp_secs(in_cycle)
                .expect("chrono has the years from 0 to 400"),
            cycles: (seconds / CYCLE_SECONDS).cast_signed() - CYCLES_BEFORE.cast_signed(),
        }
    }

    pub(crate) fn year(self) -> i64 {
        i64::from(self.in_cycle.year()) + CYCLE_YEARS * self.cycles
    }
}

/// Seconds since 1970 as `2006-01-02T15:04:05Z`.
pub(crate) fn rfc3339(unix_seconds: i64) -> String {
    let time = UtcTime::of_unix_seconds(unix_seconds);
    let (year, date) = (time.year(), time.in_cycle);
    // Go counts the sign apart from the four digits.
    let (sign, year) = (if year < 0 { "-" } else { "" }, year.unsigned_abs());
    let (month, day) = (date.month(), date.day());
    let (hour, minute, second) = (date.hour(), date.minute(), date.second());
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
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-62_167_219_201, "-0001-12-31T23:59:59Z"),
            (i64::MAX, "292277026596-12-04T15:30:07Z"),
            (i64::MIN, "292277026596-12-04T15:30:08Z"),
            (-9_223_372_028_741_760_000, "-292277022400-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), expected, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn dates_are_those_of_chrono_where_it_has_them(seconds in -1i64 << 42..1i64 << 42) {
            let expected = DateTime::from_timestamp_secs(seconds).unwrap();
            let time = UtcTime::of_unix_seconds(seconds);
            prop_assert_eq!(time.year(), i64::from(expected.year()));
            prop_assert_eq!(time.in_cycle.ordinal(), expected.ordinal());
            prop_assert_eq!(time.in_cycle.weekday(), expected.weekday());
            prop_assert_eq!(time.in_cycle.time(), expected.time());
        }

        #[test]
        fn a_cycle_later_is_the_same_day(seconds in -1i64 << 40..1i64 << 40, cycles in -1000i64..1000) {
            let time = UtcTime::of_unix_seconds(seconds);
            let later = UtcTime::of_unix_seconds(seconds + cycles * CYCLE_SECONDS.cast_signed());
            prop_assert_eq!(time.in_cycle, later.in_cycle);
            prop_assert_eq!(time.year() + CYCLE_YEARS * cycles, later.year());
        }
    }
}
