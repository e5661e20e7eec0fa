//! Numbers as the query API writes them.
//!
//! Go decides the digits (shortest that read back as the same bits) and the forms: `1e+21`,
//! `1e-07`, `+Inf`. Between them a value is written without exponent.

use crate::prometheus::number::push_unsigned;

/// Whole numbers below this have all their digits in the mantissa.
const WHOLE_MAX: f64 = 9.0e15;

/// Appends a value of a sample: an exponent from 10^21 on and below 10^−6.
pub fn push_sample_number(out: &mut Vec<u8>, value: f64) {
    let magnitude = value.abs();
    // Whole numbers are much of what there is, and their digits need no search for the shortest.
    if magnitude < WHOLE_MAX && magnitude.trunc() == magnitude {
        push_whole(out, value);
    } else if !value.is_finite() {
        push_not_finite(out, value);
    } else {
        let mut buffer = zmij::Buffer::new();
        let written = buffer.format_finite(value).as_bytes();
        if !written.contains(&b'e') {
            // Without an exponent it has a fraction, except where the number is large and whole.
            out.extend_from_slice(written.strip_suffix(b".0").unwrap_or(written));
        } else if (1e-6..1e21).contains(&magnitude) {
            push_plain(out, written);
        } else {
            push_exponent(out, written);
        }
    }
}

/// Appends the value of a scalar, which Prometheus writes without exponent however long it gets.
pub fn push_scalar_number(out: &mut Vec<u8>, value: f64) {
    let magnitude = value.abs();
    if !value.is_finite() {
        push_not_finite(out, value);
    } else if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        push_sample_number(out, value);
    } else {
        let mut buffer = zmij::Buffer::new();
        push_plain(out, buffer.format_finite(value).as_bytes());
    }
}

/// Appends a time in seconds, with milliseconds as three digits where there are any.
pub fn push_timestamp(out: &mut Vec<u8>, time_ms: i64) {
    if time_ms < 0 {
        out.push(b'-');
    }
    let magnitude = time_ms.unsigned_abs();
    push_unsigned(out, magnitude / 1000);
    let fraction = (magnitude % 1000) as u16;
    if fraction != 0 {
        let digit = |n: u16| b'0' + (n % 10) as u8;
        let text = [
            b'.',
            digit(fraction / 100),
            digit(fraction / 10),
            digit(fraction),
        ];
        out.extend_from_slice(&text);
    }
}

/// Appends a time in seconds in the shortest form, as scalars, strings and statistics have it.
pub fn push_short_timestamp(out: &mut Vec<u8>, time_ms: i64) {
    push_timestamp(out, time_ms);
    if time_ms % 1000 != 0 {
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

fn push_whole(out: &mut Vec<u8>, value: f64) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    push_unsigned(out, value.abs() as u64);
}

fn push_not_finite(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(if value.is_nan() {
        b"NaN"
    } else if value > 0.0 {
        b"+Inf"
    } else {
        b"-Inf"
    });
}

/// A number in scientific form, taken apart: sign, digits, and the exponent of the first digit.
struct Scientific<'a> {
    negative: bool,
    first: u8,
    rest: &'a [u8],
    exponent: i32,
}

fn scientific(written: &[u8]) -> Scientific<'_> {
    let (negative, written) = match written.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, written),
    };
    let at = written.iter().position(|byte| *byte == b'e');
    let (digits, exponent) = written.split_at(at.unwrap_or(written.len()));
    let exponent = std::str::from_utf8(exponent.get(1..).unwrap_or_default());
    Scientific {
        negative,
        first: digits.first().copied().unwrap_or(b'0'),
        // The point follows the first digit, if there are more.
        rest: digits.get(2..).unwrap_or_default(),
        exponent: exponent
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
    }
}

/// Writes a number in scientific form without its exponent.
fn push_plain(out: &mut Vec<u8>, written: &[u8]) {
    let number = scientific(written);
    if number.negative {
        out.push(b'-');
    }
    if number.exponent < 0 {
        out.extend_from_slice(b"0.");
        let zeros = number.exponent.unsigned_abs() as usize - 1;
        out.resize(out.len() + zeros, b'0');
        out.push(number.first);
        out.extend_from_slice(number.rest);
        return;
    }
    let exponent = number.exponent as usize;
    out.push(number.first);
    match number.rest.split_at_checked(exponent) {
        Some((whole, fraction)) => {
            out.extend_from_slice(whole);
            if !fraction.is_empty() {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        }
        None => {
            out.extend_from_slice(number.rest);
            out.resize(out.len() + exponent - number.rest.len(), b'0');
        }
    }
}

/// Writes a number in scientific form as Go does: the exponent has a sign and at least two digits.
fn push_exponent(out: &mut Vec<u8>, written: &[u8]) {
    let number = scientific(written);
    if number.negative {
        out.push(b'-');
    }
    out.push(number.first);
    if !number.rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(number.rest);
    }
    out.extend_from_slice(if number.exponent < 0 { b"e-" } else { b"e+" });
    let exponent = number.exponent.unsigned_abs();
    if exponent < 10 {
        out.push(b'0');
    }
    push_unsigned(out, exponent.into());
}

#[cfg(test)]
mod tests {
    use icecore_model::go_plain_float;
    use proptest::prelude::*;

    use super::*;

    fn written(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn sample(value: f64) -> String {
        written(|out| push_sample_number(out, value))
    }

    fn scalar(value: f64) -> String {
        written(|out| push_scalar_number(out, value))
    }

    #[test]
    fn forms_of_go() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (0.000_012_5, "0.0000125"),
            (1e-6, "0.000001"),
            (-1.25e-6, "-0.00000125"),
            (1e-7, "1e-07"),
            (-1.5e-300, "-1.5e-300"),
            (5e-324, "5e-324"),
            (1e15, "1000000000000000"),
            (1.234_567_890_123_456_7e16, "12345678901234568"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1e20, "100000000000000000000"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e21, "1e+21"),
            (-1.5e100, "-1.5e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
            (-f64::NAN, "NaN"),
        ] {
            assert_eq!(sample(value), text);
        }
    }

    #[test]
    fn scalars_have_no_exponent() {
        for (value, text) in [
            (1e21, "1000000000000000000000"),
            (-1.25e22, "-12500000000000000000000"),
            (1e-7, "0.0000001"),
            (-0.0, "-0"),
            (0.5, "0.5"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(scalar(value), text);
        }
        assert_eq!(scalar(f64::MAX).len(), 309);
    }

    #[test]
    fn timestamps() {
        for (ms, long, short) in [
            (0, "0", "0"),
            (1_435_781_451_781, "1435781451.781", "1435781451.781"),
            (1_435_781_451_000, "1435781451", "1435781451"),
            (1_435_781_451_100, "1435781451.100", "1435781451.1"),
            (1_010, "1.010", "1.01"),
            (10_000, "10", "10"),
            (7, "0.007", "0.007"),
            (-1, "-0.001", "-0.001"),
            (i64::MIN, "-9223372036854775.808", "-9223372036854775.808"),
        ] {
            assert_eq!(written(|out| push_timestamp(out, ms)), long);
            assert_eq!(written(|out| push_short_timestamp(out, ms)), short);
        }
    }

    proptest! {
        #[test]
        fn every_number_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                for text in [sample(value), scalar(value)] {
                    prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
                }
                prop_assert!(sample(value).len() <= 25);
                prop_assert!(!scalar(value).contains('e'));
            }
        }

        #[test]
        fn digits_are_the_shortest(value in -1e9f64..1e9) {
            prop_assume!(value == 0.0 || value.abs() >= 1e-6);
            prop_assert_eq!(sample(value), go_plain_float(value));
        }
    }
}
