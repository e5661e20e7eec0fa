//! Values of attributes as metrics read them.

use std::borrow::Cow;

use super::metrics::SkipReason;
use crate::dimension::{DimensionHasher, dimension_text};
use crate::time_text::parse_time;
use crate::{Comparison, Filter, Metric, Scalar, StoredEvent, Value};

/// Bytes of the value of a dimension; a longer one counts as missing. All values of a set are one
/// record, whose size the store limits.
const DIMENSION_BYTES_MAX: usize = 32 << 10;

/// What a metric finds at paths of an event: attributes, and the one that the metric itself makes
/// of a number.
pub(super) struct Lookup<'a> {
    metric: &'a Metric,
    event: &'a StoredEvent<'a>,
    /// The attribute that is made by ranges of a number.
    made: Option<Value<'a>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(metric: &'a Metric, event: &'a StoredEvent<'a>) -> Self {
        let made = metric.fold.as_ref().and_then(|fold| {
            let number = number(event.attributes.get(&fold.source)?)?;
            let rule = fold.rules.iter().find(|rule| {
                rule.from.is_none_or(|from| number >= from)
                    && rule.below.is_none_or(|below| number < below)
            })?;
            Some(Value::Scalar(Scalar::Text(Cow::Borrowed(&rule.output))))
        });
        Self {
            metric,
            event,
            made,
        }
    }

    fn get(&self, path: &str) -> Option<&Value<'a>> {
        match &self.metric.fold {
            Some(fold) if fold.target == path => self.made.as_ref(),
            _ => self.event.attributes.get(path),
        }
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        number(self.get(path)?)
    }

    /// `None` if there is nothing at the path.
    pub(super) fn time_ns(&self, path: &str) -> Result<Option<i64>, SkipReason> {
        let time = match self.get(path) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Scalar(Scalar::Integer(ns))) => Some(*ns),
            Some(Value::Scalar(Scalar::Text(text))) => parse_time(text),
            Some(_) => None,
        };
        time.map(Some).ok_or(SkipReason::BadValue)
    }

    /// Adds the value of a dimension; false if there is none.
    pub(super) fn push_dimension(&self, path: &str, hasher: &mut DimensionHasher) -> bool {
        // The dimension of a built-in metric is no attribute.
        if self.metric.built_in {
            hasher.push(path, &self.event.outcome);
            return true;
        }
        let text = self.get(path).and_then(dimension_text);
        let text = text.filter(|text| text.len() <= DIMENSION_BYTES_MAX);
        if let Some(text) = &text {
            hasher.push(path, text);
        }
        text.is_some()
    }

    /// Whether the attribute of a filter is there and compares as it says; of a list any element.
    pub(super) fn satisfies(&self, filter: &Filter) -> bool {
        match self.get(&filter.path) {
            None | Some(Value::Null | Value::Json(_)) => false,
            Some(Value::Scalar(scalar)) => compares(&filter.comparison, scalar),
            Some(Value::List(list)) => {
                let mut elements = list.iter();
                elements.any(|scalar| compares(&filter.comparison, scalar))
            }
        }
    }
}

fn compares(comparison: &Comparison, scalar: &Scalar<'_>) -> bool {
    let number = || scalar_number(scalar);
    match comparison {
        Comparison::Equal(other) => equal(scalar, other),
        Comparison::NotEqual(other) => !equal(scalar, other),
        Comparison::Greater(bound) => number().is_some_and(|number| number > *bound),
        Comparison::GreaterOrEqual(bound) => number().is_some_and(|number| number >= *bound),
        Comparison::Less(bound) => number().is_some_and(|number| number < *bound),
        Comparison::LessOrEqual(bound) => number().is_some_and(|number| number <= *bound),
        Comparison::In(others) => others.iter().any(|other| equal(scalar, other)),
    }
}

/// `1` and `1.0` are equal, `1` and `"1"` are not.
fn equal(a: &Scalar<'_>, b: &Scalar<'_>) -> bool {
    match (a, b) {
        (Scalar::Text(a), Scalar::Text(b)) => a == b,
        (Scalar::Boolean(a), Scalar::Boolean(b)) => a == b,
        (Scalar::Integer(a), Scalar::Integer(b)) => a == b,
        (Scalar::Integer(a), Scalar::Number(b)) | (Scalar::Number(b), Scalar::Integer(a)) => {
            *a as f64 == *b
        }
        (Scalar::Number(a), Scalar::Number(b)) => a == b,
        _ => false,
    }
}

/// A number, or text that reads as one; neither NaN nor infinite.
pub(super) fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Scalar(scalar) => scalar_number(scalar),
        _ => None,
    }
}

fn scalar_number(scalar: &Scalar<'_>) -> Option<f64> {
    let number = match scalar {
        Scalar::Integer(number) => *number as f64,
        Scalar::Number(number) => *number,
        Scalar::Text(text) => text.trim().parse().ok()?,
        Scalar::Boolean(_) => return None,
    };
    number.is_finite().then_some(number)
}

/// The text of a single value.
pub(super) fn text<'a>(value: &'a Value<'_>) -> Option<Cow<'a, str>> {
    match value {
        Value::Scalar(scalar) => Some(scalar.to_text()),
        _ => None,
    }
}
