//! Dates: `yyyy/MM/dd`, with `HH:mm` or `HH:mm:ss` behind a dash or a space.

use jiff::Span;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::error::Error;

/// The moment of a date in a zone, in milliseconds. A month 13 is January of the next year, and so
/// on: that is how the original reads dates.
pub(super) fn parse(text: &str, zone: &TimeZone) -> Result<i64, Error> {
    if ![10, 16, 19].contains(&text.chars().count()) {
        let message = format!("Invalid absolute date: {text}");
        return Err(Error::bad_request(message));
    }
    moment(text, zone).ok_or_else(|| {
        let message = format!("Invalid date: {text}. Unparseable date: \"{text}\"");
        Error::bad_request(message)
    })
}

fn moment(text: &str, zone: &TimeZone) -> Option<i64> {
    let separator = if text.contains('-') { '-' } else { ' ' };
    let (date, time) = match text.split_once(separator) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '/')?;
    let [hour, minute, second] = match time {
        None => [0; 3],
        Some(time) if time.matches(':').count() == 1 => {
            let [hour, minute] = numbers(time, ':')?;
            [hour, minute, 0]
        }
        Some(time) => numbers(time, ':')?,
    };
    let start = Date::new(i16::try_from(year).ok()?, 1, 1).ok()?;
    let months = Span::new().try_months(month - 1).ok()?;
    let days = Span::new().try_days(day - 1).ok()?;
    let date = start.checked_add(months).ok()?.checked_add(days).ok()?;
    let time = Span::new().try_hours(hour).ok()?;
    let time = time.try_minutes(minute).ok()?.try_seconds(second).ok()?;
    let civil = date.at(0, 0, 0, 0).checked_add(time).ok()?;
    let zoned = zone.to_ambiguous_timestamp(civil).later().ok()?;
    Some(zoned.as_millisecond())
}

/// Exactly `N` unsigned numbers.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(separator);
    for number in &mut found {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part.parse::<i32>().ok()?.into();
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_panics() {
        for text in [
            "0000/00/00",
            "9999/99/99-99:99",
            "2019/02/12-25:61:00",
            "////////::",
            "2019/02/2147483647",
            "99999999/9",
            "äääääääääö",
        ] {
            let _ = parse(text, &TimeZone::UTC);
        }
    }
}
