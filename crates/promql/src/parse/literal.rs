//! Literals: numbers and durations.

/// Nanoseconds of the units of a duration, in the order in which they are written.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * DAY),
    ("w", 7 * DAY),
    ("d", DAY),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", MILLISECOND),
];
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
const DAY: u64 = 86_400 * SECOND;

/// The largest duration: what fits Go's 64 bits of nanoseconds, in seconds.
const MAX_DURATION_SECONDS: f64 = 9_223_372_036_854_775_808.0 / 1e9;

/// Reads a number: an integer with the prefixes of Go (a leading zero makes it octal), else a
/// float.
pub(super) fn parse_number(text: &str) -> Result<f64, String> {
    if let Some(integer) = parse_integer(text) {
        return Ok(integer as f64);
    }
    parse_float(text).map_err(|reason| {
        let quoted = super::text::quoted(text);
        format!("error parsing number: strconv.ParseFloat: parsing {quoted}: {reason}")
    })
}

/// The same with an optional sign, as scripts have it.
pub(crate) fn parse_signed_number(text: &str) -> Option<f64> {
    let negative = text.starts_with('-');
    let magnitude = parse_number(text.strip_prefix(['+', '-']).unwrap_or(text)).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

/// As Go's `ParseInt` with base 0, but without a sign.
fn parse_integer(text: &str) -> Option<i64> {
    if !underscores_separate_digits(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase().replace('_', "");
    let (digits, radix) = match lower.strip_prefix('0') {
        Some(rest) if rest.starts_with('x') => (&rest[1..], 16),
        Some(rest) if rest.starts_with('o') => (&rest[1..], 8),
        Some(rest) if rest.starts_with('b') => (&rest[1..], 2),
        Some(octal) if !octal.is_empty() => (octal, 8),
        _ => (lower.as_str(), 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(digits, radix).ok()
}

fn parse_float(text: &str) -> Result<f64, &'static str> {
    const SYNTAX: &str = "invalid syntax";
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "inf" => return Ok(f64::INFINITY),
        "nan" => return Ok(f64::NAN),
        _ => {}
    }
    // Rust would accept words for infinity that the lexer does not.
    if !underscores_separate_digits(text)
        || !lower.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        return Err(SYNTAX);
    }
    let value: f64 = lower.replace('_', "").parse().map_err(|_| SYNTAX)?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err("value out of range")
    }
}

/// Underscores are allowed only between digits, or after the prefix of a hexadecimal number.
fn underscores_separate_digits(text: &str) -> bool {
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let is_digit = |byte: &u8| {
        if hex {
            byte.is_ascii_hexdigit() || matches!(byte, b'x' | b'X')
        } else {
            byte.is_ascii_digit()
        }
    };
    let bytes = text.as_bytes();
    bytes.iter().enumerate().all(|(i, byte)| {
        let before = i.checked_sub(1).and_then(|i| bytes.get(i));
        *byte != b'_' || (before.is_some_and(is_digit) && bytes.get(i + 1).is_some_and(is_digit))
    })
}

/// Reads a duration such as `1h30m` into seconds.
pub(super) fn parse_duration(text: &str) -> Result<f64, String> {
    let nanoseconds = parse_nanoseconds(text)?;
    // As Go's Seconds(): whole seconds and the rest separately, which rounds differently from one
    // division.
    let (whole, fraction) = (nanoseconds / SECOND, nanoseconds % SECOND);
    Ok(whole as f64 + fraction as f64 / 1e9)
}

/// Reads a duration such as `1h30m`, or a bare `0`, into milliseconds.
pub(crate) fn parse_duration_ms(text: &str) -> Option<i64> {
    if text == "0" {
        return Some(0);
    }
    let nanoseconds = parse_nanoseconds(text).ok()?;
    i64::try_from(nanoseconds / MILLISECOND).ok()
}

/// Larger units come first, none twice.
fn parse_nanoseconds(text: &str) -> Result<u64, String> {
    let invalid = || format!("not a valid duration string: {}", super::text::quoted(text));
    let out_of_range = || "duration out of range".to_string();
    if text.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0u64;
    let mut units_left = UNITS.as_slice();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, behind) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| invalid())?;
        let length = behind
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(length);
        rest = behind;
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(if unit.is_empty() {
                invalid()
            } else {
                format!(
                    "unknown unit {} in duration {}",
                    super::text::quoted(unit),
                    super::text::quoted(text)
                )
            });
        };
        let place = units_left.iter().position(|(name, _)| *name == unit);
        units_left = place
            .and_then(|place| units_left.get(place + 1..))
            .ok_or_else(invalid)?;
        nanoseconds = number
            .checked_mul(*factor)
            .and_then(|part| nanoseconds.checked_add(part))
            .filter(|sum| i64::try_from(*sum).is_ok())
            .ok_or_else(out_of_range)?;
    }
    Ok(nanoseconds)
}

pub(super) fn is_out_of_range(seconds: f64) -> bool {
    !(-MAX_DURATION_SECONDS..=MAX_DURATION_SECONDS).contains(&seconds)
}

/// Seconds as milliseconds, by way of whole nanoseconds as in Go.
pub(super) fn seconds_to_millis(seconds: f64) -> i64 {
    ((seconds * 1e9).round() as i64) / 1_000_000
}

/// A duration as Prometheus writes it: `1h30m`, `1w`, `10d`.
pub(crate) fn format_duration(millis: i64) -> String {
    if millis == 0 {
        return "0s".to_string();
    }
    let mut out = String::new();
    if millis < 0 {
        out.push('-');
    }
    let mut left = millis.unsigned_abs();
    for (name, nanoseconds) in UNITS {
        let unit = nanoseconds / MILLISECOND;
        // Years and weeks are used only without a remainder.
        let only_exact = matches!(name, "y" | "w");
        let count = left / unit;
        if count == 0 || (only_exact && !left.is_multiple_of(unit)) {
            continue;
        }
        out.push_str(&format!("{count}{name}"));
        left -= count * unit;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_go() {
        let cases = [
            ("1", 1.0),
            ("010", 8.0),
            ("08", 8.0),
            ("0x10", 16.0),
            ("0X_1F", 31.0),
            ("1_000", 1000.0),
            ("00_1_23_4.56_7_8", 1234.5678),
            ("1e3", 1000.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("Inf", f64::INFINITY),
            ("0.1e-2", 0.001),
            ("18446744073709551616", 18446744073709551616.0),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_number(text), Ok(expected), "{text}");
        }
        assert!(parse_number("nan").unwrap().is_nan());
        for text in ["1__0", "1_", "0xfffffffffffffffff", "1_.5"] {
            assert!(parse_number(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_number("1e400").unwrap_err(),
            "error parsing number: strconv.ParseFloat: parsing \"1e400\": value out of range"
        );
    }

    #[test]
    fn numbers_with_signs() {
        for (text, expected) in [
            ("-0.5", -0.5),
            ("+3", 3.0),
            ("-0x1F", -31.0),
            ("0b11", 3.0),
            ("0o17", 15.0),
            ("08.5", 8.5),
            ("-inf", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse_signed_number(text), Some(expected), "{text}");
        }
        assert!(parse_signed_number("-0").unwrap().is_sign_negative());
        for text in ["", "-", "--1", "0x-1", "x", "1m", "0x", "é"] {
            assert_eq!(parse_signed_number(text), None, "{text}");
        }
    }

    #[test]
    fn durations_read_and_write() {
        let cases = [
            ("5m", 300_000, "5m"),
            ("90m", 5_400_000, "1h30m"),
            ("1h30m", 5_400_000, "1h30m"),
            ("14d", 1_209_600_000, "2w"),
            ("8d", 691_200_000, "8d"),
            ("1y", 31_536_000_000, "1y"),
            ("100ms", 100, "100ms"),
            ("0s", 0, "0s"),
        ];
        for (text, millis, written) in cases {
            let seconds = parse_duration(text).unwrap();
            assert_eq!(seconds_to_millis(seconds), millis, "{text}");
            assert_eq!(parse_duration_ms(text), Some(millis), "{text}");
            assert_eq!(format_duration(millis), written);
        }
        assert_eq!(format_duration(-1_500), "-1s500ms");
        for (text, message) in [
            ("1.5h", "unknown unit \".\" in duration \"1.5h\""),
            ("1m1h", "not a valid duration string: \"1m1h\""),
            ("1hs", "unknown unit \"hs\" in duration \"1hs\""),
            ("300y", "duration out of range"),
        ] {
            assert_eq!(parse_duration(text).unwrap_err(), message);
        }
        assert_eq!(parse_duration_ms("0"), Some(0));
        for text in ["", "5", "m", "5m5m", "-1m", "999999999999999y"] {
            assert_eq!(parse_duration_ms(text), None, "{text}");
        }
    }
}
