//! The upper bound of a classic bucket, as the label `le` writes it.

/// Reads a decimal number as Go's `strconv.ParseFloat` does; hexadecimal ones name no bucket.
pub(super) fn bucket_bound(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_infinity =
        unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity");
    let is_nan = text.eq_ignore_ascii_case("nan");
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !(is_infinity || is_nan || is_number) {
        return None;
    }
    let bound: f64 = text.parse().ok()?;
    // A number too large for a float is an error, not infinity.
    (is_infinity || !bound.is_infinite()).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_go_reads_them() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("1.0", Some(1.0)),
            ("+0.1", Some(0.1)),
            ("-5e-3", Some(-0.005)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("+Inf", Some(f64::INFINITY)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("1e-999", Some(0.0)),
            ("1e999", None),
            ("", None),
            ("+", None),
            (".", None),
            (" 1", None),
            ("1 ", None),
            ("Hello World", None),
            ("+NaN", None),
            ("1e", None),
        ] {
            assert_eq!(bucket_bound(text), expected, "{text:?}");
        }
        assert!(bucket_bound("NaN").is_some_and(f64::is_nan));
    }
}
