//! Times of day in UTC, for people: written as RFC 3339, read as RFC 3339 or UNIX seconds.

use anyhow::{Context as _, bail};

const DAY_MS: i64 = 24 * 3_600_000;

/// `2023-11-14T22:13:20Z`, with milliseconds where there are some.
pub(crate) fn format_ms(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil_from_days(days);
    let (seconds, millis) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = match millis {
        0 => String::new(),
        millis => format!(".{millis:03}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Reads `2023-11-14`, `2023-11-14T22:13:20.5Z`, `2023-11-14T22:13+01:00` or UNIX seconds.
pub(crate) fn parse_ms(text: &str) -> anyhow::Result<i64> {
    if let Ok(seconds) = text.parse::<f64>() {
        let ms = (seconds * 1e3).round();
        if !(-1e15..1e15).contains(&ms) {
            bail!("{text} seconds are not a time");
        }
        return Ok(ms as i64);
    }
    parse_rfc3339(text).with_context(|| {
        format!("{text:?} is no time: expected 2023-11-14T22:13:20Z or UNIX seconds")
    })
}

fn parse_rfc3339(text: &str) -> anyhow::Result<i64> {
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let mut fields = date.splitn(3, '-');
    let mut next = |what: &'static str| fields.next().context(what);
    let (year, month, day) = (next("no year")?, next("no month")?, next("no day")?);
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let days = days_from_civil(year, month, day);
    if !(1..=12).contains(&month) || civil_from_days(days) != (year, month, day) {
        bail!("there is no such day");
    }
    Ok(days * DAY_MS + time_of_day_ms(time)?)
}

fn time_of_day_ms(time: &str) -> anyhow::Result<i64> {
    if time.is_empty() {
        return Ok(0);
    }
    let (clock, zone_ms) = match time.find(['Z', 'z', '+', '-']) {
        None => (time, 0),
        Some(at) => (&time[..at], zone_ms(&time[at..])?),
    };
    let mut fields = clock.splitn(3, ':');
    let hour = number(fields.next().unwrap_or_default())?;
    let minute = number(fields.next().context("no minute")?)?;
    let second: f64 = fields.next().unwrap_or("0").parse().context("no second")?;
    if hour > 23 || minute > 59 || !(0.0..60.0).contains(&second) {
        bail!("there is no such time of day");
    }
    let second_ms = (second * 1e3).round() as i64;
    Ok((hour * 60 + minute) * 60_000 + second_ms - zone_ms)
}

fn zone_ms(zone: &str) -> anyhow::Result<i64> {
    let (sign, rest) = match zone.split_at(1) {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        (_, "") => return Ok(0),
        _ => bail!("text after Z"),
    };
    let (hours, minutes) = rest.split_once(':').context("zones look like +01:00")?;
    Ok(sign * (number(hours)? * 60 + number(minutes)?) * 60_000)
}

/// Up to four digits and nothing else.
fn number(digits: &str) -> anyhow::Result<i64> {
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        bail!("{digits:?} is no number");
    }
    Ok(digits.parse()?)
}

/// Days since 1970-01-01. Years begin in March, so that the leap day is the last of them.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        assert_eq!(format_ms(0), "1970-01-01T00:00:00Z");
        assert_eq!(format_ms(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(format_ms(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(format_ms(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(
            format_ms(i64::from(u32::MAX) * 60_000),
            "10136-02-16T04:15:00Z"
        );
    }

    #[test]
    fn what_is_written_is_read() {
        for ms in [
            0,
            1_700_000_000_123,
            951_782_400_000,
            -86_400_001,
            4_102_444_800_000,
        ] {
            assert_eq!(parse_ms(&format_ms(ms)).unwrap(), ms);
        }
        assert_eq!(parse_ms("1700000000.5").unwrap(), 1_700_000_000_500);
        assert_eq!(parse_ms("2023-11-14").unwrap(), 1_699_920_000_000);
        assert_eq!(parse_ms("2023-11-14 22:13").unwrap(), 1_699_999_980_000);
        let zoned = parse_ms("2023-11-14T23:13:20+01:00").unwrap();
        assert_eq!(zoned, 1_700_000_000_000);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "now",
            "2023-13-01",
            "2023-02-30",
            "2023-01-01T24:00",
            "2023-01-01T1",
            "1e300",
            "NaN",
            "2023-01-01T00:00Zx",
        ] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
