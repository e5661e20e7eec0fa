//! The functions of the language: names, arguments, results.
//!
//! Holds always: the table is sorted by name.

use super::ast::ValueType::{self, Matrix, Scalar, String, Vector};

/// The signature of a function.
#[derive(Debug, PartialEq, Eq)]
pub struct Signature {
    pub name: &'static str,
    /// The types of the arguments; further ones have the type of the last.
    pub args: &'static [ValueType],
    /// As in Prometheus: 0 for exactly `args`; else the last of `args` is optional and may be
    /// repeated up to `variadic` times, with −1 any number of times.
    pub variadic: i32,
    pub returns: ValueType,
    pub experimental: bool,
}

/// Finds a function by its name.
pub fn function(name: &str) -> Option<&'static Signature> {
    let place = FUNCTIONS.binary_search_by(|function| function.name.cmp(name));
    place.ok().and_then(|place| FUNCTIONS.get(place))
}

impl Signature {
    const fn new(name: &'static str, args: &'static [ValueType], returns: ValueType) -> Self {
        Self {
            name,
            args,
            variadic: 0,
            returns,
            experimental: false,
        }
    }

    const fn variadic(self, variadic: i32) -> Self {
        Self { variadic, ..self }
    }

    const fn experimental(self) -> Self {
        Self {
            experimental: true,
            ..self
        }
    }

    /// The type of the argument at an index.
    pub fn arg_type(&self, place: usize) -> Option<ValueType> {
        match self.args.get(place) {
            Some(wanted) => Some(*wanted),
            None if self.variadic == 0 => None,
            None => self.args.last().copied(),
        }
    }
}

/// All functions, sorted by name.
pub static FUNCTIONS: &[Signature] = &[
    Signature::new("abs", &[Vector], Vector),
    Signature::new("absent", &[Vector], Vector),
    Signature::new("absent_over_time", &[Matrix], Vector),
    Signature::new("acos", &[Vector], Vector),
    Signature::new("acosh", &[Vector], Vector),
    Signature::new("asin", &[Vector], Vector),
    Signature::new("asinh", &[Vector], Vector),
    Signature::new("atan", &[Vector], Vector),
    Signature::new("atanh", &[Vector], Vector),
    Signature::new("avg_over_time", &[Matrix], Vector),
    Signature::new("ceil", &[Vector], Vector),
    Signature::new("changes", &[Matrix], Vector),
    Signature::new("clamp", &[Vector, Scalar, Scalar], Vector),
    Signature::new("clamp_max", &[Vector, Scalar], Vector),
    Signature::new("clamp_min", &[Vector, Scalar], Vector),
    Signature::new("cos", &[Vector], Vector),
    Signature::new("cosh", &[Vector], Vector),
    Signature::new("count_over_time", &[Matrix], Vector),
    Signature::new("day_of_month", &[Vector], Vector).variadic(1),
    Signature::new("day_of_week", &[Vector], Vector).variadic(1),
    Signature::new("day_of_year", &[Vector], Vector).variadic(1),
    Signature::new("days_in_month", &[Vector], Vector).variadic(1),
    Signature::new("deg", &[Vector], Vector),
    Signature::new("delta", &[Matrix], Vector),
    Signature::new("deriv", &[Matrix], Vector),
    Signature::new(
        "double_exponential_smoothing",
        &[Matrix, Scalar, Scalar],
        Vector,
    )
    .experimental(),
    Signature::new("end", &[], Scalar).experimental(),
    Signature::new("exp", &[Vector], Vector),
    Signature::new("first_over_time", &[Matrix], Vector).experimental(),
    Signature::new("floor", &[Vector], Vector),
    Signature::new("histogram_avg", &[Vector], Vector),
    Signature::new("histogram_count", &[Vector], Vector),
    Signature::new("histogram_fraction", &[Scalar, Scalar, Vector], Vector),
    Signature::new("histogram_quantile", &[Scalar, Vector], Vector),
    Signature::new(
        "histogram_quantiles",
        &[Vector, String, Scalar, Scalar],
        Vector,
    )
    .variadic(9)
    .experimental(),
    Signature::new("histogram_stddev", &[Vector], Vector),
    Signature::new("histogram_stdvar", &[Vector], Vector),
    Signature::new("histogram_sum", &[Vector], Vector),
    Signature::new("hour", &[Vector], Vector).variadic(1),
    Signature::new("idelta", &[Matrix], Vector),
    Signature::new("increase", &[Matrix], Vector),
    Signature::new("info", &[Vector, Vector], Vector)
        .variadic(1)
        .experimental(),
    Signature::new("irate", &[Matrix], Vector),
    Signature::new("label_join", &[Vector, String, String, String], Vector).variadic(-1),
    Signature::new(
        "label_replace",
        &[Vector, String, String, String, String],
        Vector,
    ),
    Signature::new("last_over_time", &[Matrix], Vector),
    Signature::new("ln", &[Vector], Vector),
    Signature::new("log10", &[Vector], Vector),
    Signature::new("log2", &[Vector], Vector),
    Signature::new("mad_over_time", &[Matrix], Vector).experimental(),
    Signature::new("max_of", &[Scalar, Scalar], Scalar).experimental(),
    Signature::new("max_over_time", &[Matrix], Vector),
    Signature::new("min_of", &[Scalar, Scalar], Scalar).experimental(),
    Signature::new("min_over_time", &[Matrix], Vector),
    Signature::new("minute", &[Vector], Vector).variadic(1),
    Signature::new("month", &[Vector], Vector).variadic(1),
    Signature::new("pi", &[], Scalar),
    Signature::new("predict_linear", &[Matrix, Scalar], Vector),
    Signature::new("present_over_time", &[Matrix], Vector),
    Signature::new("quantile_over_time", &[Scalar, Matrix], Vector),
    Signature::new("rad", &[Vector], Vector),
    Signature::new("range", &[], Scalar).experimental(),
    Signature::new("rate", &[Matrix], Vector),
    Signature::new("resets", &[Matrix], Vector),
    Signature::new("round", &[Vector, Scalar], Vector).variadic(1),
    Signature::new("scalar", &[Vector], Scalar),
    Signature::new("sgn", &[Vector], Vector),
    Signature::new("sin", &[Vector], Vector),
    Signature::new("sinh", &[Vector], Vector),
    Signature::new("sort", &[Vector], Vector),
    Signature::new("sort_by_label", &[Vector, String], Vector)
        .variadic(-1)
        .experimental(),
    Signature::new("sort_by_label_desc", &[Vector, String], Vector)
        .variadic(-1)
        .experimental(),
    Signature::new("sort_desc", &[Vector], Vector),
    Signature::new("sqrt", &[Vector], Vector),
    Signature::new("start", &[], Scalar).experimental(),
    Signature::new("start_timestamp", &[Vector], Vector).experimental(),
    Signature::new("stddev_over_time", &[Matrix], Vector),
    Signature::new("stdvar_over_time", &[Matrix], Vector),
    Signature::new("step", &[], Scalar).experimental(),
    Signature::new("sum_over_time", &[Matrix], Vector),
    Signature::new("tan", &[Vector], Vector),
    Signature::new("tanh", &[Vector], Vector),
    Signature::new("time", &[], Scalar),
    Signature::new("timestamp", &[Vector], Vector),
    Signature::new("ts_of_first_over_time", &[Matrix], Vector).experimental(),
    Signature::new("ts_of_last_over_time", &[Matrix], Vector).experimental(),
    Signature::new("ts_of_max_over_time", &[Matrix], Vector).experimental(),
    Signature::new("ts_of_min_over_time", &[Matrix], Vector).experimental(),
    Signature::new("vector", &[Scalar], Vector),
    Signature::new("year", &[Vector], Vector).variadic(1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found() {
        assert!(FUNCTIONS.is_sorted_by(|a, b| a.name < b.name));
        for signature in FUNCTIONS {
            assert_eq!(function(signature.name), Some(signature));
        }
        assert_eq!(function("no_such_function"), None);
    }
}
