//! The value of a quantile's label: a float as OpenMetrics writes it.

/// Shortest digits, with an exponent below 1e-4 and from 1e6 on, and never without a point or
/// exponent (`1.0`).
pub(super) fn quantile_label(quantile: f64) -> String {
    if quantile.is_nan() {
        return "NaN".to_string();
    }
    if quantile.is_infinite() {
        return if quantile > 0.0 { "+Inf" } else { "-Inf" }.to_string();
    }
    if quantile == 0.0 {
        return "0.0".to_string();
    }
    let scientific = format!("{quantile:e}");
    let (digits, exponent) = match scientific.split_once('e') {
        Some((digits, exponent)) => (digits, exponent.parse().unwrap_or(0)),
        None => (scientific.as_str(), 0),
    };
    match exponent {
        -4..6 => format!("{quantile:?}"),
        6.. => format!("{digits}e+{exponent:02}"),
        _ => format!("{digits}e-{:02}", -exponent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_open_metrics_writes_it() {
        for (quantile, expected) in [
            (0.0, "0.0"),
            (-0.0, "0.0"),
            (1.0, "1.0"),
            (-1.0, "-1.0"),
            (0.25, "0.25"),
            (-0.1, "-0.1"),
            (1.01, "1.01"),
            (2.0, "2.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000012, "1.2e-05"),
            (123456.0, "123456.0"),
            (1e6, "1e+06"),
            (1234567.5, "1.2345675e+06"),
            (1e100, "1e+100"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(quantile_label(quantile), expected);
        }
    }
}
