//! The zone that times are printed in.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use super::fields;
use crate::Problem;
use crate::json_text::push_string;
use crate::time_text::time_text;

/// UTC if none.
#[derive(Clone, Debug, Default)]
pub(super) struct Zone(Option<TimeZone>);

impl Zone {
    /// The name of a zone, or an offset such as `+02:00`.
    pub(super) fn parse(name: &str) -> Result<Self, Problem> {
        if name.is_empty() || matches!(name, "UTC" | "Z" | "utc") {
            return Ok(Self(None));
        }
        let zone = fixed(name).or_else(|| TimeZone::get(name).ok());
        let zone = zone.ok_or_else(|| fields::invalid("tz", "is not a known time zone"))?;
        Ok(Self(Some(zone)))
    }

    /// Appends a time as a JSON string.
    pub(super) fn push(&self, out: &mut String, at_ns: i64) {
        let utc = || time_text(at_ns);
        let text = match &self.0 {
            None => utc(),
            Some(zone) => self.local(zone, at_ns).unwrap_or_else(utc),
        };
        push_string(out, &text);
    }

    fn local(&self, zone: &TimeZone, at_ns: i64) -> Option<String> {
        let at = Timestamp::from_nanosecond(i128::from(at_ns)).ok()?;
        let offset_s = zone.to_offset(at).seconds();
        let shifted = at_ns.checked_add(i64::from(offset_s) * 1_000_000_000)?;
        let mut text = time_text(shifted);
        text.pop();
        let minutes = offset_s.abs() / 60;
        let sign = if offset_s < 0 { '-' } else { '+' };
        text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        Some(text)
    }
}

fn fixed(name: &str) -> Option<TimeZone> {
    let (sign, rest) = match name.as_bytes().first()? {
        b'+' => (1, &name[1..]),
        b'-' => (-1, &name[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let hours: i32 = hours.parse().ok().filter(|hours| (0..24).contains(hours))?;
    let minutes: i32 = minutes
        .parse()
        .ok()
        .filter(|minutes| (0..60).contains(minutes))?;
    let offset = Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()?;
    Some(TimeZone::fixed(offset))
}
