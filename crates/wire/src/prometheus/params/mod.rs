//! Times and durations as the parameters of the Prometheus HTTP API spell them.
//!
//! Times are seconds since the epoch with fractions, or RFC 3339; durations are seconds with
//! fractions, or PromQL's `1h30m`. Both become milliseconds.

use chrono::NaiveDate;
use icecore_model::{DurationError, MAX_DURATION_MS};
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

/// Reads the time of a query. What is beyond 64 bits of milliseconds is no error there, but wraps
/// around as in Prometheus (on a 64-bit PC): `1e30` is 0.
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
    let parsed = match text.parse::<f64>() {
        Ok(seconds) => to_i64((seconds * 1000.0).trunc())
            .filter(|ms| ms.unsigned_abs() <= MAX_DURATION_MS.unsigned_abs())
            .ok_or(DurationError::Overflow),
        Err(_) => icecore_model::parse_duration_ms(text),
    };
    parsed.map_err(|error| match error {
        DurationError::Malformed => ParamError::Duration(text.into()),
        DurationError::Overflow => ParamError::DurationOverflow(text.into()),
    })
}

/// A whole float as an integer; `None` where it does not fit or is not a number.
fn to_i64(value: f64) -> Option<i64> {
    // 2^63 itself is out of range, −2^63 is not.
    let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    range.contains(&value).then_some(value as i64)
}

/// Reads `2006-01-02T15:04:05[.fraction](Z|±hh:mm)`. A finer fraction than milliseconds is cut off.
/// chrono knows the calendar; its own parser takes other forms than Go's does.
fn parse_rfc3339_ms(text: &str) -> Option<i64> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    let month = literal(&mut rest, '-').and_then(|()| digits(&mut rest, 2))?;
    let day = literal(&mut rest, '-').and_then(|()| digits(&mut rest, 2))?;
    let hour = literal(&mut rest, 'T').and_then(|()| digits(&mut rest, 2))?;
    let minute = literal(&mut rest, ':').and_then(|()| digits(&mut rest, 2))?;
    let second = literal(&mut rest, ':').and_then(|()| digits(&mut rest, 2))?;
    let fraction_ms = fraction_ms(&mut rest)?;
    let offset_minutes = offset_minutes(rest)?;
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    let time = date.and_hms_milli_opt(hour, minute, second, fraction_ms)?;
    Some(time.and_utc().timestamp_millis() - offset_minutes * 60_000)
}

fn literal(rest: &mut &str, expected: char) -> Option<()> {
    *rest = rest.strip_prefix(expected)?;
    Some(())
}

fn digits(rest: &mut &str, count: usize) -> Option<u32> {
    let (number, tail) = rest.split_at_checked(count)?;
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    *rest = tail;
    number.parse().ok()
}

/// Reads an optional `.123…`; Go takes a comma, too.
fn fraction_ms(rest: &mut &str) -> Option<u32> {
    let Some(fraction) = rest.strip_prefix(['.', ',']) else {
        return Some(0);
    };
    let end = fraction.find(|c: char| !c.is_ascii_digit());
    let (digits, tail) = fraction.split_at(end.unwrap_or(fraction.len()));
    *rest = tail;
    let ms = format!("{digits:0<3}").get(..3)?.parse();
    ms.ok().filter(|_| !digits.is_empty())
}

fn offset_minutes(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let mut rest = text.strip_prefix(['+', '-'])?;
    let hours = digits(&mut rest, 2)?;
    let minutes = literal(&mut rest, ':').and_then(|()| digits(&mut rest, 2))?;
    let valid = rest.is_empty() && hours <= 24 && minutes < 60;
    valid.then(|| sign * i64::from(hours * 60 + minutes))
}

#[cfg(test)]
mod tests;
