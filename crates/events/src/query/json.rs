//! Small pieces of JSON text.

use std::fmt::Write;

pub(crate) use crate::json_text::push_string;
use crate::time_text::time_text as text_of_ns;

/// A moment as answers have it.
pub(crate) fn time_text(at_s: i64) -> String {
    text_of_ns(at_s.saturating_mul(1_000_000_000))
}

/// A number; what JSON has no number for is null.
pub(crate) fn push_number(out: &mut String, value: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !value.is_finite() {
        out.push_str("null");
    } else if value.fract() == 0.0 && value.abs() <= EXACT {
        push_integer(out, value as i64);
    } else {
        out.push_str(zmij::Buffer::new().format_finite(value));
    }
}

/// A whole number. Answers have hundreds of thousands of them, most with one or two digits, and
/// formatting machinery takes longer than their digits.
pub(crate) fn push_integer(out: &mut String, value: i64) {
    /// As many as the smallest number has, and its sign.
    const DIGITS_MAX: usize = 20;
    let mut text = [b'0'; DIGITS_MAX];
    let mut left = value.unsigned_abs();
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    out.push_str(std::str::from_utf8(&text[at..]).expect("digits are ASCII"));
}

pub(crate) fn push_optional(out: &mut String, value: Option<f64>) {
    push_number(out, value.unwrap_or(f64::NAN));
}

/// Writing to a string does not fail.
pub(crate) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// Writes elements with commas between them.
pub(crate) fn push_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut String, T),
) {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        each(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_written_as_they_are() {
        for value in [0, 1, -1, 9, 10, -10, 12_345, i64::MAX, i64::MIN] {
            let mut out = String::new();
            push_integer(&mut out, value);
            assert_eq!(out, value.to_string());
        }
    }

    #[test]
    fn numbers_are_as_short_as_can_be() {
        for (value, written) in [
            (0.0, "0"),
            (-3.0, "-3"),
            (41.5, "41.5"),
            (1e300, "1e+300"),
            (f64::NAN, "null"),
            (f64::INFINITY, "null"),
        ] {
            let mut out = String::new();
            push_number(&mut out, value);
            assert_eq!(out, written);
        }
    }
}
