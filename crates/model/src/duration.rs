//! Durations as Prometheus writes them: `100ms`, `15s`, `1h30m`, `2d`.
//!
//! Holds always: what [`format_duration_ms`] writes, [`parse_duration_ms`] reads back.

use std::fmt::Write;

use thiserror::Error;

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DurationError {
    #[error("not a valid duration")]
    Malformed,
    #[error("duration out of range")]
    Overflow,
}

/// Units from large to small, in milliseconds.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// The longest duration of Go, 2^63 nanoseconds: what Prometheus refuses is refused here.
pub const MAX_DURATION_MS: i64 = i64::MAX / 1_000_000;

/// Reads whole numbers with units, each unit at most once and from large to small: `30m1h` is a
/// typing error.
pub fn parse_duration_ms(text: &str) -> Result<i64, DurationError> {
    let mut units = UNITS.iter();
    let mut total = Some(0i64);
    let mut rest = text;
    loop {
        let (number, tail) = split_leading(rest, |c| c.is_ascii_digit());
        let (unit, tail) = split_leading(tail, |c| !c.is_ascii_digit());
        // The iterator continues where it stopped, which enforces the order.
        let unit_ms = units.find(|(name, _)| *name == unit).map(|(_, ms)| *ms);
        let unit_ms = unit_ms.filter(|_| !number.is_empty());
        let unit_ms = unit_ms.ok_or(DurationError::Malformed)?;
        let number_ms = number
            .parse::<i64>()
            .ok()
            .and_then(|n| n.checked_mul(unit_ms));
        total = total.zip(number_ms).and_then(|(a, b)| a.checked_add(b));
        rest = tail;
        if rest.is_empty() {
            let total = total.filter(|ms| *ms <= MAX_DURATION_MS);
            return total.ok_or(DurationError::Overflow);
        }
    }
}

fn split_leading(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// The short form, in days and smaller units: `14d` is clearer than `2w`.
pub fn format_duration_ms(ms: i64) -> String {
    if ms == 0 {
        return "0s".into();
    }
    let mut text = String::from(if ms < 0 { "-" } else { "" });
    let mut rest = ms.unsigned_abs();
    for (unit, unit_ms) in &UNITS[2..] {
        let count = rest / unit_ms.unsigned_abs();
        rest %= unit_ms.unsigned_abs();
        if count > 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{count}{unit}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_prometheus_reads() {
        const DAY: i64 = 86_400_000;
        for (text, ms) in [
            ("0s", 0),
            ("100ms", 100),
            ("015s", 15_000),
            ("1h30m", 5_400_000),
            ("2d", 2 * DAY),
            ("1y2w3d4h5m6s7ms", 33_019_506_007),
            ("290y", 290 * 365 * DAY),
            ("9223372036854ms", MAX_DURATION_MS),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            " ",
            "0",
            "5",
            "s",
            "5x",
            "5 s",
            " 5s",
            "5s ",
            "-5s",
            "+5s",
            "1.5h",
            "1m1h",
            "1m1m",
            "1h30",
            "1ms1s",
            "5S",
            "5min",
            "5µs",
            "٥s",
            "é",
            "5é",
            "1h\u{301}",
            "9999999999999999999y5",
        ] {
            let malformed = Err(DurationError::Malformed);
            assert_eq!(parse_duration_ms(text), malformed, "{text}");
        }
        for text in [
            "300y",
            "9999999999999999999y",
            "292y99999w",
            "9223372036855ms",
        ] {
            let overflow = Err(DurationError::Overflow);
            assert_eq!(parse_duration_ms(text), overflow, "{text}");
        }
    }

    #[test]
    fn writes_the_short_form() {
        for (ms, text) in [
            (0, "0s"),
            (1, "1ms"),
            (-1_500, "-1s500ms"),
            (5_400_000, "1h30m"),
            (86_400_000 * 15, "15d"),
        ] {
            assert_eq!(format_duration_ms(ms), text);
        }
    }

    proptest! {
        #[test]
        fn written_durations_read_back(ms in 0..=MAX_DURATION_MS) {
            prop_assert_eq!(parse_duration_ms(&format_duration_ms(ms)), Ok(ms));
        }

        #[test]
        fn no_text_panics(text in "[0-9ywdhms.é ]{0,24}") {
            let _ = parse_duration_ms(&text);
        }
    }
}
