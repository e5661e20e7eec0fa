//! The parameters of aggregations, checked.

use super::Annotate;
use crate::annotations::{Annotation, GoFloat};
use crate::error::{Error, Result};
use crate::exec::ScalarColumn;

/// Numbers from these on are too large or too small for an integer, as in Prometheus.
const TOO_LARGE: f64 = 9_223_372_036_854_774_784.0;
const TOO_SMALL: f64 = -9_223_372_036_854_775_808.0;

/// `k` of `topk`, `bottomk` and `limitk` at each step; `None` if it is less than 1 at all steps.
pub(super) fn counts(number: &ScalarColumn, steps: usize) -> Result<Option<Vec<usize>>> {
    let numbers = || (0..steps).map(|step| number.at(step));
    if numbers().any(f64::is_nan) {
        return Err(Error::Execution("Parameter value is NaN".to_string()));
    }
    let max = numbers().fold(f64::NEG_INFINITY, f64::max);
    if max < 1.0 {
        return Ok(None);
    }
    let min = numbers().fold(f64::INFINITY, f64::min);
    if min <= TOO_SMALL {
        let min = GoFloat(min);
        return Err(Error::Execution(format!(
            "Scalar value {min} underflows int64"
        )));
    }
    if max >= TOO_LARGE {
        let max = GoFloat(max);
        return Err(Error::Execution(format!(
            "Scalar value {max} overflows int64"
        )));
    }
    Ok(Some(
        numbers().map(|value| value.max(0.0) as usize).collect(),
    ))
}

/// The ratios of `limit_ratio`, capped to −1…1; `None` if all are 0.
pub(super) fn ratios(
    number: &ScalarColumn,
    steps: usize,
    annotate: Annotate<'_>,
) -> Result<Option<Vec<f64>>> {
    let numbers = || (0..steps).map(|step| number.at(step));
    if numbers().any(f64::is_nan) {
        return Err(Error::Execution("Ratio value is NaN".to_string()));
    }
    let max = numbers().fold(f64::NEG_INFINITY, f64::max);
    let min = numbers().fold(f64::INFINITY, f64::min);
    let warn = |got: f64, capped: f64| {
        annotate(Annotation::InvalidRatio {
            got: GoFloat(got),
            capped: GoFloat(capped),
        });
    };
    if max > 1.0 {
        warn(max, 1.0);
    }
    if min < -1.0 {
        warn(min, -1.0);
    }
    if max == 0.0 && min == 0.0 {
        return Ok(None);
    }
    Ok(Some(
        numbers().map(|ratio| ratio.clamp(-1.0, 1.0)).collect(),
    ))
}

/// The φ of `quantile`; values outside of 0…1 are allowed and warned about.
pub(super) fn quantiles(
    number: ScalarColumn,
    steps: usize,
    annotate: Annotate<'_>,
) -> ScalarColumn {
    let numbers = || (0..steps).map(|step| number.at(step));
    let warn = |value: f64| annotate(Annotation::InvalidQuantile(GoFloat(value)));
    if numbers().any(f64::is_nan) {
        warn(f64::NAN);
    }
    let max = numbers().fold(f64::NEG_INFINITY, f64::max);
    if max > 1.0 {
        warn(max);
    }
    let min = numbers().fold(f64::INFINITY, f64::min);
    if min < 0.0 {
        warn(min);
    }
    number
}
