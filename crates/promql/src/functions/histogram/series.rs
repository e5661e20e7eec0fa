//! Rows grouped into histograms.
//!
//! Holds always: rows are grouped and bounds parsed once, before the first step; a step only copies
//! floats.

use std::collections::{BTreeMap, HashMap};

use icecore_model::Labels;
use rayon::prelude::*;

use super::bound::bucket_bound;
use super::measure::{Findings, FixesByStep, Measure};
use crate::annotations::{Annotation, MetricSuffix};
use crate::error::Result;
use crate::exec::{LabelMaker, Row, Values, is_absent};
use crate::functions::CallContext;
use crate::histogram::ClassicBucket;

/// The label with the upper bound of a classic bucket.
const BOUND: &str = "le";

/// The histograms of a vector, and the rows they are made of.
pub(super) struct HistogramSeries {
    rows: Vec<Row>,
    series: Vec<Series>,
}

/// One histogram: classic at some steps, native at others. A step where it is both is ambiguous and
/// has no value.
struct Series {
    /// Without the bound.
    labels: Labels,
    /// The rows that hold buckets with their upper bounds, from the lowest one.
    buckets: Vec<(f64, usize)>,
    /// The rows that hold native histograms.
    native: Vec<usize>,
}

impl HistogramSeries {
    /// Groups the rows of the argument at `vector`.
    pub(super) fn gather(
        ctx: &CallContext<'_>,
        maker: &LabelMaker<'_>,
        vector: usize,
        rows: Vec<Row>,
    ) -> Result<Self> {
        let mut places: HashMap<Labels, usize> = HashMap::new();
        let mut series: Vec<Series> = Vec::new();
        let mut place_of = |labels: Labels, series: &mut Vec<Series>| {
            *places.entry(labels).or_insert_with_key(|labels| {
                series.push(Series {
                    labels: labels.clone(),
                    buckets: Vec::new(),
                    native: Vec::new(),
                });
                series.len() - 1
            })
        };
        for (index, row) in rows.iter().enumerate() {
            if row.values.histograms.iter().any(Option::is_some) {
                let place = place_of(row.labels.clone(), &mut series);
                series[place].native.push(index);
            }
            if row.values.floats.iter().all(|float| is_absent(*float)) {
                continue;
            }
            let text = row.labels.get(BOUND).unwrap_or_default();
            match bucket_bound(text) {
                Some(bound) => {
                    let known = series.len();
                    let place = place_of(without_bound(&row.labels), &mut series);
                    if place == known {
                        maker.grow(series[place].labels.heap_bytes())?;
                    }
                    series[place].buckets.push((bound, index));
                }
                None => ctx.annotate(
                    ctx.arg_span(vector),
                    Annotation::BadBucketLabel {
                        value: text.to_string(),
                        metric: metric_of(ctx, &row.labels),
                    },
                ),
            }
        }
        for series in &mut series {
            series.buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        }
        Ok(Self { rows, series })
    }

    /// Computes a float from each histogram at each step. Annotations point at the argument at
    /// `vector`.
    pub(super) fn measure(
        &self,
        ctx: &CallContext<'_>,
        maker: &LabelMaker<'_>,
        vector: usize,
        measure: &impl Measure,
    ) -> Result<Vec<Row>> {
        let span = ctx.arg_span(vector);
        maker.grow_rows(self.series.len(), ctx.grid.steps)?;
        let measured = self.series.par_iter().map(|series| {
            let mut findings = Findings::default();
            let values = series.values(&self.rows, ctx.grid.steps, measure, &mut findings);
            let metric = metric_of(ctx, &series.labels);
            findings.annotate(ctx.annotations, span, &metric);
            let row = Row {
                labels: series.labels.clone(),
                drop_name: true,
                values,
            };
            (row, metric, findings)
        });
        let measured: Vec<(Row, MetricSuffix, Findings)> = measured.collect();
        let mut fixes: BTreeMap<&MetricSuffix, FixesByStep> = BTreeMap::new();
        for (_, metric, findings) in &measured {
            if let Some(more) = findings.fixes() {
                let sum = fixes.entry(metric);
                sum.and_modify(|sum| sum.merge(more))
                    .or_insert_with(|| more.clone());
            }
        }
        for (metric, fixes) in fixes {
            let total = fixes.as_prometheus_reports();
            ctx.annotations
                .add_monotonicity_fixes(span, metric.clone(), total);
        }
        let rows = measured.into_iter().map(|(row, ..)| row);
        Ok(rows.filter(|row| !row.values.is_empty()).collect())
    }
}

impl Series {
    fn values(
        &self,
        rows: &[Row],
        steps: usize,
        measure: &impl Measure,
        findings: &mut Findings,
    ) -> Values {
        let mut values = Values::absent(steps);
        let columns: Vec<(f64, &[f64])> = self
            .buckets
            .iter()
            .map(|(bound, row)| (*bound, rows[*row].values.floats.as_slice()))
            .collect();
        let mut buckets: Vec<ClassicBucket> = Vec::with_capacity(columns.len());
        for (step, value) in values.floats.iter_mut().enumerate() {
            buckets.clear();
            for (bound, column) in &columns {
                if !is_absent(column[step]) {
                    buckets.push(ClassicBucket {
                        upper: *bound,
                        count: column[step],
                    });
                }
            }
            let mut natives = self.native.iter();
            let native = natives.find_map(|row| rows[*row].values.histogram(step));
            match native {
                None if buckets.is_empty() => {}
                None => *value = measure.classic(step, &mut buckets, findings),
                Some(histogram) if buckets.is_empty() => {
                    *value = measure.native(step, histogram, findings);
                }
                Some(_) => findings.mixed = true,
            }
        }
        values
    }
}

/// The name of a histogram in annotations: none if names are removed at once.
fn metric_of(ctx: &CallContext<'_>, labels: &Labels) -> MetricSuffix {
    MetricSuffix(if ctx.delayed_names {
        labels.metric_name().to_string()
    } else {
        String::new()
    })
}

fn without_bound(labels: &Labels) -> Labels {
    Labels::from_sorted(labels.iter().filter(|(name, _)| *name != BOUND))
}
