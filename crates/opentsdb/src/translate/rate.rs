//! Rates: the change between two intervals for each second.

use super::promql::Vector;
use crate::query::RateOptions;

/// The rate between two values that are so many seconds apart.
pub(super) fn rate(
    options: &RateOptions,
    value: &Vector,
    previous: &Vector,
    seconds: &str,
) -> Vector {
    let (value, previous) = (value.operand(), previous.operand());
    let change = format!("{value} - {previous}");
    if !options.counter {
        return Vector::binary(format!("({change}) / {seconds}"));
    }
    if options.drop_resets {
        return Vector::binary(format!("({change} >= 0) / {seconds}"));
    }
    let rolled = format!("{} - {previous} + {value}", options.counter_max);
    Vector::binary(if options.reset_value > 0 {
        format!(
            "({change} >= 0) / {seconds} or ({rolled}) / {seconds} <= {} or 0 * ({change})",
            options.reset_value
        )
    } else {
        format!("(({change} >= 0) or ({rolled})) / {seconds}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_start_again() {
        let text = |options| rate(&options, &Vector::atom("v"), &Vector::atom("p"), "60").text;
        let plain = RateOptions::default();
        assert_eq!(text(plain), "(v - p) / 60");
        let counter = RateOptions {
            counter: true,
            counter_max: 100,
            ..plain
        };
        assert_eq!(text(counter), "((v - p >= 0) or (100 - p + v)) / 60");
        let reset = RateOptions {
            reset_value: 5,
            ..counter
        };
        assert_eq!(
            text(reset),
            "(v - p >= 0) / 60 or (100 - p + v) / 60 <= 5 or 0 * (v - p)"
        );
        let dropped = RateOptions {
            drop_resets: true,
            ..counter
        };
        assert_eq!(text(dropped), "(v - p >= 0) / 60");
    }
}
