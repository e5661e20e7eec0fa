//! Range vectors: series with their samples, from a scan or from a subquery.

use icecore_model::TimeColumn;
use rayon::prelude::*;

use super::scan::{ScanReader, Scanned, is_large};
use super::{Operator, Run, answer_order, build, collect};
use crate::error::Result;
use crate::exec::{Reservation, merge_equal_labels};
use crate::functions::window::{RangeSeries, Windows};
use crate::plan::RangeInput;
use crate::value::MatrixSeries;

/// Series in batches. A scan knows whether counter resets are to be detected.
pub(super) enum RangeReader<'q> {
    Scan(ScanReader<'q>, bool),
    Subquery(SubqueryReader<'q>),
}

pub(super) struct SubqueryReader<'q> {
    run: &'q Run<'q>,
    input: Option<Box<dyn Operator + 'q>>,
    times: TimeColumn,
    /// The rows of the subquery, kept while they are worked on.
    held: Option<Reservation>,
}

impl<'q> RangeReader<'q> {
    pub(super) fn new(run: &'q Run<'q>, input: &'q RangeInput) -> Self {
        match input {
            RangeInput::Scan(from) => Self::Scan(ScanReader::new(run, from), from.detects_resets),
            RangeInput::Subquery(inner) => Self::Subquery(SubqueryReader {
                run,
                input: Some(build(run, inner)),
                times: inner.grid.times().collect(),
                held: None,
            }),
        }
    }

    /// Makes something of each series of the next batch; `None` at the end.
    pub(super) async fn next<T: Send>(
        &mut self,
        values_per_series: usize,
        make: impl Fn(RangeSeries) -> Option<T> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        match self {
            Self::Scan(reader, detects_resets) => {
                let make = |scanned: Scanned<'_>| {
                    make(match scanned {
                        Scanned::Owned(samples) => {
                            RangeSeries::from_samples(samples, *detects_resets)
                        }
                        Scanned::Shared(batch, index) => {
                            RangeSeries::from_shared(batch, index, *detects_resets)
                        }
                    })
                };
                reader.next(values_per_series, make).await
            }
            Self::Subquery(reader) => match reader.series().await? {
                Some(series) => Ok(Some(match is_large(series.len(), values_per_series) {
                    true => series.into_par_iter().filter_map(make).collect(),
                    false => series.into_iter().filter_map(make).collect(),
                })),
                None => Ok(None),
            },
        }
    }
}

impl SubqueryReader<'_> {
    /// All series of the subquery, once. They are gathered first, because rows with equal labels
    /// are one series here.
    async fn series(&mut self) -> Result<Option<Vec<RangeSeries>>> {
        let Some(mut input) = self.input.take() else {
            return Ok(None);
        };
        let (rows, held) = collect(self.run.context, &mut *input).await?;
        self.held = Some(held);
        let rows = merge_equal_labels(rows)?;
        let times = &self.times;
        let series = rows
            .into_iter()
            .map(|row| RangeSeries::from_row(row, times));
        Ok(Some(series.collect()))
    }
}

/// The samples of a range vector at one step: the answer to `metric[5m]`.
pub(crate) async fn range_samples<'q>(
    run: &'q Run<'q>,
    input: &'q RangeInput,
    windows: &Windows,
) -> Result<Vec<MatrixSeries>> {
    let (end_ms, _) = windows.ends();
    let after_ms = end_ms.saturating_sub(windows.range_ms);
    let within = |time: i64| time > after_ms && time <= end_ms;
    let make = |series: RangeSeries| {
        let floats: Vec<(i64, f64)> = (series.times.iter().copied())
            .zip(series.floats.iter().copied())
            .filter(|(time, _)| within(*time))
            .collect();
        let histograms: Vec<_> = (series.histograms.into_iter())
            .filter(|point| within(point.time_ms))
            .map(|point| (point.time_ms, point.histogram))
            .collect();
        let labels = match series.drop_name {
            true => super::label_key::without_name(&series.labels),
            false => series.labels,
        };
        let is_empty = floats.is_empty() && histograms.is_empty();
        (!is_empty).then(|| MatrixSeries::of_samples(labels, floats, histograms))
    };
    let mut reader = RangeReader::new(run, input);
    let mut held = run.context.reserve(0)?;
    let mut all = Vec::new();
    while let Some(series) = reader.next(0, make).await? {
        let bytes = series.iter().map(MatrixSeries::heap_bytes).sum();
        run.context.grow(&mut held, bytes)?;
        all.extend(series);
    }
    all.sort_by(|a, b| answer_order(&a.labels, &b.labels));
    if all.windows(2).any(|pair| pair[0].labels == pair[1].labels) {
        return Err(crate::Error::Execution(
            "vector cannot contain metrics with the same labelset".to_string(),
        ));
    }
    Ok(all)
}
