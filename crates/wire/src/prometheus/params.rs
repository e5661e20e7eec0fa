//! Times and durations as the parameters of the Prometheus HTTP API spell them.
//!
//! Times are seconds since the epoch with fractions, or RFC 3339; durations are seconds with
//! fractions, or PromQL's `1h30m`. Both become milliseconds.

use thiserror::Error;

/// Why a parameter could not be read. The words are those of Prometheus.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParamError {
    #[error("cannot parse {0:?} to a valid timestamp")]
    Time(String),
    #[error("cannot parse {0:?} to a valid timestamp. It overflows int64")]
    TimeOverflow(String),
    #[error("cannot parse {0:?} to a valid duration")]
    Duration(String),
    #[error("cannot parse {0:?} to a valid duration. It overflows int64")]
    DurationOverflow(String),
}

/// The earliest and the latest time that Prometheus knows, as it writes them. Clients that want
/// "everything" send these texts back, although their years are not RFC 3339.
const MIN_TIME: (&str, i64) = ("-292273086-05-16T16:47:06Z", -9_223_309_901_257_974_000);
const MAX_TIME: (&str, i64) = (
    "292277025-08-18T07:12:54.999999999Z",
    9_223_309_901_257_974_999,
);

/// The longest duration of Go, 2^63 nanoseconds: what Prometheus refuses is refused here.
const DURATION_MS_MAX: i64 = i64::MAX / 1_000_000;

/// Reads a time: seconds since the epoch, or RFC 3339.
pub fn parse_time_ms(text: &str) -> Result<i64, ParamError> {
    if let Ok(seconds) = text.parse::<f64>() {
        let whole_ms = seconds.trunc() * 1000.0;
        let fraction_ms = (seconds.fract() * 1000.0).round();
        return to_i64(whole_ms)
            .and_then(|whole| whole.checked_add(fraction_ms as i64))
            .ok_or_else(|| ParamError::TimeOverflow(text.into()));
    }
    if text == MIN_TIME.0 {
        return Ok(MIN_TIME.1);
    }
    if text == MAX_TIME.0 {
        return Ok(MAX_TIME.1);
    }
    parse_rfc3339_ms(text).ok_or_else(|| ParamError::Time(text.into()))
}

/// Reads the time of a query. What is beyond 64 bits of milliseconds is no error there, but wraps around
/// as in Prometheus (on a 64-bit PC): `1e30` is 0.
pub fn parse_query_time_ms(text: &str) -> Result<i64, ParamError> {
    match (parse_time_ms(text), text.parse::<f64>()) {
        (Err(ParamError::TimeOverflow(_)), Ok(seconds)) => {
            let whole = to_i64(seconds.trunc()).unwrap_or(i64::MIN);
            let nanos = to_i64((seconds.fract() * 1e3).round() * 1e6).unwrap_or(i64::MIN);
            let nanos = whole.wrapping_mul(1_000_000_000).wrapping_add(nanos);
            Ok(nanos / 1_000_000)
        }
        (parsed, _) => parsed,
    }
}

/// Reads a duration: seconds, or numbers with units from `y` down to `ms`.
pub fn parse_duration_ms(text: &str) -> Result<i64, ParamError> {
    let overflow = || ParamError::DurationOverflow(text.into());
    if let Ok(seconds) = text.parse::<f64>() {
        return to_i64((seconds * 1000.0).trunc())
            .filter(|ms| ms.unsigned_abs() <= DURATION_MS_MAX.unsigned_abs())
            .ok_or_else(overflow);
    }
    let parts = split_units(text).ok_or_else(|| ParamError::Duration(text.into()))?;
    let mut total = 0i64;
    for (number, unit_ms) in parts {
        total = number
            .parse::<i64>()
            .ok()
            .and_then(|n| n.checked_mul(unit_ms))
            .and_then(|ms| total.checked_add(ms))
            .filter(|ms| *ms <= DURATION_MS_MAX)
            .ok_or_else(overflow)?;
    }
    Ok(total)
}

/// The units of durations, largest first: each may occur once, in this order.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 24 * 3_600_000),
    ("w", 7 * 24 * 3_600_000),
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Splits `1h30m` into digits and the milliseconds of their units.
fn split_units(text: &str) -> Option<Vec<(&str, i64)>> {
    let mut parts = Vec::new();
    let mut units = UNITS.iter();
    let mut rest = text;
    while !rest.is_empty() {
        let (number, tail) = split_leading(rest, |c| c.is_ascii_digit());
        let (unit, tail) = split_leading(tail, |c| !c.is_ascii_digit());
        if number.is_empty() {
            return None;
        }
        // The iterator goes on where it stopped, so that order and uniqueness check themselves.
        let (_, unit_ms) = units.find(|(name, _)| *name == unit)?;
        parts.push((number, *unit_ms));
        rest = tail;
    }
    (!parts.is_empty()).then_some(parts)
}

fn split_leading(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// A whole float as an integer; `None` where it does not fit or is not a number.
fn to_i64(value: f64) -> Option<i64> {
    // 2^63 itself is out of range, −2^63 is not.
    let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    range.contains(&value).then_some(value as i64)
}

/// Reads `2006-01-02T15:04:05[.fraction](Z|±hh:mm)`. A finer fraction than milliseconds is cut off.
fn parse_rfc3339_ms(text: &str) -> Option<i64> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    let month = literal(&mut rest, '-').and_then(|()| digits(&mut rest, 2))?;
    let day = literal(&mut rest, '-').and_then(|()| digits(&mut rest, 2))?;
    let hour = literal(&mut rest, 'T').and_then(|()| digits(&mut rest, 2))?;
    let minute = literal(&mut rest, ':').and_then(|()| digits(&mut rest, 2))?;
    let second = literal(&mut rest, ':').and_then(|()| digits(&mut rest, 2))?;
    let valid = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let fraction_ms = fraction_ms(&mut rest)?;
    let offset_minutes = offset_minutes(rest)?;
    let minutes = days_from_epoch(year, month, day) * 24 * 60 + hour * 60 + minute - offset_minutes;
    Some(minutes * 60_000 + second * 1000 + fraction_ms)
}

fn literal(rest: &mut &str, expected: char) -> Option<()> {
    *rest = rest.strip_prefix(expected)?;
    Some(())
}

fn digits(rest: &mut &str, count: usize) -> Option<i64> {
    let (number, tail) = rest.split_at_checked(count)?;
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    *rest = tail;
    number.parse().ok()
}

/// Reads an optional `.123…`; Go takes a comma, too.
fn fraction_ms(rest: &mut &str) -> Option<i64> {
    let Some(fraction) = rest.strip_prefix(['.', ',']) else {
        return Some(0);
    };
    let (digits, tail) = split_leading(fraction, |c| c.is_ascii_digit());
    *rest = tail;
    if digits.is_empty() {
        return None;
    }
    let mut ms = 0;
    for position in 0..3 {
        ms = ms * 10
            + digits
                .as_bytes()
                .get(position)
                .map_or(0, |b| i64::from(b - b'0'));
    }
    Some(ms)
}

fn offset_minutes(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let mut rest = text.strip_prefix(['+', '-'])?;
    let hours = digits(&mut rest, 2)?;
    let minutes = literal(&mut rest, ':').and_then(|()| digits(&mut rest, 2))?;
    (rest.is_empty() && hours <= 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that the
/// leap day is the last of its year and months have a closed form.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests;
