//! What `1m-avg-nan` says: how the points of a series become one value for each interval.

use jiff::tz::TimeZone;

use super::aggregator::{Aggregator, Function};
use crate::error::Error;
use crate::time::{CalendarInterval, CalendarUnit, parse_duration};

/// How a series is downsampled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Downsampler {
    pub(crate) interval: Interval,
    pub(crate) function: Function,
    pub(crate) fill: FillPolicy,
}

/// The time that becomes one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Interval {
    /// The whole time of the query.
    All,
    /// So many milliseconds, aligned to the epoch.
    Fixed(i64),
    /// An interval of the calendar, and its usual length in milliseconds.
    Calendar(CalendarInterval, i64),
}

/// What stands for an interval without points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FillPolicy {
    /// Nothing.
    #[default]
    None,
    NotANumber,
    /// NaN, which answers show as `null`.
    Null,
    Zero,
    /// A number that only expressions can give.
    Scalar,
}

impl FillPolicy {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "none" => Self::None,
            "nan" => Self::NotANumber,
            "null" => Self::Null,
            "zero" => Self::Zero,
            "scalar" => Self::Scalar,
            _ => return None,
        })
    }
}

impl Downsampler {
    /// Reads a specification. The zone and `use_calendar` are those of the whole query.
    pub(crate) fn parse(text: &str, use_calendar: bool, zone: &TimeZone) -> Result<Self, Error> {
        let mut parts: Vec<&str> = text.split('-').collect();
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
        let refused = |problem: &str| {
            Error::bad_request(format!(
                "Invalid downsampling specifier '{text}': {problem}"
            ))
        };
        let (interval, name, fill) = match parts.as_slice() {
            [interval, name] => (*interval, *name, None),
            [interval, name, fill] => (*interval, *name, Some(*fill)),
            [] | [_] => return Err(refused("must provide at least interval and function")),
            _ => {
                return Err(refused(
                    "must consist of interval, function, and optional fill policy",
                ));
            }
        };
        let interval = Interval::parse(interval, use_calendar, zone)?;
        let aggregator = Aggregator::find(name)
            .ok_or_else(|| Error::bad_request(format!("No such downsampling function: {name}")))?;
        if aggregator.is_none() {
            let message = "cannot use the NONE aggregator for downsampling";
            return Err(Error::bad_request(message));
        }
        let fill = match fill {
            None => FillPolicy::None,
            Some(name) => FillPolicy::parse(name)
                .ok_or_else(|| Error::bad_request(format!("Unrecognized fill policy: {name}")))?,
        };
        Ok(Self {
            interval,
            function: aggregator.function,
            fill,
        })
    }
}

impl Interval {
    fn parse(text: &str, use_calendar: bool, zone: &TimeZone) -> Result<Self, Error> {
        if text.contains("all") {
            return Ok(Self::All);
        }
        let (duration, has_suffix) = match text.strip_suffix('c') {
            Some(duration) => (duration, true),
            None => (text, false),
        };
        let length_ms = parse_duration(duration)?;
        if !has_suffix && !use_calendar {
            return Ok(Self::Fixed(length_ms));
        }
        let digits_len = duration.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, unit) = duration.split_at(digits_len);
        let count = digits.parse().ok();
        let interval = count.zip(CalendarUnit::parse(&unit.to_lowercase()));
        let (count, unit) = interval
            .ok_or_else(|| Error::bad_request(format!("Invalid duration (suffix): {duration}")))?;
        let zone = zone.clone();
        Ok(Self::Calendar(
            CalendarInterval { count, unit, zone },
            length_ms,
        ))
    }

    /// Its length in milliseconds; `None` where it depends on the query.
    pub(crate) fn length_ms(&self) -> Option<i64> {
        match self {
            Self::All => None,
            Self::Fixed(ms) | Self::Calendar(_, ms) => Some(*ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Downsampler, String> {
        Downsampler::parse(text, false, &TimeZone::UTC).map_err(|error| error.message)
    }

    #[test]
    fn interval_function_and_fill() {
        let fixed = |ms, function, fill| {
            Ok(Downsampler {
                interval: Interval::Fixed(ms),
                function,
                fill,
            })
        };
        let (sum, none) = (Function::Sum, FillPolicy::None);
        assert_eq!(parse("1h-sum"), fixed(3_600_000, sum, none));
        assert_eq!(parse("10s-sum-"), fixed(10_000, sum, none));
        assert_eq!(parse("1.5m-sum"), fixed(60_000, sum, none));
        assert_eq!(
            parse("30m-avg-NaN"),
            fixed(1_800_000, Function::Avg, FillPolicy::NotANumber)
        );
        assert_eq!(
            parse("1s-max-null"),
            fixed(1000, Function::Max, FillPolicy::Null)
        );
        assert_eq!(
            parse("1s-max-zero"),
            fixed(1000, Function::Max, FillPolicy::Zero)
        );
        assert_eq!(parse("0all-sum").unwrap().interval, Interval::All);
        assert_eq!(parse("0allc-sum").unwrap().interval, Interval::All);
        let day = parse("1dc-max").unwrap();
        let Interval::Calendar(interval, 86_400_000) = day.interval else {
            panic!("a day of the calendar")
        };
        assert_eq!((interval.count, interval.unit), (1, CalendarUnit::Day));
        let all = Downsampler::parse("2w-sum", true, &TimeZone::UTC).unwrap();
        assert!(matches!(all.interval, Interval::Calendar(..)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            (
                "10s",
                "Invalid downsampling specifier '10s': must provide at least interval and function",
            ),
            (
                "10s-sum-nan-x",
                "Invalid downsampling specifier '10s-sum-nan-x': must consist of interval, \
                 function, and optional fill policy",
            ),
            ("10s--nan", "No such downsampling function: "),
            ("10s-SUM", "No such downsampling function: SUM"),
            (
                "30s-none",
                "cannot use the NONE aggregator for downsampling",
            ),
            ("10s-sum-foo", "Unrecognized fill policy: foo"),
            ("0m-sum", "Zero or negative duration: 0m"),
            (
                "1c-sum",
                "Invalid duration, must have an integer and unit: 1",
            ),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()));
        }
    }
}
