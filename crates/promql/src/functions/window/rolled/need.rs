//! What functions need of windows, and how well windows answer them.

use icecore_model::rollup::WindowFields;

use super::super::rate::RateKind;
use super::super::table::{Kernel, WindowFunction};
use super::super::transitions::Transition;

/// What a function or selector needs of windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowNeed {
    pub(crate) fields: WindowFields,
    /// Windows can answer it as well as samples.
    pub(crate) is_exact: bool,
}

impl WindowNeed {
    /// The latest sample.
    pub(crate) const LATEST: Self = Self::exact(WindowFields::COUNTS.with(WindowFields::LAST));
    /// The samples around a moment.
    pub(crate) const AROUND: Self = Self::exact(Self::LATEST.fields.with(WindowFields::FIRST));
    /// Samples that are left, as they are.
    pub(crate) const SAMPLES: Self = Self {
        is_exact: false,
        ..Self::AROUND
    };

    const fn exact(fields: WindowFields) -> Self {
        Self {
            fields,
            is_exact: true,
        }
    }
}

/// How well windows answer a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Derivation {
    Exact,
    /// Within known bounds.
    Estimate,
    /// Hardly better than a guess.
    Impossible,
}

impl WindowFunction {
    /// What it needs; `first` is its first argument, if that is a number.
    pub(crate) fn need(&self, first: Option<f64>) -> WindowNeed {
        let is_exact = match self.kernel {
            Kernel::Quantile => matches!(first, Some(0.0 | 1.0)),
            kernel => kernel.derivation(WindowFields::ALL) == Derivation::Exact,
        };
        WindowNeed {
            fields: self.kernel.fields(),
            is_exact,
        }
    }
}

impl Kernel {
    /// The columns that the function reads.
    pub(super) fn fields(self) -> WindowFields {
        self.required_fields() | self.optional_fields()
    }

    /// The columns without which a window says nothing to the function.
    pub(super) fn required_fields(self) -> WindowFields {
        let of_kernel = match self {
            Self::Count | Self::Present => WindowFields::NONE,
            Self::Rate(_) | Self::InstantRate { .. } | Self::Transitions(_) => {
                WindowFields::FIRST | WindowFields::LAST
            }
            Self::Derivative | Self::Prediction => {
                WindowFields::FIRST | WindowFields::LAST | WindowFields::SUM
            }
            Self::Sum
            | Self::Average
            | Self::Deviation
            | Self::Variance
            | Self::MedianDeviation
            | Self::DoubleExponentialSmoothing => WindowFields::SUM,
            Self::Minimum => WindowFields::MIN,
            Self::Maximum => WindowFields::MAX,
            Self::TimeOfMinimum => WindowFields::MIN | WindowFields::FIRST | WindowFields::LAST,
            Self::TimeOfMaximum => WindowFields::MAX | WindowFields::FIRST | WindowFields::LAST,
            Self::First | Self::TimeOfFirst => WindowFields::FIRST,
            Self::Last | Self::TimeOfLast => WindowFields::LAST,
            Self::Quantile => WindowFields::SUM | WindowFields::MIN | WindowFields::MAX,
        };
        of_kernel | WindowFields::COUNTS
    }

    /// The columns without which the answer is a guess.
    fn optional_fields(self) -> WindowFields {
        match self {
            Self::Rate(RateKind { counter: true, .. }) | Self::InstantRate { per_second: true } => {
                WindowFields::CORRECTION
            }
            Self::Transitions(Transition::Reset) => WindowFields::RESETS,
            Self::Transitions(Transition::Change) => WindowFields::CHANGES,
            Self::Deviation | Self::Variance => WindowFields::M2,
            _ => WindowFields::NONE,
        }
    }

    /// Whether windows of histograms answer only by an estimate. They keep all that there is, and
    /// the other functions that are estimated know nothing of histograms.
    pub(super) fn estimates_histograms(self) -> bool {
        matches!(self, Self::InstantRate { .. })
    }

    /// How well windows with these columns answer. Quantiles depend on the quantile, too.
    pub(super) fn derivation(self, kept: WindowFields) -> Derivation {
        if !kept.contains(self.fields()) {
            return Derivation::Impossible;
        }
        match self {
            Self::InstantRate { .. }
            | Self::Derivative
            | Self::Prediction
            | Self::TimeOfMinimum
            | Self::TimeOfMaximum => Derivation::Estimate,
            Self::MedianDeviation | Self::DoubleExponentialSmoothing => Derivation::Impossible,
            _ => Derivation::Exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::window_function;
    use super::*;

    #[test]
    fn lean_levels_lack_what_some_functions_need() {
        let lean = WindowFields::ALL.without(WindowFields::M2 | WindowFields::CHANGES);
        let of = |name| window_function(name).unwrap().kernel.derivation(lean);
        assert_eq!(of("stddev_over_time"), Derivation::Impossible);
        assert_eq!(of("changes"), Derivation::Impossible);
        assert_eq!(of("rate"), Derivation::Exact);
        assert_eq!(of("irate"), Derivation::Estimate);
        assert_eq!(of("mad_over_time"), Derivation::Impossible);
    }

    #[test]
    fn extreme_quantiles_are_exact() {
        let quantile = window_function("quantile_over_time").unwrap();
        assert!(quantile.need(Some(0.0)).is_exact && quantile.need(Some(1.0)).is_exact);
        assert!(!quantile.need(Some(0.5)).is_exact && !quantile.need(None).is_exact);
        assert!(!window_function("deriv").unwrap().need(None).is_exact);
    }
}
