//! Numbers of a line: the fast cases by hand, the rest by the standard library.

use icecore_model::STALE_NAN_BITS;

use super::super::export::NORMAL_NAN_BITS;
use crate::json::is_number_byte;

/// Powers of ten that a float holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A number, correctly rounded.
#[inline]
pub(super) fn parse_number(text: &[u8]) -> Option<f64> {
    match parse_simple(text) {
        Some(value) => Some(value),
        None => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Digits with or without a point, if they and the power of ten are exact: one division is then
/// correctly rounded.
#[inline]
fn parse_simple(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.len() > 16 {
        return None;
    }
    let mut mantissa = 0u64;
    let mut point = None;
    for (at, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => mantissa = mantissa * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() && at > 0 => point = Some(at),
            _ => return None,
        }
    }
    let decimals = point.map_or(0, |at| digits.len() - at - 1);
    if digits.is_empty() || point.is_some_and(|_| decimals == 0) || mantissa > 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / EXACT_POWERS.get(decimals)?;
    Some(if negative { -value } else { value })
}

/// A whole number.
#[inline]
pub(super) fn parse_whole(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    let mut value = 0i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(byte - b'0');
    }
    Some(if negative { -value } else { value })
}

/// A value written as a string: what JSON has no number for, and numbers, too.
pub(super) fn parse_word(text: &str) -> Option<f64> {
    if let Some(bits) = text.strip_prefix("NaN:0x") {
        let bits = u64::from_str_radix(bits, 16).ok()?;
        return f64::from_bits(bits).is_nan().then(|| f64::from_bits(bits));
    }
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("StaleNaN") {
        Some(f64::from_bits(STALE_NAN_BITS))
    } else if is("NaN") {
        Some(f64::from_bits(NORMAL_NAN_BITS))
    } else if is("Inf") || is("+Inf") || is("Infinity") || is("+Infinity") {
        Some(f64::INFINITY)
    } else if is("-Inf") || is("-Infinity") {
        Some(f64::NEG_INFINITY)
    } else if text.bytes().all(is_number_byte) {
        parse_number(text.as_bytes())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_the_standard_library_reads_it(text in "-?[0-9]{1,12}(\\.[0-9]{1,8})?") {
            let expected: f64 = text.parse().unwrap();
            let value = parse_number(text.as_bytes()).unwrap();
            prop_assert_eq!(value.to_bits(), expected.to_bits());
        }

        #[test]
        fn any_float_reads_back(value: f64) {
            let text = format!("{value}");
            if value.is_finite() {
                prop_assert_eq!(parse_number(text.as_bytes()).unwrap().to_bits(), value.to_bits());
            }
        }

        #[test]
        fn whole_numbers_read_back(value: i64) {
            prop_assert_eq!(parse_whole(value.to_string().as_bytes()), Some(value));
        }
    }

    #[test]
    fn what_is_no_number() {
        for text in ["", "-", ".", "1.", ".5e", "1e", "--1", "1-2", "1.2.3", "+"] {
            let parsed = parse_number(text.as_bytes());
            let expected = text.parse::<f64>().ok();
            assert_eq!(parsed, expected, "{text:?}");
        }
        for text in ["", "-", "1.0", "1e3", "99999999999999999999"] {
            assert_eq!(parse_whole(text.as_bytes()), None, "{text:?}");
        }
        for text in ["", "nope", "NaN:0x7ff0000000000000", "NaN:1", "inf1"] {
            assert!(parse_word(text).is_none(), "{text:?}");
        }
        assert_eq!(parse_word("-infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_word("1.5"), Some(1.5));
    }
}
