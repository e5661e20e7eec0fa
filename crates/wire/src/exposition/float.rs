//! Numbers of the text formats: read as Prometheus reads them (Go's `ParseFloat` without its newer
//! forms), and written as it writes bounds and quantiles.
//!
//! Holds always: parsing is correctly rounded. The fast path is taken only where one division of
//! exact numbers gives the same result.

use icecore_model::go_float;

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Prometheus' NaN that is not the staleness marker.
const NORMAL_NAN_BITS: u64 = 0x7ff8_0000_0000_0001;

/// Reads a number; `None` where Prometheus reads none. Every NaN becomes the same one, so that no
/// target can send a staleness marker by accident.
#[inline]
pub(super) fn parse_float(text: &[u8]) -> Option<f64> {
    plain_decimal(text).or_else(|| any_float(text))
}

/// Digits with at most one dot, few enough to be exact in 53 bits.
#[inline]
fn plain_decimal(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    // 18 digits fit 64 bits, and most numbers have fewer.
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut mantissa = 0u64;
    let mut dot = None;
    for (i, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        } else if *byte == b'.' && dot.is_none() {
            dot = Some(i);
        } else {
            return None;
        }
    }
    let decimals = match dot {
        // A lone dot is no number.
        Some(_) if digits.len() == 1 => return None,
        Some(i) => digits.len() - 1 - i,
        None if digits.len() == 19 => return None,
        None => 0,
    };
    if mantissa > 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / EXACT_POWERS.get(decimals)?;
    Some(if negative { -value } else { value })
}

fn any_float(text: &[u8]) -> Option<f64> {
    let text = str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    let unsigned = text.trim_start_matches(['+', '-']);
    if value.is_nan() {
        // Go knows no sign of NaN.
        return (unsigned.len() == text.len()).then_some(f64::from_bits(NORMAL_NAN_BITS));
    }
    // A number too large for a double is an error in Go and infinity in Rust.
    if value.is_infinite() && !unsigned.starts_with(['i', 'I']) {
        return None;
    }
    Some(value)
}

/// Seconds with decimals as milliseconds, cut off as Prometheus does it; `None` for NaN, infinity
/// and what no 64 bits hold.
pub(super) fn seconds_to_ms(seconds: f64) -> Option<i64> {
    let ms = seconds * 1000.0;
    // Both limits are exact doubles.
    (ms >= i64::MIN as f64 && ms < i64::MAX as f64).then_some(ms as i64)
}

/// A number as OpenMetrics and Prometheus write it in `le` and `quantile`: always with a dot or an
/// exponent, which has at least two digits and is used from 10^6 on and below 10^−4 (Go's `%g`).
pub(super) fn format_float(value: f64) -> String {
    // A negative zero is a zero here.
    let mut text = if value == 0.0 {
        "0".to_owned()
    } else {
        go_float(value)
    };
    if value.is_finite() && !text.contains(['.', 'e']) {
        text.push_str(".0");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<f64> {
        parse_float(text.as_bytes())
    }

    #[test]
    fn what_is_a_number() {
        for (text, value) in [
            ("0", 0.0),
            ("-0", -0.0),
            ("1", 1.0),
            ("+1", 1.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-.5", -0.5),
            ("12345.678", 12345.678),
            ("7.424100000000001e-05", 7.424_100_000_000_001e-5),
            ("1e-400", 0.0),
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("123456789012345678901234567890", 1.234_567_890_123_456_8e29),
            ("inf", f64::INFINITY),
            ("+Inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("INF", f64::INFINITY),
        ] {
            assert_eq!(
                read(text).map(f64::to_bits),
                Some(value.to_bits()),
                "{text}"
            );
        }
        for text in ["NaN", "nan", "NAN"] {
            assert_eq!(read(text).map(f64::to_bits), Some(NORMAL_NAN_BITS));
        }
    }

    #[test]
    fn what_is_none() {
        for text in [
            "", ".", "-", "+", "-.", "e5", "1e", "1e999", "-1e999", "+nan", "-NaN", "1_2",
            "0x1p-3", "0x1", "1 ", " 1", "1\r", "true", "infin", "1.2.3", "1,5", "٣", "1\0",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(parse_float(b"\xff"), None);
    }

    #[test]
    fn bounds_are_written_as_go_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "0.0"),
            (1.0, "1.0"),
            (-1.0, "-1.0"),
            (0.5, "0.5"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (100_000.0, "100000.0"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1e100, "1e+100"),
            (1.5e-7, "1.5e-07"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(format_float(value), text);
        }
    }

    #[test]
    fn seconds() {
        assert_eq!(seconds_to_ms(1.5), Some(1500));
        assert_eq!(seconds_to_ms(-0.0015), Some(-1));
        assert_eq!(seconds_to_ms(1_520_879_607.789), Some(1_520_879_607_789));
        for wrong in [f64::NAN, f64::INFINITY, 1e17, -1e300] {
            assert_eq!(seconds_to_ms(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn decimals_are_exact(text in "-?[0-9]{0,20}(\\.[0-9]{0,24})?(e-?[0-9]{1,3})?") {
            let expected = text.parse::<f64>().ok().filter(|value| value.is_finite());
            prop_assert_eq!(read(&text).map(f64::to_bits), expected.map(f64::to_bits));
        }

        #[test]
        fn what_is_written_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            if !value.is_nan() && value != 0.0 {
                prop_assert_eq!(read(&format_float(value)).map(f64::to_bits), Some(bits));
            }
        }

        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            parse_float(&bytes);
        }
    }
}
