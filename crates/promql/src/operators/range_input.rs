//! Range vectors: series with their samples, from a scan or from a subquery.

use icecore_model::TimeColumn;
use rayon::prelude::*;

use super::scan::{ScanReader, ScannedSeries, is_large};
use super::{Operator, Run, build, collect};
use crate::error::Result;
use crate::exec::{Grid, Reservation, merge_equal_labels};
use crate::functions::window::{RangeSeries, ResetDetection, Windows};
use crate::plan::RangeInput;

/// Series in batches.
pub(super) enum RangeReader<'q> {
    Scan(ScanReader<'q>, ResetDetection),
    Subquery(SubqueryReader<'q>),
}

pub(super) struct SubqueryReader<'q> {
    run: &'q Run<'q>,
    input: Option<Box<dyn Operator + 'q>>,
    grid: Grid,
    /// Memory of the rows of the subquery and of their times.
    held: Option<(Reservation, Reservation)>,
}

impl<'q> RangeReader<'q> {
    pub(super) fn new(run: &'q Run<'q>, input: &'q RangeInput, windows: &Windows) -> Self {
        match input {
            RangeInput::Scan(from) => {
                let detection = if from.detects_resets {
                    ResetDetection::Within(*windows)
                } else {
                    ResetDetection::Off
                };
                Self::Scan(ScanReader::new(run, from), detection)
            }
            RangeInput::Subquery(inner) => Self::Subquery(SubqueryReader {
                run,
                input: Some(build(run, inner)),
                grid: inner.grid,
                held: None,
            }),
        }
    }

    /// Maps each series of the next batch; `None` at the end.
    pub(super) async fn next<T: Send>(
        &mut self,
        values_per_series: usize,
        make: impl Fn(RangeSeries) -> Option<T> + Send + Sync,
    ) -> Result<Option<Vec<T>>> {
        match self {
            Self::Scan(reader, detection) => {
                let make = |scanned: ScannedSeries<'_>| {
                    make(match scanned {
                        ScannedSeries::Owned(samples) => {
                            RangeSeries::from_samples(samples, *detection)
                        }
                        ScannedSeries::Shared(batch, index) => {
                            RangeSeries::from_shared(batch, index, *detection)
                        }
                    })
                };
                reader.next(values_per_series, make).await
            }
            Self::Subquery(reader) => match reader.series().await? {
                Some(series) => Ok(Some(if is_large(series.len(), values_per_series) {
                    series.into_par_iter().filter_map(make).collect()
                } else {
                    series.into_iter().filter_map(make).collect()
                })),
                None => Ok(None),
            },
        }
    }
}

impl SubqueryReader<'_> {
    /// All series of the subquery, in one batch: rows with equal labels are one series here.
    async fn series(&mut self) -> Result<Option<Vec<RangeSeries>>> {
        let Some(mut input) = self.input.take() else {
            return Ok(None);
        };
        // Before any input allocates a column of that many steps, even for parameters.
        let held_times = self.run.context.reserve_rows(1, self.grid.steps)?;
        let (rows, held) = collect(self.run.context, &mut *input).await?;
        self.held = Some((held, held_times));
        let rows = merge_equal_labels(rows)?;
        let times: TimeColumn = self.grid.times().collect();
        let series = rows
            .into_iter()
            .map(|row| RangeSeries::from_row(row, &times));
        Ok(Some(series.collect()))
    }
}
