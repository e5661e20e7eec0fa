//! Floats as Go writes them.

/// A float as Go's `%g` and `%v` write it: shortest digits, an exponent below 1e-4 and from 1e6 on.
pub fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_string();
    }
    let magnitude = value.abs();
    if value == 0.0 || (1e-4..1e6).contains(&magnitude) {
        return format!("{value}");
    }
    let written = format!("{value:e}");
    match written.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, number) = match exponent.strip_prefix('-') {
                Some(number) => ('-', number),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{number:0>2}")
        }
        None => written,
    }
}

/// A float as Go's `%.3g` writes it, with as many digits as given at most, and at least one.
pub fn go_float_of_digits(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return go_float(value);
    }
    let written = format!("{value:.*e}", digits.saturating_sub(1));
    let rounded: f64 = written.parse().unwrap_or(value);
    let exponent = written.split_once('e').map_or("", |(_, exponent)| exponent);
    let exponent: i64 = exponent.parse().unwrap_or(0);
    if (-4..digits as i64).contains(&exponent) {
        format!("{rounded}")
    } else {
        let (mantissa, _) = written.split_once('e').unwrap_or((&written, ""));
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::{go_float, go_float_of_digits};

    #[test]
    fn with_few_digits() {
        let cases = [
            (0.0, "0"),
            (5.5, "5.5"),
            (10.0, "10"),
            (3.3333, "3.3"),
            (99.6, "1e+02"),
            (100.0, "1e+02"),
            (123.0, "1.2e+02"),
            (0.00012345, "0.00012"),
            (0.000012345, "1.2e-05"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(go_float_of_digits(value, 2), expected);
        }
    }

    #[test]
    fn as_go_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (999999.5, "999999.5"),
            (1e6, "1e+06"),
            (1234567.0, "1.234567e+06"),
            (1e21, "1e+21"),
            (1e-4, "0.0001"),
            (1.25e-5, "1.25e-05"),
            (-1e100, "-1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            assert_eq!(go_float(value), expected);
        }
    }
}
