//! The axis of times: ticks at round times of day, at days, months and years of a time zone.

use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

/// Most characters of a format, and of what is written with it.
const FORMAT_CHARS_MAX: usize = 64;
const LABEL_CHARS_MAX: usize = 256;

/// Most ticks of an axis.
const TICKS_MAX: usize = 512;

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// A month, where it need not be exact.
const MONTH_MS: i64 = 30 * DAY_MS;

/// From one tick to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A part of a day.
    Ms(i64),
    Days(i64),
    Months(i64),
}

const STEPS: &[Step] = &[
    Step::Ms(1),
    Step::Ms(2),
    Step::Ms(5),
    Step::Ms(10),
    Step::Ms(20),
    Step::Ms(50),
    Step::Ms(100),
    Step::Ms(200),
    Step::Ms(500),
    Step::Ms(SECOND_MS),
    Step::Ms(2 * SECOND_MS),
    Step::Ms(5 * SECOND_MS),
    Step::Ms(10 * SECOND_MS),
    Step::Ms(15 * SECOND_MS),
    Step::Ms(30 * SECOND_MS),
    Step::Ms(MINUTE_MS),
    Step::Ms(2 * MINUTE_MS),
    Step::Ms(5 * MINUTE_MS),
    Step::Ms(10 * MINUTE_MS),
    Step::Ms(15 * MINUTE_MS),
    Step::Ms(30 * MINUTE_MS),
    Step::Ms(HOUR_MS),
    Step::Ms(2 * HOUR_MS),
    Step::Ms(3 * HOUR_MS),
    Step::Ms(6 * HOUR_MS),
    Step::Ms(12 * HOUR_MS),
    Step::Days(1),
    Step::Days(2),
    Step::Days(7),
    Step::Days(14),
    Step::Months(1),
    Step::Months(2),
    Step::Months(3),
    Step::Months(6),
    Step::Months(12),
    Step::Months(24),
    Step::Months(60),
    Step::Months(120),
    Step::Months(240),
    Step::Months(600),
    Step::Months(1200),
];

/// Times with texts. `room` is how many texts of a length fit beside each other.
pub(super) fn ticks(
    (start_ms, end_ms): (i64, i64),
    zone: &TimeZone,
    format: &str,
    room: impl Fn(&str) -> usize,
) -> Vec<(i64, String)> {
    let span_ms = end_ms - start_ms;
    let format = if format.is_empty() {
        usual_format(span_ms)
    } else {
        format
    };
    let Some(sample) = zoned(start_ms, zone).and_then(|time| label(format, &time).ok()) else {
        return Vec::new();
    };
    let count = room(&sample).clamp(1, TICKS_MAX) as i64;
    let fits = |step: &&Step| span_ms / step.length_ms() < count;
    let Some(step) = STEPS.iter().find(fits).or(STEPS.last()) else {
        return Vec::new();
    };
    let times = step.times(start_ms, end_ms, zone);
    let labelled = times.filter_map(|time| {
        let text = label(format, &time).ok()?;
        Some((time.timestamp().as_millisecond(), text))
    });
    labelled.take(TICKS_MAX).collect()
}

/// What the original writes, by the length of the window.
fn usual_format(span_ms: i64) -> &'static str {
    let formats = [
        (2 * SECOND_MS, "%H:%M:%S%.3f"),
        (35 * MINUTE_MS, "%H:%M:%S"),
        (DAY_MS, "%H:%M"),
        (7 * DAY_MS, "%a %H:%M"),
        (14 * DAY_MS, "%a %d %H:%M"),
        (90 * DAY_MS, "%b %d"),
    ];
    let found = formats.iter().find(|(length_ms, _)| span_ms < *length_ms);
    found.map_or("%Y/%m/%d", |(_, format)| format)
}

/// Whether times can be written so.
pub(super) fn check_format(format: &str, zone: &TimeZone) -> Result<(), String> {
    if format.chars().count() > FORMAT_CHARS_MAX {
        return Err(format!("it has more than {FORMAT_CHARS_MAX} characters"));
    }
    let Some(time) = zoned(0, zone) else {
        return Ok(());
    };
    label(format, &time).map(|_| ())
}

fn label(format: &str, time: &Zoned) -> Result<String, String> {
    let text = strtime::format(format, time).map_err(|error| error.to_string())?;
    if text.chars().count() > LABEL_CHARS_MAX {
        return Err(format!("times have more than {LABEL_CHARS_MAX} characters"));
    }
    Ok(text)
}

fn zoned(ms: i64, zone: &TimeZone) -> Option<Zoned> {
    let timestamp = Timestamp::from_millisecond(ms).ok()?;
    Some(timestamp.to_zoned(zone.clone()))
}

impl Step {
    fn length_ms(self) -> i64 {
        match self {
            Self::Ms(ms) => ms,
            Self::Days(days) => days * DAY_MS,
            Self::Months(months) => months * MONTH_MS,
        }
    }

    /// The last round time at or before another.
    fn floor(self, time: DateTime) -> Option<DateTime> {
        let midnight = |date: Date| date.to_datetime(jiff::civil::Time::midnight());
        match self {
            Self::Ms(step) => {
                let since = time.duration_since(midnight(time.date())).as_millis() as i64;
                let rounded = since - since.rem_euclid(step);
                midnight(time.date())
                    .checked_add(rounded.milliseconds())
                    .ok()
            }
            Self::Days(step) => {
                // A Monday, so that weeks begin with one.
                let monday = jiff::civil::date(1970, 1, 5);
                let days = time.date().duration_since(monday).as_hours() / 24;
                let date = time.date().checked_sub(days.rem_euclid(step).days()).ok()?;
                Some(midnight(date))
            }
            Self::Months(step) => {
                let months = i64::from(time.year()) * 12 + i64::from(time.month()) - 1;
                let rounded = months - months.rem_euclid(step);
                let (year, month) = (rounded.div_euclid(12), rounded.rem_euclid(12) + 1);
                let year = i16::try_from(year.max(1)).ok()?;
                Some(midnight(Date::new(year, month as i8, 1).ok()?))
            }
        }
    }

    fn next(self, time: DateTime) -> Option<DateTime> {
        let next = match self {
            Self::Ms(ms) => time.checked_add(ms.milliseconds()),
            Self::Days(days) => time.checked_add(days.days()),
            Self::Months(months) => time.checked_add(months.months()),
        };
        next.ok()
    }

    /// Round times of the zone from a start to an end. A time that the zone's clocks skip is the
    /// one that they show instead.
    fn times(self, start_ms: i64, end_ms: i64, zone: &TimeZone) -> impl Iterator<Item = Zoned> {
        let start = zoned(start_ms, zone).and_then(|time| self.floor(time.datetime()));
        let all = std::iter::successors(start, move |time| self.next(*time));
        let in_zone = all.map_while(|time| zone.to_zoned(time).ok());
        let ms = |time: &Zoned| time.timestamp().as_millisecond();
        let in_window = in_zone.take_while(move |time| ms(time) <= end_ms);
        in_window.filter(move |time| ms(time) >= start_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2020-01-26 10:00:00 UTC.
    const START: i64 = 1_580_032_800_000;

    fn texts(span_ms: i64, zone: &TimeZone, room: usize) -> Vec<String> {
        let found = ticks((START, START + span_ms), zone, "", |_| room);
        assert!(found.is_sorted_by_key(|tick| tick.0));
        found.into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn ticks_are_at_round_times() {
        let utc = &TimeZone::UTC;
        assert_eq!(
            texts(200_000, utc, 4),
            ["10:00:00", "10:01:00", "10:02:00", "10:03:00"]
        );
        assert_eq!(
            texts(HOUR_MS, utc, 5),
            ["10:00", "10:15", "10:30", "10:45", "11:00"]
        );
        assert_eq!(
            texts(2 * DAY_MS, utc, 5),
            ["Sun 12:00", "Mon 00:00", "Mon 12:00", "Tue 00:00"]
        );
        assert_eq!(texts(40 * DAY_MS, utc, 2), ["Feb 01", "Mar 01"]);
        assert_eq!(texts(900 * DAY_MS, utc, 4), ["2021/01/01", "2022/01/01"]);
        assert_eq!(
            texts(500, utc, 3),
            ["10:00:00.000", "10:00:00.200", "10:00:00.400"]
        );
    }

    #[test]
    fn ticks_are_those_of_a_zone() {
        let kolkata = TimeZone::get("Asia/Kolkata").unwrap();
        assert_eq!(texts(HOUR_MS, &kolkata, 3), ["15:30", "16:00", "16:30"]);
        // A day of 23 hours.
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let start = 1_585_436_400_000;
        let found = ticks((start, start + 23 * HOUR_MS), &berlin, "", |_| 5);
        let found: Vec<_> = found.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(found, ["00:00", "06:00", "12:00", "18:00", "00:00"]);
    }

    #[test]
    fn no_window_is_too_long() {
        let end = crate::time::TIME_MS_MAX;
        for room in [0, 1, 7, usize::MAX] {
            for span in [1, 1_000, end] {
                let found = ticks((end - span, end), &TimeZone::UTC, "", |_| room);
                assert!(found.len() <= TICKS_MAX);
            }
        }
    }

    #[test]
    fn formats() {
        let check = |format: &str| check_format(format, &TimeZone::UTC);
        assert!(check("%Y-%m-%d %H:%M").is_ok());
        assert!(check("").is_ok());
        for format in ["%", "%!", "%99999999Y", &"x".repeat(65)] {
            assert!(check(format).is_err(), "{format}");
        }
        let zone = TimeZone::get("America/Argentina/Buenos_Aires").unwrap();
        assert!(check_format(&"%Q".repeat(32), &zone).is_err());
    }
}
