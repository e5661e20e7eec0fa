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

#[cfg(test)]
mod tests {
    use super::go_float;

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
