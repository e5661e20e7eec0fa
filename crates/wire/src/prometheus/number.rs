//! Numbers as text: the shortest decimal form that reads back as the same bits.

use std::io::Write;

/// Appends a finite number as JSON, −0 with its sign. Like Go's encoder: an exponent from 10^21 on
/// and below 10^−6.
pub(crate) fn push_json_number(out: &mut Vec<u8>, value: f64) {
    debug_assert!(value.is_finite(), "JSON has no word for infinity and NaN");
    let magnitude = value.abs();
    // Whole numbers are most of what there is, and their digits need no search for the shortest.
    if magnitude < 9.0e15 && magnitude.trunc() == magnitude {
        if value.is_sign_negative() {
            out.push(b'-');
        }
        push_unsigned(out, magnitude as u64);
    } else if (1e-6..1e21).contains(&magnitude) {
        push_formatted(out, format_args!("{value}"));
    } else {
        push_formatted(out, format_args!("{value:e}"));
    }
}

/// Appends any number as the text exposition format writes it.
pub(crate) fn push_text_number(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    } else {
        push_json_number(out, value);
    }
}

pub(crate) fn push_formatted(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}

pub(crate) fn push_unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

pub(crate) fn push_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_unsigned(out, value.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn json(value: f64) -> String {
        written(|out| push_json_number(out, value))
    }

    #[test]
    fn known_forms() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (1_700_000_000.123, "1700000000.123"),
            (1e15, "1000000000000000"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1e20, "100000000000000000000"),
            (1e21, "1e21"),
            (-1.5e300, "-1.5e300"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        ] {
            assert_eq!(json(value), text);
        }
        assert_eq!(written(|out| push_text_number(out, f64::INFINITY)), "+Inf");
        assert_eq!(
            written(|out| push_text_number(out, f64::NEG_INFINITY)),
            "-Inf"
        );
        assert_eq!(written(|out| push_text_number(out, f64::NAN)), "NaN");
    }

    proptest! {
        #[test]
        fn every_finite_number_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                let text = json(value);
                prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
                prop_assert!(text.len() <= 25, "{}", text);
            }
        }

        #[test]
        fn integers_are_whole(value: i64) {
            prop_assert_eq!(written(|out| push_signed(out, value)), value.to_string());
            let unsigned = value as u64;
            prop_assert_eq!(written(|out| push_unsigned(out, unsigned)), unsigned.to_string());
        }
    }
}
