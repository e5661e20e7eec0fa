//! The window functions by name.

use crate::error::{Error, Result};

use super::rate::RateKind;
use super::transitions::Transition;
use super::windows::WindowMode;

/// A function over range vectors.
#[derive(Debug)]
pub(crate) struct WindowFunction {
    pub(crate) name: &'static str,
    /// The result has the metric name of its series.
    pub(crate) keeps_name: bool,
    pub(super) kernel: Kernel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Rate(RateKind),
    InstantRate { per_second: bool },
    Transitions(Transition),
    Derivative,
    Prediction,
    DoubleExponentialSmoothing,
    Sum,
    Average,
    Minimum,
    Maximum,
    TimeOfMinimum,
    TimeOfMaximum,
    Count,
    Present,
    First,
    Last,
    TimeOfFirst,
    TimeOfLast,
    Deviation,
    Variance,
    Quantile,
    MedianDeviation,
}

impl Kernel {
    pub(super) fn uses_starts(self) -> bool {
        matches!(
            self,
            Self::Rate(RateKind { counter: true, .. })
                | Self::InstantRate { per_second: true }
                | Self::Transitions(Transition::Reset)
        )
    }
}

/// Finds a window function by its name.
pub(crate) fn window_function(name: &str) -> Option<&'static WindowFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Fails if a function does not accept the modifier of its range vector.
pub(crate) fn check_mode(function: &str, mode: WindowMode) -> Result<()> {
    let (modifier, accepting): (_, &[&str]) = match mode {
        WindowMode::Plain => return Ok(()),
        WindowMode::Anchored => (
            "anchored",
            &["changes", "delta", "increase", "rate", "resets"],
        ),
        WindowMode::Smoothed => ("smoothed", &["delta", "increase", "rate"]),
    };
    if accepting.contains(&function) {
        Ok(())
    } else {
        Err(Error::Execution(format!(
            "{modifier} modifier can only be used with: {} - not with {function}",
            accepting.join(", ")
        )))
    }
}

const fn function(name: &'static str, kernel: Kernel) -> WindowFunction {
    WindowFunction {
        name,
        keeps_name: matches!(kernel, Kernel::First | Kernel::Last),
        kernel,
    }
}

const fn rate(name: &'static str, counter: bool, per_second: bool) -> WindowFunction {
    let kind = RateKind {
        counter,
        per_second,
    };
    function(name, Kernel::Rate(kind))
}

static FUNCTIONS: &[WindowFunction] = &[
    rate("rate", true, true),
    rate("increase", true, false),
    rate("delta", false, false),
    function("irate", Kernel::InstantRate { per_second: true }),
    function("idelta", Kernel::InstantRate { per_second: false }),
    function("resets", Kernel::Transitions(Transition::Reset)),
    function("changes", Kernel::Transitions(Transition::Change)),
    function("deriv", Kernel::Derivative),
    function("predict_linear", Kernel::Prediction),
    function(
        "double_exponential_smoothing",
        Kernel::DoubleExponentialSmoothing,
    ),
    function("sum_over_time", Kernel::Sum),
    function("avg_over_time", Kernel::Average),
    function("min_over_time", Kernel::Minimum),
    function("max_over_time", Kernel::Maximum),
    function("ts_of_min_over_time", Kernel::TimeOfMinimum),
    function("ts_of_max_over_time", Kernel::TimeOfMaximum),
    function("count_over_time", Kernel::Count),
    function("present_over_time", Kernel::Present),
    function("first_over_time", Kernel::First),
    function("last_over_time", Kernel::Last),
    function("ts_of_first_over_time", Kernel::TimeOfFirst),
    function("ts_of_last_over_time", Kernel::TimeOfLast),
    function("stddev_over_time", Kernel::Deviation),
    function("stdvar_over_time", Kernel::Variance),
    function("quantile_over_time", Kernel::Quantile),
    function("mad_over_time", Kernel::MedianDeviation),
];
