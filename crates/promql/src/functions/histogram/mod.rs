//! Functions of histograms: native ones, and classic ones whose buckets are series with a label
//! `le`.
//!
//! ```text
//! rows ─ series ─► one series per histogram ─ measure ─► one float per step
//! ```
//!
//! Holds always: floats are classic buckets and ignored without a label `le`; the metric name is
//! dropped, but groups buckets and appears in annotations.

mod bound;
mod measure;
mod quantile_label;
mod series;

use std::collections::BTreeMap;

use icecore_model::METRIC_NAME;

use super::{Argument, CallContext, MapFunction, VectorFunction};
use crate::annotations::{Annotation, GoFloat};
use crate::error::{Error, Result};
use crate::exec::{ABSENT, LabelMaker, Row, ScalarColumn, Values, is_absent, merge_equal_labels};
use crate::histogram::{FloatHistogram, Moments};
use crate::parse::Span;
use measure::{Fraction, Quantile};
use quantile_label::quantile_label;
use series::HistogramSeries;

/// The functions of one native histogram.
pub(super) fn map_function(name: &str) -> Option<MapFunction> {
    let function: MapFunction = match name {
        "histogram_avg" => |_, row| each_histogram(row, FloatHistogram::average),
        "histogram_count" => |_, row| each_histogram(row, |h| h.count),
        "histogram_stddev" => |_, row| each_histogram(row, FloatHistogram::deviation),
        "histogram_stdvar" => |_, row| each_histogram(row, FloatHistogram::variance),
        "histogram_sum" => |_, row| each_histogram(row, |h| h.sum),
        _ => return None,
    };
    Some(function)
}

/// The functions that group buckets of several rows.
pub(super) fn vector_function(name: &str) -> Option<VectorFunction> {
    match name {
        "histogram_fraction" => Some(histogram_fraction),
        "histogram_quantile" => Some(histogram_quantile),
        "histogram_quantiles" => Some(histogram_quantiles),
        _ => None,
    }
}

/// Applies `f` to every histogram of a row; floats are dropped.
fn each_histogram(mut row: Row, f: impl Fn(&FloatHistogram) -> f64) -> Row {
    row.drop_name = true;
    let histograms = std::mem::take(&mut row.values.histograms);
    row.values.floats.fill(ABSENT);
    for (float, histogram) in row.values.floats.iter_mut().zip(&histograms) {
        if let Some(histogram) = histogram {
            *float = f(histogram);
        }
    }
    row
}

/// `histogram_quantile(q, v)`
fn histogram_quantile(
    ctx: &CallContext<'_>,
    labels: &LabelMaker<'_>,
    rows: Vec<Row>,
) -> Result<Vec<Row>> {
    let quantile = Quantile {
        share: scalar_argument(ctx, 0),
        before: &[],
        grid: ctx.grid,
    };
    check_quantiles(ctx, 0, &quantile.share);
    let series = HistogramSeries::gather(ctx, labels, 1, rows)?;
    series.measure(ctx, labels, 1, &quantile)
}

/// `histogram_fraction(lower, upper, v)`
fn histogram_fraction(
    ctx: &CallContext<'_>,
    labels: &LabelMaker<'_>,
    rows: Vec<Row>,
) -> Result<Vec<Row>> {
    let fraction = Fraction {
        lower: scalar_argument(ctx, 0),
        upper: scalar_argument(ctx, 1),
    };
    let series = HistogramSeries::gather(ctx, labels, 2, rows)?;
    series.measure(ctx, labels, 2, &fraction)
}

/// `histogram_quantiles(v, label, q…)`
fn histogram_quantiles(
    ctx: &CallContext<'_>,
    labels: &LabelMaker<'_>,
    rows: Vec<Row>,
) -> Result<Vec<Row>> {
    let label = ctx.text(1);
    let series = HistogramSeries::gather(ctx, labels, 0, rows)?;
    let shares: Vec<ScalarColumn> = (2..ctx.args.len())
        .map(|index| scalar_argument(ctx, index))
        .collect();
    let mut labelled = Vec::new();
    for (place, share) in shares.iter().enumerate() {
        check_quantiles(ctx, place + 2, share);
        let quantile = Quantile {
            share: share.clone(),
            before: &shares[..place],
            grid: ctx.grid,
        };
        let mut measured = series.measure(ctx, labels, 0, &quantile)?;
        if label == METRIC_NAME && !ctx.delayed_names {
            for row in &mut measured {
                remove_name_now(labels, row)?;
            }
        }
        label_rows(labels, label, share, measured, &mut labelled)?;
    }
    // With delayed name removal Prometheus looks for equal series only in range queries.
    if ctx.delayed_names && ctx.grid.steps == 1 {
        Ok(labelled)
    } else {
        merge_equal_labels(labelled)
    }
}

/// Removes the name before a label function sets it again.
fn remove_name_now(labels: &LabelMaker<'_>, row: &mut Row) -> Result<()> {
    for label in [METRIC_NAME, "__type__", "__unit__"] {
        if row.labels.get(label).is_some() {
            row.labels = labels.with_label(&row.labels, label, "")?;
        }
    }
    row.drop_name = false;
    Ok(())
}

fn scalar_argument(ctx: &CallContext<'_>, index: usize) -> ScalarColumn {
    match ctx.args.get(index) {
        Some(Argument::Scalar(column)) => column.clone(),
        _ => ScalarColumn::Constant(f64::NAN),
    }
}

/// The span of a parameter: it is checked after the arguments are evaluated, even if written
/// before.
fn parameter_span(ctx: &CallContext<'_>, index: usize) -> Span {
    let span = ctx.arg_span(index);
    let end = match index {
        0 => ctx.call.span.end,
        _ => span.end,
    };
    Span { end, ..span }
}

/// Warns of quantiles outside of 0…1, once for each run of equal ones.
fn check_quantiles(ctx: &CallContext<'_>, index: usize, quantiles: &ScalarColumn) {
    let mut previous = 0.0;
    for step in 0..ctx.grid.steps {
        let quantile = quantiles.at(step);
        if !(0.0..=1.0).contains(&quantile) && quantile.to_bits() != f64::to_bits(previous) {
            let annotation = Annotation::InvalidQuantile(GoFloat(quantile));
            ctx.annotate(parameter_span(ctx, index), annotation);
            previous = quantile;
        }
    }
}

/// Most values of the result when quantiles change from step to step: each quantile is a series of
/// its own. As many as the default limit of samples of a query in Prometheus.
const LABELLED_VALUES_MAX: usize = 50_000_000;

/// Adds the label of the quantile to rows. A quantile that changes yields a row for each of its
/// values.
fn label_rows(
    labels: &LabelMaker<'_>,
    label: &str,
    quantiles: &ScalarColumn,
    rows: Vec<Row>,
    labelled: &mut Vec<Row>,
) -> Result<()> {
    let per_step = match quantiles {
        ScalarColumn::Constant(quantile) => {
            let text = quantile_label(*quantile);
            for mut row in rows {
                row.labels = labels.with_label(&row.labels, label, &text)?;
                labelled.push(row);
            }
            return Ok(());
        }
        ScalarColumn::PerStep(per_step) => per_step,
    };
    let mut steps_by_label: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (step, quantile) in per_step.iter().enumerate() {
        let steps = steps_by_label.entry(quantile_label(*quantile));
        steps.or_default().push(step);
    }
    let values = rows.len().saturating_mul(per_step.len());
    if values.saturating_mul(steps_by_label.len()) > LABELLED_VALUES_MAX {
        return Err(Error::LimitReached(
            "histogram_quantiles() has too many different quantiles".to_string(),
        ));
    }
    for row in &rows {
        for (text, steps) in &steps_by_label {
            if steps.iter().all(|step| is_absent(row.values.floats[*step])) {
                continue;
            }
            labels.grow_rows(1, per_step.len())?;
            let mut values = Values::absent(per_step.len());
            for step in steps {
                values.floats[*step] = row.values.floats[*step];
            }
            labelled.push(Row {
                labels: labels.with_label(&row.labels, label, text)?,
                drop_name: row.drop_name,
                values,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
