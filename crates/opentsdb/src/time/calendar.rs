//! Intervals of the calendar: days that are 23 hours long, months, years.
//!
//! ```text
//! moment ─► anchor (start of a bigger unit) ─► + interval, + interval … ─► bucket of the moment
//! ```
//!
//! Hours and shorter units are steps of elapsed time. Days keep the time of day; where it does not
//! exist (clocks are put forward at midnight) the step ends later, and the steps after it, too.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

const DAY_MS: i64 = 86_400_000;

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalendarUnit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl CalendarUnit {
    /// The unit that a duration ends with.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ms" => Self::Millisecond,
            "s" => Self::Second,
            "m" => Self::Minute,
            "h" => Self::Hour,
            "d" => Self::Day,
            "w" => Self::Week,
            "n" => Self::Month,
            "y" => Self::Year,
            _ => return None,
        })
    }
}

/// So many units, in a zone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CalendarInterval {
    pub(crate) count: i64,
    pub(crate) unit: CalendarUnit,
    pub(crate) zone: TimeZone,
}

impl CalendarInterval {
    /// The start of the interval that holds a moment. It is reached by going one step too far and
    /// back again: where days are skipped, that is not the step before.
    pub(crate) fn floor(&self, ms: i64) -> i64 {
        let mut start = self.anchor(ms);
        // A single jump over whole steps of elapsed time, because there may be millions of them.
        if let Some(step_ms) = self.elapsed_ms() {
            return start + (ms - start).div_euclid(step_ms) * step_ms;
        }
        if start == ms {
            return start;
        }
        while start <= ms {
            match self.step(start, self.count) {
                Some(next) if next > start => start = next,
                _ => return start,
            }
        }
        self.step(start, -self.count).unwrap_or(start)
    }

    /// The end of the interval that starts at a moment.
    pub(crate) fn next(&self, start: i64) -> i64 {
        // Beyond the years that the calendar knows there is one last interval.
        let next = self.step(start, self.count).filter(|next| *next > start);
        next.unwrap_or(i64::MAX)
    }

    fn step(&self, start: i64, count: i64) -> Option<i64> {
        match self.unit {
            CalendarUnit::Day => self.add_days(start, count),
            CalendarUnit::Week => self.add_days(start, count.checked_mul(7)?),
            CalendarUnit::Month => self.add_months(start, count),
            CalendarUnit::Year => self.add_months(start, count.checked_mul(12)?),
            _ => start.checked_add(self.elapsed_ms()?),
        }
    }

    /// The length of a step of elapsed time.
    pub(crate) fn elapsed_ms(&self) -> Option<i64> {
        let unit_ms = match self.unit {
            CalendarUnit::Millisecond => 1,
            CalendarUnit::Second => 1000,
            CalendarUnit::Minute => 60_000,
            CalendarUnit::Hour => 3_600_000,
            _ => return None,
        };
        Some(self.count.saturating_mul(unit_ms))
    }

    /// The moment at or before `ms` from which steps are counted.
    fn anchor(&self, ms: i64) -> i64 {
        let divides = |larger: i64| larger % self.count == 0;
        let Some(local) = self.local(ms) else {
            return ms;
        };
        let date = local.date();
        match self.unit {
            CalendarUnit::Millisecond if divides(1000) => ms - ms.rem_euclid(1000),
            CalendarUnit::Millisecond => self.at_second_zero(ms, local),
            CalendarUnit::Second if divides(60) => self.at_second_zero(ms, local),
            CalendarUnit::Second => self.at_minute_zero(ms, local),
            CalendarUnit::Minute if divides(60) => self.at_minute_zero(ms, local),
            CalendarUnit::Minute => self.midnight(date, ms),
            CalendarUnit::Hour if divides(24) => self.midnight(date, ms),
            CalendarUnit::Hour => self.midnight(date.first_of_month(), ms),
            CalendarUnit::Day if self.count == 1 => self.midnight(date.first_of_month(), ms),
            CalendarUnit::Week => {
                let since_sunday = date.weekday().since(Weekday::Sunday);
                let sunday = date.checked_sub(i64::from(since_sunday).days());
                self.midnight(sunday.unwrap_or(date), ms)
            }
            CalendarUnit::Day | CalendarUnit::Month | CalendarUnit::Year => {
                self.midnight(date.first_of_year(), ms)
            }
        }
    }

    fn at_second_zero(&self, ms: i64, local: DateTime) -> i64 {
        ms - ms.rem_euclid(1000) - i64::from(local.second()) * 1000
    }

    fn at_minute_zero(&self, ms: i64, local: DateTime) -> i64 {
        self.at_second_zero(ms, local) - i64::from(local.minute()) * 60_000
    }

    /// The start of a day.
    fn midnight(&self, date: Date, otherwise: i64) -> i64 {
        self.moment(date.at(0, 0, 0, 0)).unwrap_or(otherwise)
    }

    fn local(&self, ms: i64) -> Option<DateTime> {
        let timestamp = Timestamp::from_millisecond(ms).ok()?;
        Some(self.zone.to_datetime(timestamp))
    }

    fn moment(&self, local: DateTime) -> Option<i64> {
        let timestamp = self.zone.to_ambiguous_timestamp(local).later().ok()?;
        Some(timestamp.as_millisecond())
    }

    fn offset_ms(&self, ms: i64) -> Option<i64> {
        let timestamp = Timestamp::from_millisecond(ms).ok()?;
        Some(i64::from(self.zone.to_offset(timestamp).seconds()) * 1000)
    }

    /// The same time of day so many days later, or as near to it as that day has it.
    fn add_days(&self, ms: i64, days: i64) -> Option<i64> {
        let moved = ms.checked_add(days.checked_mul(DAY_MS)?)?;
        let shift = self.offset_ms(ms)? - self.offset_ms(moved)?;
        if shift == 0 {
            return Some(moved);
        }
        let days = Span::new().try_days(days).ok()?;
        let wanted = self.local(ms)?.date().checked_add(days).ok()?;
        let shifted = moved.checked_add(shift)?;
        let is_same_day = self.local(shifted)?.date() == wanted;
        Some(if is_same_day { shifted } else { moved })
    }

    fn add_months(&self, ms: i64, months: i64) -> Option<i64> {
        let local = self.local(ms)?;
        let months = Span::new().try_months(months).ok()?;
        self.moment(local.checked_add(months).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(count: i64, unit: &str, zone: &str, from: &str, steps: usize) -> Vec<String> {
        let zone = TimeZone::get(zone).unwrap();
        let interval = CalendarInterval {
            count,
            unit: CalendarUnit::parse(unit).unwrap(),
            zone: zone.clone(),
        };
        let from: DateTime = from.parse().unwrap();
        let from = zone.to_timestamp(from).unwrap().as_millisecond();
        let mut start = interval.floor(from);
        let mut found = Vec::new();
        for _ in 0..steps {
            let timestamp = Timestamp::from_millisecond(start).unwrap();
            found.push(zone.to_datetime(timestamp).to_string());
            start = interval.next(start);
        }
        found
    }

    #[test]
    fn a_day_may_be_shorter_and_begin_later() {
        let found = starts(1, "d", "America/New_York", "2013-03-09T15:00", 3);
        assert_eq!(
            found,
            [
                "2013-03-09T00:00:00",
                "2013-03-10T00:00:00",
                "2013-03-11T00:00:00"
            ]
        );
        // Clocks go forward at midnight: from then on, days of the walk begin at one. So does the
        // day before, which is reached by going too far and back.
        let found = starts(1, "d", "America/Sao_Paulo", "2017-10-13T15:00", 1);
        assert_eq!(found, ["2017-10-13T00:00:00"]);
        let found = starts(1, "d", "America/Sao_Paulo", "2017-10-14T15:00", 3);
        assert_eq!(
            found,
            [
                "2017-10-14T01:00:00",
                "2017-10-15T01:00:00",
                "2017-10-16T01:00:00"
            ]
        );
        // There was no 30 December 2011 in Apia.
        let found = starts(1, "d", "Pacific/Apia", "2011-12-29T15:00", 3);
        assert_eq!(
            found,
            [
                "2011-12-29T00:00:00",
                "2011-12-31T00:00:00",
                "2012-01-01T00:00:00"
            ]
        );
    }

    #[test]
    fn a_skipped_day_moves_intervals() {
        // Counted from 1 January there would be one from the 27th to the 30th, which did not exist.
        let found = starts(3, "d", "Pacific/Apia", "2011-12-28T15:00", 2);
        assert_eq!(found, ["2011-12-28T00:00:00", "2011-12-31T00:00:00"]);
    }

    #[test]
    fn hours_are_steps_of_elapsed_time() {
        let found = starts(6, "h", "America/New_York", "2018-11-04T00:30", 3);
        assert_eq!(
            found,
            [
                "2018-11-04T00:00:00",
                "2018-11-04T05:00:00",
                "2018-11-04T11:00:00"
            ]
        );
    }

    #[test]
    fn months_and_years_are_counted_from_january_and_weeks_from_sunday() {
        let found = starts(2, "n", "UTC", "2020-04-17T00:00", 3);
        assert_eq!(
            found,
            [
                "2020-03-01T00:00:00",
                "2020-05-01T00:00:00",
                "2020-07-01T00:00:00"
            ]
        );
        let found = starts(1, "w", "UTC", "2020-04-17T00:00", 2);
        assert_eq!(found, ["2020-04-12T00:00:00", "2020-04-19T00:00:00"]);
        let found = starts(3, "w", "UTC", "2020-04-17T00:00", 2);
        assert_eq!(found, ["2020-04-12T00:00:00", "2020-05-03T00:00:00"]);
        let found = starts(1, "y", "UTC", "2020-04-17T00:00", 2);
        assert_eq!(found, ["2020-01-01T00:00:00", "2021-01-01T00:00:00"]);
    }

    #[test]
    fn the_ends_of_time_end_the_walk() {
        for unit in ["ms", "s", "m", "h", "d", "w", "n", "y"] {
            for count in [1, 7, i64::from(i32::MAX), i64::MAX] {
                let interval = CalendarInterval {
                    count,
                    unit: CalendarUnit::parse(unit).unwrap(),
                    zone: TimeZone::UTC,
                };
                for ms in [0, super::super::TIME_MS_MAX] {
                    let start = interval.floor(ms);
                    assert!(interval.next(start) > start, "{count}{unit} {ms}");
                }
            }
        }
    }
}
