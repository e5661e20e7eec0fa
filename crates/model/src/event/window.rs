//! The five windows, and the weeks that cells and files are kept in.

use std::fmt;

const DAY_S: i64 = 86_400;
const WEEK_S: i64 = 7 * DAY_S;

/// Monday, 1970-01-05: weeks begin there and not at the epoch, which was a Thursday.
const FIRST_MONDAY_S: i64 = 4 * DAY_S;

/// How long an interval is. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EventWindow {
    FiveSeconds = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    /// Begins on Monday, UTC.
    Week = 5,
}

impl EventWindow {
    /// From the finest to the coarsest.
    pub const ALL: [Self; 5] = [
        Self::FiveSeconds,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
    ];

    pub fn number(self) -> u8 {
        self as u8
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }

    pub fn seconds(self) -> i64 {
        match self {
            Self::FiveSeconds => 5,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => DAY_S,
            Self::Week => WEEK_S,
        }
    }

    /// As configurations, queries and names of series have it.
    pub fn code(self) -> &'static str {
        match self {
            Self::FiveSeconds => "5s",
            Self::Minute => "1m",
            Self::Hour => "1h",
            Self::Day => "1d",
            Self::Week => "7d",
        }
    }

    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.code() == code)
    }

    /// The start of the interval that a moment lies in.
    pub fn start_of(self, at_s: i64) -> i64 {
        let from = if self == Self::Week {
            FIRST_MONDAY_S
        } else {
            0
        };
        at_s - (at_s - from).rem_euclid(self.seconds())
    }
}

/// An ISO week: Monday to Sunday, UTC. Cells, identities and files of a week go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Week {
    /// Minutes from the epoch to its Monday.
    minutes: u32,
}

impl Week {
    /// The week of a moment; the first Monday's, and the last that keys can name, beyond those.
    pub fn of(at_s: i64) -> Self {
        let last_s = EventWindow::Week.start_of(i64::from(u32::MAX) * 60);
        let start_s = EventWindow::Week.start_of(at_s.clamp(FIRST_MONDAY_S, last_s));
        Self {
            minutes: u32::try_from(start_s / 60).unwrap_or(u32::MAX),
        }
    }

    /// As keys have it; `None` for what is no Monday.
    pub fn from_minutes(minutes: u32) -> Option<Self> {
        let week = Self { minutes };
        (Self::of(week.start_s()) == week).then_some(week)
    }

    pub fn minutes(self) -> u32 {
        self.minutes
    }

    pub fn start_s(self) -> i64 {
        i64::from(self.minutes) * 60
    }

    pub fn end_s(self) -> i64 {
        self.start_s() + WEEK_S
    }

    pub fn next(self) -> Self {
        Self::of(self.end_s())
    }

    /// The year that the week counts to, and its number in it: those of its Thursday.
    pub fn iso(self) -> (i64, u32) {
        let thursday = self.start_s() / DAY_S + 3;
        let (year, day_of_year) = year_of_day(thursday);
        (year, u32::try_from(day_of_year / 7 + 1).unwrap_or_default())
    }
}

/// `2026w46`.
impl fmt::Display for Week {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, week) = self.iso();
        write!(f, "{year}w{week:02}")
    }
}

/// The year of a day since the epoch, and which of its days it is, from 0.
fn year_of_day(day: i64) -> (i64, i64) {
    let first_day = |year: i64| {
        let past = year - 1;
        365 * (year - 1970) + past / 4 - past / 100 + past / 400 - 477
    };
    let mut year = 1970 + day / 366;
    while first_day(year + 1) <= day {
        year += 1;
    }
    (year, day - first_day(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_are_those_of_the_calendar() {
        let week_of_day = |day: i64| Week::of(day * DAY_S).to_string();
        // 2025-09-14, 2025-09-15, 2024-12-30 and 2027-01-01.
        assert_eq!(week_of_day(20_345), "2025w37");
        assert_eq!(week_of_day(20_346), "2025w38");
        assert_eq!(week_of_day(20_087), "2025w01");
        assert_eq!(week_of_day(20_819), "2026w53");
    }

    #[test]
    fn intervals_begin_on_their_grid() {
        // 2026-11-09T10:00:01Z is a Monday.
        let at_s = 1_794_218_401;
        let starts = EventWindow::ALL.map(|window| at_s - window.start_of(at_s));
        assert_eq!(starts, [1, 1, 1, 36_001, 36_001]);
        let sunday_s = at_s - DAY_S;
        let start_s = EventWindow::Week.start_of(sunday_s);
        assert_eq!(sunday_s - start_s, 6 * DAY_S + 36_001);
        assert_eq!(Week::of(sunday_s).start_s(), start_s);
        assert_eq!(Week::of(sunday_s).next(), Week::of(at_s));
    }

    #[test]
    fn only_mondays_are_weeks() {
        let week = Week::of(1_794_218_401);
        assert_eq!(Week::from_minutes(week.minutes()), Some(week));
        assert_eq!(Week::from_minutes(week.minutes() + 1), None);
        assert_eq!(Week::from_minutes(0), None);
        for number in 0..=6 {
            let window = EventWindow::from_number(number);
            assert_eq!(window.is_some(), (1..=5).contains(&number));
            assert_eq!(
                window.and_then(|window| EventWindow::from_code(window.code())),
                window
            );
        }
    }
}
