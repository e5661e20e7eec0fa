//! Times as requests write them: absolute, relative, durations, calendar intervals.

mod calendar;
mod date;
mod duration;

use icecore_wire::opentsdb::number::parse_integer;
use jiff::tz::TimeZone;

pub(crate) use calendar::{CalendarInterval, CalendarUnit};
pub(crate) use duration::parse_duration;

use crate::error::Error;

/// Most characters of a number that is a time in seconds; longer ones are milliseconds.
const SECONDS_LEN_MAX: usize = 10;

/// The latest moment that can be asked for.
pub(crate) const TIME_MS_MAX: i64 = 9_999_999_999_999;

/// A time in milliseconds. Dates are in `zone`.
pub(crate) fn parse_time(text: &str, zone: &TimeZone, now_ms: i64) -> Result<i64, Error> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some(digits) = text.strip_suffix("ms").filter(|digits| is_digits(digits)) {
        return parse_integer(digits).map_err(|reason| invalid(text, &reason.to_string()));
    }
    let lower = text.to_lowercase();
    if lower == "now" {
        return Ok(now_ms);
    }
    if lower.ends_with("-ago") {
        let ago_ms = parse_duration(&text[..text.len() - "-ago".len()])?;
        return Ok(now_ms.saturating_sub(ago_ms));
    }
    if text.contains(['/', ':']) {
        return date::parse(text, zone);
    }
    number(text)
}

fn number(text: &str) -> Result<i64, Error> {
    let mut digits = text.to_owned();
    if let Some((seconds, fraction)) = text.split_once('.') {
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let fits = seconds.len() == SECONDS_LEN_MAX && (1..=3).contains(&fraction.len());
        if !fits || !is_digits(seconds) || !is_digits(fraction) {
            return Err(invalid(
                text,
                "Millisecond timestamps must be in the format <seconds>.<ms> where the \
                 milliseconds are limited to 3 digits",
            ));
        }
        digits = format!("{seconds}{fraction}");
    }
    let time = parse_integer(&digits).map_err(|reason| invalid(text, &reason.to_string()))?;
    if time < 0 {
        return Err(invalid(text, "Negative timestamps are not supported."));
    }
    if text.len() <= SECONDS_LEN_MAX {
        return Ok(time * 1000);
    }
    Ok(time)
}

fn invalid(text: &str, reason: &str) -> Error {
    Error::bad_request(format!("Invalid time: {text}. {reason}"))
}

/// The zone of a name; only names of the time zone database count, no offsets.
pub(crate) fn find_zone(name: &str) -> Option<TimeZone> {
    // Some names, like `GMT+5`, are in the database; a bare offset is not.
    TimeZone::get(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_500;

    fn time(text: &str) -> Result<i64, String> {
        parse_time(text, &TimeZone::UTC, NOW).map_err(|error| error.message)
    }

    #[test]
    fn absolute_and_relative_times() {
        for (text, ms) in [
            ("1364410924250ms", 1_364_410_924_250),
            ("1550000000ms", 1_550_000_000),
            ("now", NOW),
            ("NOW", NOW),
            ("1h-ago", NOW - 3_600_000),
            ("1h-AGO", NOW - 3_600_000),
            ("90s-ago", NOW - 90_000),
            ("500ms-ago", NOW - 500),
            ("1.5h-ago", NOW - 3_600_000),
            ("2013/01/23", 1_358_899_200_000),
            ("2013/01/23-12:50", 1_358_945_400_000),
            ("2013/01/23 12:50", 1_358_945_400_000),
            ("2013/01/23-12:50:42", 1_358_945_442_000),
            ("2013/01/23 12:50:42", 1_358_945_442_000),
            ("2019/13/45", 1_581_638_400_000),
            ("1364410924.250", 1_364_410_924_250),
            ("1550000000.5", 15_500_000_005),
            ("1364410924", 1_364_410_924_000),
            ("1364410924250", 1_364_410_924_250),
            ("+1550000000", 1_550_000_000),
            ("0", 0),
        ] {
            assert_eq!(time(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, message) in [
            ("abc", "Invalid time: abc. Invalid character 'a' in abc"),
            (
                "-1",
                "Invalid time: -1. Negative timestamps are not supported.",
            ),
            ("1q-ago", "Invalid duration (suffix): 1q"),
            ("19:33", "Invalid absolute date: 19:33"),
            (
                "2019/02/12T19:33:20",
                "Invalid date: 2019/02/12T19:33:20. Unparseable date: \"2019/02/12T19:33:20\"",
            ),
            (
                "99999999999999999999",
                "Invalid time: 99999999999999999999. Value too long: 99999999999999999999",
            ),
        ] {
            assert_eq!(time(text), Err(message.to_owned()), "{text}");
        }
        assert!(time("1550000000.5000").unwrap_err().contains("3 digits"));
        assert!(time("").is_err());
    }

    #[test]
    fn zones_have_names() {
        for name in ["UTC", "GMT", "America/New_York", "PST8PDT"] {
            assert!(find_zone(name).is_some(), "{name}");
        }
        for name in ["", "foo", "+05:00", "Mars/Olympus"] {
            assert!(find_zone(name).is_none(), "{name}");
        }
        let zone = find_zone("America/New_York").unwrap();
        let time = parse_time("2019/02/12-19:33:20", &zone, NOW).unwrap();
        assert_eq!(time, 1_550_018_000_000);
    }
}
