//! Intervals of questions: how long they are, and where they begin.

use icecore_model::event::EventWindow;
use icecore_model::parse_duration_ms;

use crate::Problem;

/// All intervals are multiples of this.
const STEP_S: i64 = 5;
const DAY_S: i64 = 86_400;

/// The longest interval: longer than anything is kept.
const LONGEST_S: i64 = 3_660 * DAY_S;

/// A length of time that ranges are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    seconds: i64,
}

impl Interval {
    /// Reads `90s`, `15m`, `1h30m`, `7d` or, as ISO 8601 has it, `PT5M`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let invalid = |reason: &str| {
            let detail = format!("interval {text:?} {reason}");
            Problem::new(400, "query.interval-invalid", detail)
                .with_hint("a multiple of 5 seconds, for example 5s, 90s, 15m, 4h, 1d, 7d or PT5M")
        };
        let ms = match text.strip_prefix(['P', 'p']) {
            Some(rest) => iso_ms(rest),
            None => parse_duration_ms(text).ok(),
        };
        let ms = ms.ok_or_else(|| invalid("is no duration"))?;
        if ms <= 0 {
            return Err(invalid("is not greater than 0"));
        }
        if ms % (STEP_S * 1000) != 0 {
            return Err(invalid("is no multiple of 5 seconds"));
        }
        let seconds = ms / 1000;
        if seconds > LONGEST_S {
            return Err(invalid("is longer than ten years"));
        }
        Ok(Self { seconds })
    }

    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Whether intervals are made of whole windows.
    pub fn is_multiple_of(self, window: EventWindow) -> bool {
        self.seconds % window.seconds() == 0
    }

    /// The start of the interval that a moment lies in. Intervals of whole weeks begin on Mondays,
    /// all others are counted from the epoch.
    pub fn start_of(self, at_s: i64) -> i64 {
        let from = if self.is_multiple_of(EventWindow::Week) {
            EventWindow::Week.start_of(EventWindow::Week.seconds())
        } else {
            0
        };
        at_s - (at_s - from).rem_euclid(self.seconds)
    }
}

/// The rest of a duration of ISO 8601 behind its `P`: `5D`, `T1H30M`, `2W`. Months and years have
/// no length of their own.
fn iso_ms(text: &str) -> Option<i64> {
    let (days, times) = match text.split_once(['T', 't']) {
        Some((days, times)) if !times.is_empty() => (days, times),
        Some(_) => return None,
        None => (text, ""),
    };
    if days.is_empty() && times.is_empty() {
        return None;
    }
    let days = iso_part(days, &[('W', 7 * DAY_S), ('D', DAY_S)])?;
    let times = iso_part(times, &[('H', 3_600), ('M', 60), ('S', 1)])?;
    days.checked_add(times)?.checked_mul(1000)
}

/// The seconds of numbers with units, each at most once and in this order.
fn iso_part(text: &str, units: &[(char, i64)]) -> Option<i64> {
    let mut units = units.iter();
    let mut total = 0i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest.get(..digits)?.parse().ok()?;
        let unit = rest.get(digits..)?.chars().next()?;
        let (_, seconds) = units.find(|(name, _)| name.eq_ignore_ascii_case(&unit))?;
        total = total.checked_add(number.checked_mul(*seconds)?)?;
        rest = rest.get(digits + 1..)?;
    }
    Some(total)
}

/// The intervals of a range, widened to whole ones, and the page of them that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intervals {
    pub(crate) interval: Interval,
    pub(crate) start_s: i64,
    pub(crate) total: usize,
    pub(crate) offset: usize,
    /// How many there are on the page.
    pub(crate) count: usize,
}

impl Intervals {
    /// Those that touch `start_ns..end_ns`.
    pub(crate) fn over(
        interval: Interval,
        (start_ns, end_ns): (i64, i64),
        (offset, limit): (usize, usize),
    ) -> Self {
        let start_s = interval.start_of(start_ns.div_euclid(1_000_000_000));
        let last_s = interval.start_of((end_ns - 1).div_euclid(1_000_000_000));
        let total = (last_s - start_s) / interval.seconds() + 1;
        let total = usize::try_from(total).unwrap_or_default();
        Self {
            interval,
            start_s,
            total,
            offset,
            count: total.saturating_sub(offset).min(limit),
        }
    }

    pub(crate) fn end_s(&self) -> i64 {
        self.start_of(self.total)
    }

    /// The start of an interval of the range by its number.
    pub(crate) fn start_of(&self, number: usize) -> i64 {
        self.start_s + number as i64 * self.interval.seconds()
    }

    pub(crate) fn page_start_s(&self) -> i64 {
        self.start_of(self.offset.min(self.total))
    }

    pub(crate) fn page_end_s(&self) -> i64 {
        self.start_of(self.offset.min(self.total) + self.count)
    }

    /// The place on the page of the interval that has a moment of it.
    pub(crate) fn place_of(&self, at_s: i64) -> Option<usize> {
        let place = (at_s - self.page_start_s()).div_euclid(self.interval.seconds());
        usize::try_from(place).ok().filter(|at| *at < self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for (text, seconds) in [
            ("5s", 5),
            ("90s", 90),
            ("15m", 900),
            ("1h30m", 5_400),
            ("4h", 14_400),
            ("1d", DAY_S),
            ("7d", 7 * DAY_S),
            ("1w", 7 * DAY_S),
            ("PT5M", 300),
            ("PT1H30M", 5_400),
            ("P1D", DAY_S),
            ("P1DT5S", DAY_S + 5),
            ("p2w", 14 * DAY_S),
        ] {
            let interval = Interval::parse(text).map(Interval::seconds);
            assert_eq!(interval, Ok(seconds), "{text}");
        }
        let bad = [
            "",
            "5",
            "s",
            "0s",
            "-5s",
            "7s",
            "1ms",
            "P",
            "PT",
            "P1M",
            "P1Y",
            "PT5",
            "PT5M1H",
            "PT5X",
            "P5DT",
            "100y",
            "99999999999999999999s",
            "PT99999999999999999999S",
            "5 s",
            "PTé",
        ];
        for text in bad {
            let problem = Interval::parse(text).unwrap_err();
            assert_eq!(
                (problem.status, problem.code),
                (400, "query.interval-invalid")
            );
        }
    }

    #[test]
    fn grids() {
        // 2026-11-09T10:00:01Z is a Monday.
        let at_s = 1_794_218_401;
        let start = |text: &str| at_s - Interval::parse(text).unwrap().start_of(at_s);
        assert_eq!(start("5s"), 1);
        assert_eq!(start("1h"), 1);
        assert_eq!(start("7d"), 36_001);
        assert_eq!(start("1d"), 36_001);
        let two_weeks = Interval::parse("14d").unwrap().start_of(at_s);
        assert_eq!((two_weeks - 4 * DAY_S).rem_euclid(14 * DAY_S), 0);
        let eight_days = Interval::parse("8d").unwrap().start_of(at_s);
        assert_eq!(eight_days.rem_euclid(8 * DAY_S), 0);
    }

    #[test]
    fn ranges_are_widened_and_cut_into_pages() {
        let minute = Interval::parse("1m").unwrap();
        let second = 1_000_000_000;
        let of = |from, to, page| Intervals::over(minute, (from, to), page);
        let whole = of(60 * second, 180 * second, (0, 10));
        assert_eq!((whole.start_s, whole.total, whole.count), (60, 2, 2));
        let wider = of(61 * second, 180 * second + 1, (1, 1));
        assert_eq!((wider.start_s, wider.total, wider.count), (60, 3, 1));
        assert_eq!((wider.page_start_s(), wider.page_end_s()), (120, 180));
        assert_eq!(wider.place_of(120), Some(0));
        assert_eq!((wider.place_of(119), wider.place_of(180)), (None, None));
        let beyond = of(0, 1, (5, 10));
        assert_eq!((beyond.total, beyond.count, beyond.end_s()), (1, 0, 60));
    }
}
