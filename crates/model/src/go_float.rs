//! Floats as Go writes them.
//!
//! Holds always: the digits are the shortest that read back as the same float, and of two that are
//! as near those that end in an even one. The standard library of Rust takes others then.

/// A float as Go's `%g` and `%v` write it: shortest digits, an exponent below 1e-4 and from 1e6 on.
pub fn go_float(value: f64) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let shortest = Shortest::of(value);
    if (-4..6).contains(&shortest.exponent) {
        shortest.plain()
    } else {
        shortest.scientific()
    }
}

/// A float as Go's `FormatFloat(value, 'f', -1, 64)` writes it: shortest digits, never an exponent.
pub fn go_plain_float(value: f64) -> String {
    match not_finite(value) {
        Some(text) => text.to_owned(),
        None => Shortest::of(value).plain(),
    }
}

fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// The shortest digits of a finite float, and where its point is.
struct Shortest {
    is_negative: bool,
    /// Without zeros at the ends.
    digits: String,
    /// The power of ten of the first digit.
    exponent: i32,
}

impl Shortest {
    fn of(value: f64) -> Self {
        let mut buffer = zmij::Buffer::new();
        let written = buffer.format_finite(value);
        let (is_negative, written) = match written.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, written),
        };
        let (mantissa, exponent) = written.split_once('e').unwrap_or((written, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        let leading = digits.len() - digits.trim_start_matches('0').len();
        let significant = digits.trim_matches('0');
        if significant.is_empty() {
            return Self {
                is_negative,
                digits: "0".to_owned(),
                exponent: 0,
            };
        }
        Self {
            is_negative,
            exponent: exponent + whole.len() as i32 - 1 - leading as i32,
            digits: significant.to_owned(),
        }
    }

    fn sign(&self) -> &'static str {
        if self.is_negative { "-" } else { "" }
    }

    fn plain(&self) -> String {
        let (sign, digits) = (self.sign(), &self.digits);
        let Ok(exponent) = usize::try_from(self.exponent) else {
            let zeros = self.exponent.unsigned_abs() as usize - 1;
            return format!("{sign}0.{:0<zeros$}{digits}", "");
        };
        match digits.split_at_checked(exponent + 1) {
            Some((whole, "")) => format!("{sign}{whole}"),
            Some((whole, fraction)) => format!("{sign}{whole}.{fraction}"),
            None => format!("{sign}{digits:0<width$}", width = exponent + 1),
        }
    }

    /// With a sign and two digits of the exponent at least.
    fn scientific(&self) -> String {
        let (first, rest) = self.digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if self.exponent < 0 { '-' } else { '+' };
        let exponent = self.exponent.unsigned_abs();
        format!(
            "{}{first}{point}{rest}e{exponent_sign}{exponent:02}",
            self.sign()
        )
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
    use proptest::prelude::*;

    use super::{go_float, go_float_of_digits, go_plain_float};

    fn check(cases: &[(f64, &str)], write: impl Fn(f64) -> String) {
        for (value, expected) in cases {
            assert_eq!(write(*value), *expected);
        }
    }

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
        check(&cases, |value| go_float_of_digits(value, 2));
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
        check(&cases, go_float);
    }

    #[test]
    fn without_an_exponent() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (-1.5, "-1.5"),
            (100.0, "100"),
            (1e21, "1000000000000000000000"),
            (1.25e-7, "0.000000125"),
            (0.1, "0.1"),
            (1_234_567.875, "1234567.875"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        check(&cases, go_plain_float);
    }

    /// The float lies exactly between the two shortest numbers that read back as it.
    #[test]
    fn of_two_that_are_as_near_the_even_one_is_taken() {
        let value = -(175_248_344.0 + 201.0 / 512.0);
        assert_eq!(go_plain_float(value), "-175248344.39257812");
        assert_eq!(go_float(value), "-1.7524834439257812e+08");
        assert_ne!(go_plain_float(value), format!("{value}"));
    }

    proptest! {
        #[test]
        fn the_shortest_digits_that_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let plain = go_plain_float(value);
            prop_assert_eq!(plain.parse::<f64>().unwrap().to_bits(), bits);
            prop_assert_eq!(plain.len(), format!("{value}").len());
            prop_assert!(!plain.contains('e'));
            prop_assert_eq!(go_float(value).parse::<f64>().unwrap().to_bits(), bits);
        }
    }
}
