//! Comparison of answers with expectations; reports the first difference.

use std::collections::HashSet;

use icecore_model::{Labels, is_stale_nan};

use super::expect::{Expectation, ExpectedAnnotations, ExpectedSeries, ExpectedValue, TimeRange};
use super::histogram;
use super::series::Point;
use crate::histogram::FloatHistogram;
use crate::parse::go_float;
use crate::value::{MatrixSeries, QueryValue, SampleValue, VectorSample};

/// How far floats may be apart, relative to the sum of their magnitudes.
const RELATIVE_ERROR: f64 = 0.000_001;

/// Equal, both NaN, or nearly equal. The staleness marker equals only itself.
pub(crate) fn almost_equal(a: f64, b: f64) -> bool {
    if is_stale_nan(a) || is_stale_nan(b) {
        return is_stale_nan(a) && is_stale_nan(b);
    }
    if a == b || (a.is_nan() && b.is_nan()) {
        return true;
    }
    let magnitude = a.abs() + b.abs();
    let difference = (a - b).abs();
    if a == 0.0 || b == 0.0 || magnitude < f64::MIN_POSITIVE {
        return difference < RELATIVE_ERROR * f64::MIN_POSITIVE;
    }
    difference / magnitude.min(f64::MAX) < RELATIVE_ERROR
}

/// Compares warnings or infos; `kind` names them in messages.
pub(crate) fn check_annotations(
    expected: &ExpectedAnnotations,
    kind: &str,
    annotations: &[String],
) -> Result<(), String> {
    if expected.none && !annotations.is_empty() {
        return Err(format!("expected no {kind}, but got {annotations:?}"));
    }
    if expected.patterns.is_empty() {
        return Ok(());
    }
    let unmet =
        |pattern: &&super::expect::TextPattern| !annotations.iter().any(|n| pattern.matches(n));
    if let Some(pattern) = expected.patterns.iter().find(unmet) {
        return Err(format!(
            "expected a {kind} with {}, but got {annotations:?}",
            pattern.describe()
        ));
    }
    let unexpected =
        |annotation: &&String| !expected.patterns.iter().any(|p| p.matches(annotation));
    match annotations.iter().find(unexpected) {
        Some(annotation) => Err(format!("unexpected {kind} {annotation:?}")),
        None => Ok(()),
    }
}

/// Compares a value. `range` has the times of an expected matrix.
pub(crate) fn check_value(
    expected: &Expectation,
    range: Option<TimeRange>,
    value: &QueryValue,
) -> Result<(), String> {
    match (&expected.value, value) {
        (ExpectedValue::Scalar(want), QueryValue::Scalar { value, .. }) => {
            if almost_equal(*want, *value) {
                Ok(())
            } else {
                Err(format!(
                    "expected the scalar {}, but got {}",
                    go_float(*want),
                    go_float(*value)
                ))
            }
        }
        (ExpectedValue::Text(want), QueryValue::Text { text, .. }) if want == text => Ok(()),
        (ExpectedValue::Series(series), QueryValue::Vector(samples)) => {
            check_vector(series, expected.ordered, samples)
        }
        (ExpectedValue::Series(_), QueryValue::Matrix(_)) if expected.ordered => {
            Err("expected an ordered result, but got a matrix".to_owned())
        }
        (ExpectedValue::Series(series), QueryValue::Matrix(matrix)) => {
            check_matrix(series, range, matrix)
        }
        (want, got) => Err(format!(
            "expected {}, but got {}",
            wanted(want),
            kind_of(got)
        )),
    }
}

fn wanted(expected: &ExpectedValue) -> String {
    match expected {
        ExpectedValue::Series(_) => "series".to_owned(),
        ExpectedValue::Scalar(value) => format!("the scalar {}", go_float(*value)),
        ExpectedValue::Text(text) => format!("the string {text:?}"),
    }
}

fn kind_of(value: &QueryValue) -> String {
    match value {
        QueryValue::Scalar { value, .. } => format!("the scalar {}", go_float(*value)),
        QueryValue::Text { text, .. } => format!("the string {text:?}"),
        QueryValue::Vector(samples) => format!("a vector of {} series", samples.len()),
        QueryValue::Matrix(matrix) => format!("a matrix of {} series", matrix.len()),
    }
}

/// Matches series with expected ones: none may be missing, duplicate or unexpected.
struct Pairing<'a> {
    expected: &'a [ExpectedSeries],
    seen: HashSet<&'a Labels>,
}

impl<'a> Pairing<'a> {
    fn new(expected: &'a [ExpectedSeries]) -> Self {
        Self {
            expected,
            seen: HashSet::new(),
        }
    }

    /// The index and points of the expected series.
    fn find(
        &mut self,
        labels: &'a Labels,
        got: impl FnOnce() -> String,
    ) -> Result<(usize, &'a [Point]), String> {
        if !self.seen.insert(labels) {
            return Err(format!("duplicate {labels} in the result"));
        }
        let place = self.expected.iter().position(|s| s.labels == *labels);
        match place {
            Some(place) => Ok((place, &self.expected[place].points)),
            None => Err(format!("unexpected {labels} in the result, with {}", got())),
        }
    }

    fn finish(self) -> Result<(), String> {
        let missing = self
            .expected
            .iter()
            .find(|s| !self.seen.contains(&s.labels));
        match missing {
            Some(series) => Err(format!(
                "expected {}, which is not in the result",
                series.labels
            )),
            None => Ok(()),
        }
    }
}

fn check_vector(
    expected: &[ExpectedSeries],
    ordered: bool,
    samples: &[VectorSample],
) -> Result<(), String> {
    let mut pairing = Pairing::new(expected);
    for (place, sample) in samples.iter().enumerate() {
        let got = || render_value(&sample.value);
        let (expected_place, points) = pairing.find(&sample.labels, got)?;
        if ordered && place != expected_place {
            return Err(format!(
                "expected {} at place {}, but it is at place {}",
                sample.labels,
                expected_place + 1,
                place + 1
            ));
        }
        let point = points.first().unwrap_or(&Point::Missing);
        let fits = match (point, &sample.value) {
            (Point::Float(want), SampleValue::Float(got)) => almost_equal(*want, *got),
            (Point::Histogram(want), SampleValue::Histogram(got)) => histogram::matches(want, got),
            _ => false,
        };
        if !fits {
            return Err(format!(
                "expected {} {}, but got {}",
                sample.labels,
                render_point(point),
                got()
            ));
        }
    }
    pairing.finish()
}

fn check_matrix(
    expected: &[ExpectedSeries],
    range: Option<TimeRange>,
    matrix: &[MatrixSeries],
) -> Result<(), String> {
    check_sorted(matrix)?;
    let mut pairing = Pairing::new(expected);
    for series in matrix {
        let (_, points) = pairing.find(&series.labels, || render_series(series))?;
        check_points(points, range, series).map_err(|difference| {
            format!(
                "{}: {difference} (the result has {})",
                series.labels,
                render_series(series)
            )
        })?;
    }
    pairing.finish()
}

/// Series of a matrix are in the order of their labels, name and value by name and value.
pub(crate) fn check_sorted(matrix: &[MatrixSeries]) -> Result<(), String> {
    let pairs = matrix.iter().zip(matrix.iter().skip(1));
    for (one, next) in pairs {
        if one.labels.iter().gt(next.labels.iter()) {
            return Err(format!(
                "a matrix is sorted by labels, but {} comes before {}",
                one.labels, next.labels
            ));
        }
    }
    Ok(())
}

fn check_points(
    points: &[Point],
    range: Option<TimeRange>,
    series: &MatrixSeries,
) -> Result<(), String> {
    let (mut floats, mut histograms) = (Vec::new(), Vec::new());
    for (i, point) in points.iter().enumerate() {
        let time = range.and_then(|m| {
            let time = m.start_ms.checked_add(m.step_ms.checked_mul(i as i64)?)?;
            (time <= m.end_ms).then_some(time)
        });
        let time = time.ok_or_else(|| {
            format!(
                "expected {} points, more than the time range has",
                points.len()
            )
        })?;
        match point {
            Point::Missing => {}
            Point::Float(value) => floats.push((time, *value)),
            Point::Histogram(written) => histograms.push((time, written)),
        }
    }
    let got: Vec<(i64, f64)> = series.floats().collect();
    let got_histograms: Vec<_> = series.histograms().collect();
    if (floats.len(), histograms.len()) != (got.len(), got_histograms.len()) {
        return Err(format!(
            "expected {} floats and {} histograms, but got {} and {}",
            floats.len(),
            histograms.len(),
            got.len(),
            got_histograms.len()
        ));
    }
    for ((time, want), (got_time, got)) in floats.into_iter().zip(got) {
        if time != got_time || !almost_equal(want, got) {
            return Err(format!(
                "expected {} at {time}, but got {} at {got_time}",
                go_float(want),
                go_float(got)
            ));
        }
    }
    for ((time, want), (got_time, got)) in histograms.into_iter().zip(got_histograms) {
        if time != got_time || !histogram::matches(want, got) {
            return Err(format!(
                "expected {} at {time}, but got {} at {got_time}",
                want.histogram.script_text(),
                got.script_text()
            ));
        }
    }
    Ok(())
}

fn render_point(point: &Point) -> String {
    match point {
        Point::Missing => "nothing".to_owned(),
        Point::Float(value) => go_float(*value),
        Point::Histogram(written) => written.histogram.script_text(),
    }
}

fn render_value(value: &SampleValue) -> String {
    match value {
        SampleValue::Float(value) => go_float(*value),
        SampleValue::Histogram(histogram) => histogram.script_text(),
    }
}

/// Most points shown in a message.
const RENDERED_POINTS_MAX: usize = 30;

fn render_series(series: &MatrixSeries) -> String {
    let mut points: Vec<(i64, String)> = Vec::new();
    let floats = series.floats().map(|(time, value)| (time, go_float(value)));
    points.extend(floats.take(RENDERED_POINTS_MAX));
    let render = |(time, h): (i64, &std::sync::Arc<FloatHistogram>)| (time, h.script_text());
    points.extend(series.histograms().map(render).take(RENDERED_POINTS_MAX));
    points.sort_by_key(|(time, _)| *time);
    let texts: Vec<String> = points
        .iter()
        .map(|(time, value)| format!("{value} @{time}"))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests;
