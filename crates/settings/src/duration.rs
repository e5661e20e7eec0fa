//! Durations as people write them in Prometheus files: `100ms`, `15s`, `1h30m`, `2d`.
//!
//! Holds always: what [`show`] prints, [`parse`] reads back as the same duration (whole
//! milliseconds; nothing finer can be written), and every parsed duration may be added to a clock
//! reading without overflow.

use std::time::Duration;

use crate::text::{BadValue, whole_number};

/// Units from large to small, in milliseconds. Years and weeks are read because Prometheus files
/// use them, but not printed: `14d` says more than `2w`.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A century. Adding a duration to `Instant::now()` panics on overflow; this never gets there.
const MAX_MS: u64 = 100 * 365 * 86_400_000;

const EXPECTED: &str = "a duration such as 100ms, 15s, 5m, 1h30m or 2d";

pub fn parse(text: &str) -> Result<Duration, BadValue> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let malformed = || BadValue::expected(EXPECTED);
    let mut rest = text;
    let mut total_ms = 0_u64;
    // Each unit at most once and from large to small, as in Prometheus: `30m1h` is a typing error.
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let (number, tail) = split_where(rest, |byte| !byte.is_ascii_digit());
        let (unit, tail) = split_where(tail, |byte| byte.is_ascii_digit());
        rest = tail;
        let (_, unit_ms) = units
            .find(|(name, _)| *name == unit)
            .ok_or_else(malformed)?;
        let number = whole_number(number).ok_or_else(malformed)?;
        total_ms = number
            .checked_mul(*unit_ms)
            .and_then(|part| total_ms.checked_add(part))
            .filter(|total| *total <= MAX_MS)
            .ok_or_else(|| BadValue::expected("a duration of at most 100 years"))?;
    }
    if text.is_empty() {
        return Err(malformed());
    }
    Ok(Duration::from_millis(total_ms))
}

pub fn show(duration: &Duration) -> String {
    let mut rest_ms = duration.as_millis();
    if rest_ms == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    for (unit, unit_ms) in &UNITS[2..] {
        let count = rest_ms / u128::from(*unit_ms);
        rest_ms %= u128::from(*unit_ms);
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    text
}

fn split_where(text: &str, stop: impl Fn(u8) -> bool) -> (&str, &str) {
    let at = text.bytes().position(stop).unwrap_or(text.len());
    // Both predicates stop at or after ASCII digits, so this is a character boundary; if it ever
    // were not, the text is malformed and the empty number says so.
    text.split_at_checked(at).unwrap_or(("", text))
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
            ("100y", MAX_MS),
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
        fn printed_durations_read_back(millis in 0..=MAX_MS) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(&duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in "[0-9ywdhms.é ]{0,24}") {
            let _ = parse(&text);
        }
    }
}
