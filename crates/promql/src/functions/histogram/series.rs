//! Rows put together to histograms.
//!
//! Holds always: rows are grouped and bounds are read once, before the first step; a step then only
//! copies floats.

use std::collections::{BTreeMap, HashMap};

use icecore_model::Labels;
use rayon::prelude::*;

use super::bound::bucket_bound;
use super::measure::{Measure, Raised, Remarks};
use crate::annotations::{ForMetric, Note};
use crate::exec::{Row, Values, is_absent};
use crate::functions::CallContext;
use crate::histogram::ClassicBucket;

/// The label with the upper bound of a classic bucket.
const BOUND: &str = "le";

/// The histograms of a vector, and the rows they are made of.
pub(super) struct HistogramSeries {
    rows: Vec<Row>,
    series: Vec<Series>,
}

/// One histogram: classic at some steps, native at others. Where it is both, nobody knows which one is
/// meant.
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
    pub(super) fn gather(ctx: &CallContext<'_>, vector: usize, rows: Vec<Row>) -> Self {
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
                    let place = place_of(without_bound(&row.labels), &mut series);
                    series[place].buckets.push((bound, index));
                }
                None => ctx.note(
                    ctx.arg_span(vector),
                    Note::BadBucketLabel {
                        value: text.to_string(),
                        metric: metric_of(ctx, &row.labels),
                    },
                ),
            }
        }
        for series in &mut series {
            series.buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        }
        Self { rows, series }
    }

    /// Makes a float of each histogram at each step. Remarks are about the argument at `vector`.
    pub(super) fn measure(
        &self,
        ctx: &CallContext<'_>,
        vector: usize,
        measure: &impl Measure,
    ) -> Vec<Row> {
        let span = ctx.arg_span(vector);
        let measured = self.series.par_iter().map(|series| {
            let mut remarks = Remarks::default();
            let values = series.values(&self.rows, ctx.grid.steps, measure, &mut remarks);
            let metric = metric_of(ctx, &series.labels);
            remarks.say(ctx.annotations, span, &metric);
            let row = Row {
                labels: series.labels.clone(),
                drop_name: true,
                values,
            };
            (row, metric, remarks)
        });
        let measured: Vec<(Row, ForMetric, Remarks)> = measured.collect();
        let mut raised: BTreeMap<&ForMetric, Raised> = BTreeMap::new();
        for (_, metric, remarks) in &measured {
            if let Some(more) = remarks.raised() {
                let sum = raised.entry(metric);
                sum.and_modify(|sum| sum.merge(more))
                    .or_insert_with(|| more.clone());
            }
        }
        for (metric, raised) in raised {
            let counts = raised.as_prometheus_counts();
            ctx.annotations.add_raised(span, metric.clone(), counts);
        }
        let rows = measured.into_iter().map(|(row, ..)| row);
        rows.filter(|row| !row.values.is_empty()).collect()
    }
}

impl Series {
    fn values(
        &self,
        rows: &[Row],
        steps: usize,
        measure: &impl Measure,
        remarks: &mut Remarks,
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
                None => *value = measure.classic(step, &mut buckets, remarks),
                Some(histogram) if buckets.is_empty() => {
                    *value = measure.native(step, histogram, remarks);
                }
                Some(_) => remarks.mixed = true,
            }
        }
        values
    }
}

/// What notes call a histogram. Where names go at once its own has gone before anything is said.
fn metric_of(ctx: &CallContext<'_>, labels: &Labels) -> ForMetric {
    ForMetric(if ctx.delayed_names {
        labels.metric_name().to_string()
    } else {
        String::new()
    })
}

fn without_bound(labels: &Labels) -> Labels {
    Labels::from_sorted(labels.iter().filter(|(name, _)| *name != BOUND))
}
