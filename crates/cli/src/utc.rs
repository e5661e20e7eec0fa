//! Times of day in UTC, for people: written as RFC 3339, read as RFC 3339 or UNIX seconds.

use anyhow::{Context as _, bail};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveTime, SecondsFormat, Utc};

/// `2023-11-14T22:13:20Z`, with milliseconds where there are some.
pub(crate) fn format_ms(ms: i64) -> String {
    let limit = if ms < 0 {
        DateTime::<Utc>::MIN_UTC
    } else {
        DateTime::<Utc>::MAX_UTC
    };
    let time = DateTime::from_timestamp_millis(ms).unwrap_or(limit);
    let text = time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    // The sign in front of years above 9999.
    text.trim_start_matches('+').into()
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

/// Unlike in RFC 3339, the time of day, its seconds and the zone may be absent.
fn parse_rfc3339(text: &str) -> anyhow::Result<i64> {
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
    let date: NaiveDate = date.parse()?;
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone);
    let clock = NaiveTime::parse_from_str(clock, "%H:%M:%S%.f")
        .or_else(|_| NaiveTime::parse_from_str(clock, "%H:%M"))?;
    let offset_seconds = match zone {
        "" | "Z" | "z" => 0,
        zone => zone.parse::<FixedOffset>()?.local_minus_utc(),
    };
    let utc_ms = date.and_time(clock).and_utc().timestamp_millis();
    Ok(utc_ms - i64::from(offset_seconds) * 1000)
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
