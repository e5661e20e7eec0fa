//! The period of a search: a length of time up to now, or from one moment to another.

use std::ops::Range;

use serde_json::Value;

use super::fields::{self, Fields};
use crate::Problem;
use crate::time_text::parse_time;

/// Reads `period`. What begins at the start is in it, what begins at the end is not.
pub(super) fn parse(fields: &Fields, now_ms: i64) -> Result<Range<i64>, Problem> {
    let period = fields::object(fields, "period")?.ok_or_else(|| fields::missing("period"))?;
    // What began in the current millisecond has begun.
    let now_ns = now_ms.saturating_add(1).saturating_mul(1_000_000);
    let ways = ["previous", "since", "between", "from"];
    let mut given = ways.iter().filter(|way| fields::get(period, way).is_some());
    let way = given
        .next()
        .ok_or_else(|| fields::missing("period.previous"))?;
    if given.next().is_some() {
        let reason = "is one of previous, between, and from with to";
        return Err(fields::invalid("period", reason));
    }
    let range = match *way {
        "between" => between(period)?,
        "from" => {
            let from = fields::required(period, "from")?;
            let to = fields::text(period, "to")?;
            time(from)?..to.map(time).transpose()?.unwrap_or(now_ns)
        }
        way => {
            let length_ns = length_ns(fields::required(period, way)?)?;
            let start_ns = now_ms.saturating_mul(1_000_000).saturating_sub(length_ns);
            start_ns..now_ns
        }
    };
    if range.is_empty() {
        let detail = "the end of the period must be later than its start";
        return Err(Problem::new(400, "query.invalid-time-range", detail));
    }
    Ok(range)
}

fn between(period: &Fields) -> Result<Range<i64>, Problem> {
    match fields::get(period, "between")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        Some([Value::String(start), Value::String(end)]) => Ok(time(start)?..time(end)?),
        _ => Err(fields::invalid(
            "period.between",
            "must be a list of two times",
        )),
    }
}

fn time(text: &str) -> Result<i64, Problem> {
    parse_time(text).ok_or_else(|| {
        let detail = format!("{text:?} is no time with a zone as in 2026-11-09T10:00:00Z");
        Problem::new(400, "query.invalid-timestamp", detail)
    })
}

/// `1h` or `-1h` in nanoseconds.
pub(super) fn length_ns(text: &str) -> Result<i64, Problem> {
    let wrong = || {
        let detail = format!("{text:?} is no period such as 90s, 15m, 1h, 7d or 2w");
        Problem::new(400, "query.invalid-period", detail)
    };
    let length = text.trim().trim_start_matches('-');
    let unit = length.chars().last().ok_or_else(wrong)?;
    let unit_s = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let count = length.strip_suffix(unit).unwrap_or_default();
    let is_count = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let count: i64 = count.parse().ok().filter(|_| is_count).ok_or_else(wrong)?;
    let length_ns = count
        .checked_mul(unit_s * 1_000_000_000)
        .ok_or_else(wrong)?;
    if length_ns == 0 {
        return Err(wrong());
    }
    Ok(length_ns)
}
