//! Numbers and durations as Go and Prometheus write them.

/// A number as Go reads one: an integer with an optional base prefix, else a float.
pub(crate) fn go_number(text: &str) -> Option<f64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = integer_with_base(digits).or_else(|| decimal(digits))?;
    Some(if negative { -magnitude } else { magnitude })
}

/// `0x1F`, `0b11`, `0o17` and `017`: what has a base other than ten.
fn integer_with_base(digits: &str) -> Option<f64> {
    let rest = digits.strip_prefix('0')?;
    let (base, rest) = match rest.as_bytes().first()? {
        b'x' | b'X' => (16, &rest[1..]),
        b'b' | b'B' => (2, &rest[1..]),
        b'o' | b'O' => (8, &rest[1..]),
        _ => (8, rest),
    };
    let plain = without_underscores(rest)?;
    if plain.starts_with('+') {
        return None;
    }
    i64::from_str_radix(&plain, base).ok().map(|n| n as f64)
}

fn decimal(digits: &str) -> Option<f64> {
    without_underscores(digits)?.parse().ok()
}

/// Underscores may stand between digits.
fn without_underscores(digits: &str) -> Option<String> {
    if digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    Some(digits.replace('_', ""))
}

const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// A duration in milliseconds: `1h30m`, or a bare `0`. Larger units come first, none twice.
pub(crate) fn duration_ms(text: &str) -> Option<i64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total = 0i64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, after) = rest.split_at(digits);
        let letters = after.len()
            - after
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let (unit, after) = after.split_at(letters);
        let (_, unit_ms) = units.find(|(name, _)| *name == unit)?;
        let part = count.parse::<i64>().ok()?.checked_mul(*unit_ms)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let cases = [
            ("1", 1.0),
            ("-0.5", -0.5),
            ("+3", 3.0),
            ("1e3", 1000.0),
            (".5", 0.5),
            ("0x1F", 31.0),
            ("017", 15.0),
            ("08.5", 8.5),
            ("1_000", 1000.0),
            ("0", 0.0),
            ("Inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            ("9223372036854775808", 9223372036854775808.0),
        ];
        for (text, expected) in cases {
            assert_eq!(go_number(text), Some(expected), "{text}");
        }
        assert!(go_number("NaN").unwrap().is_nan());
        assert!(go_number("-0").unwrap().is_sign_negative());
        for text in ["", "-", "--1", "x", "1_", "1m", "0x", "é"] {
            assert_eq!(go_number(text), None, "{text}");
        }
    }

    #[test]
    fn durations() {
        let cases = [
            ("0", 0),
            ("0m", 0),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("20s500ms", 20_500),
            ("1y2w", 365 * 86_400_000 + 14 * 86_400_000),
        ];
        for (text, expected) in cases {
            assert_eq!(duration_ms(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "5",
            "m",
            "5m5h",
            "5m5m",
            "1.5m",
            "-1m",
            "999999999999999y",
        ] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }
}
