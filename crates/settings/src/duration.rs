//! Durations as people write them in Prometheus files: `100ms`, `15s`, `1h30m`, `2d`.
//!
//! Holds always: what [`show`] prints, [`parse`] reads back as the same duration (whole
//! milliseconds; nothing finer can be written), and every parsed duration may be added to a clock
//! reading without overflow.

use std::time::Duration;

use icecore_model::{DurationError, format_duration_ms, parse_duration_ms};

use crate::text::BadValue;

/// A century. Adding a duration to `Instant::now()` panics on overflow; this never gets there.
const MAX_MS: i64 = 100 * 365 * 86_400_000;

const EXPECTED: &str = "a duration such as 100ms, 15s, 5m, 1h30m or 2d";

pub fn parse(text: &str) -> Result<Duration, BadValue> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // Leading zeros are refused here as in every other number of a file.
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    if numbers.any(|number| number.len() > 1 && number.starts_with('0')) {
        return Err(BadValue::expected(EXPECTED));
    }
    match parse_duration_ms(text) {
        Ok(ms) if ms <= MAX_MS => Ok(Duration::from_millis(ms.unsigned_abs())),
        Err(DurationError::Malformed) => Err(BadValue::expected(EXPECTED)),
        Ok(_) | Err(DurationError::Overflow) => {
            Err(BadValue::expected("a duration of at most 100 years"))
        }
    }
}

pub fn show(duration: &Duration) -> String {
    format_duration_ms(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_prometheus_reads() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("100ms", 100),
            ("15s", 15_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("1y2w3d4h5m6s7ms", 33_019_506_007),
            ("100y", MAX_MS.unsigned_abs()),
        ] {
            let parsed = parse(text).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
            assert_eq!(parsed, Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            " ",
            "5",
            "s",
            "5 s",
            " 5s",
            "5s ",
            "-5s",
            "+5s",
            "1.5h",
            "30m1h",
            "1s1s",
            "5S",
            "5min",
            "5µs",
            "٥s",
            "0x5s",
            "1h30",
            "05s",
            "101y",
            "99999999999999999999s",
            "18446744073709551615ms",
            "18446744073709551615y",
            "é",
            "5é",
            "1h\u{301}",
        ] {
            assert!(
                parse(text).is_err(),
                "{text:?} was read as {:?}",
                parse(text)
            );
        }
    }

    #[test]
    fn prints_the_short_form() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (1_500, "1s500ms"),
            (5_400_000, "1h30m"),
            (86_400_000 * 15, "15d"),
        ] {
            assert_eq!(show(&Duration::from_millis(millis)), text);
        }
    }

    proptest! {
        #[test]
        fn printed_durations_read_back(millis in 0..=MAX_MS.unsigned_abs()) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(&duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in "[0-9ywdhms.é ]{0,24}") {
            let _ = parse(&text);
        }
    }
}
