//! Runs sub queries: pulls series from the store and hands them to an execution.

use http::StatusCode;
use icecore_model::{METRIC_NAME, MemoryBudget, SelectHints, Selection, SourceError};

use super::annotations::annotated_series;
use super::average::Sums;
use super::delete::delete;
use super::downsampler::Interval;
use super::execution::{Execution, Limits, Surroundings, out_of_memory};
use super::group::ResultSeries;
use super::histogram::HistogramExecution;
use super::request::PlannedSubQuery;
use super::selector::Selector;
use super::table::{Attempt, RAW, Source, attempts};
use super::window::{Scan, Window};
use crate::error::Error;
use crate::rollup::RollupKind;
use crate::tsd::Tsd;

/// Memory of one sub query, besides the batch that is worked on.
const MEMORY_MAX: usize = 1 << 30;

/// What is done besides answering.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunOptions {
    pub(crate) limits: Limits,
    /// Annotations of series are part of the results.
    pub(crate) annotations: bool,
    /// What was read is deleted.
    pub(crate) delete: bool,
    /// Results are not cut to the window.
    pub(crate) whole_hours: bool,
}

/// The results of a sub query, from the first table that has any.
pub(crate) async fn run(
    tsd: &Tsd,
    planned: &PlannedSubQuery,
    window: Window,
    options: RunOptions,
) -> Result<Vec<ResultSeries>, Error> {
    if planned.asked.pre_aggregate && tsd.rollups.is_none() {
        let message = "Pre-aggregates need a configuration of rollups";
        return Err(Error::bad_request(message).with_details(message));
    }
    for attempt in attempts(&tsd.config, tsd.rollups.as_deref(), planned)? {
        let mut results = run_attempt(tsd, &attempt, window, options).await?;
        if results.is_empty() {
            continue;
        }
        if attempt.table != RAW {
            let table = |series: &mut ResultSeries| series.rollup = Some(attempt.table.clone());
            results.iter_mut().for_each(table);
        }
        return Ok(results);
    }
    Ok(Vec::new())
}

async fn run_attempt(
    tsd: &Tsd,
    attempt: &Attempt,
    window: Window,
    options: RunOptions,
) -> Result<Vec<ResultSeries>, Error> {
    let planned = &attempt.planned;
    let interval = planned.downsampler.as_ref().map(|d| &d.interval);
    let scan = window.scan(interval);
    let window = if options.whole_hours {
        Window {
            start_ms: scan.start_ms,
            end_ms: scan.end_ms.saturating_sub(1),
        }
    } else {
        window
    };
    let asked = &planned.asked;
    let Some(selector) = Selector::new(tsd, asked, scan).await? else {
        return Ok(Vec::new());
    };
    let memory = MemoryBudget::new(MEMORY_MAX);
    let selection = Selection {
        matchers: selector.matchers.clone(),
        start_ms: scan.start_ms,
        end_ms: scan.end_ms.saturating_sub(1),
        hints: SelectHints {
            // Downsampled values are floats, whatever they come from.
            forms: interval.is_none(),
            memory: Some(memory.clone()),
            ..SelectHints::default()
        },
    };
    if asked.is_histogram_query() {
        return run_histograms(tsd, selector, planned, (window, scan), selection).await;
    }
    let annotated = if options.annotations {
        annotated_series(tsd, &selector.metric, scan).await?
    } else {
        Vec::new()
    };
    let surroundings = Surroundings {
        uids: &tsd.uids,
        window,
        scan,
        limits: options.limits,
        memory: &memory,
        annotated,
        keeps_stored: options.delete && attempt.source == Source::Points,
    };
    let metric = selector.metric.clone();
    let mut execution = Execution::new(selector, planned, surroundings)?;
    let source = &tsd.stores.series;
    let of_kind = |kind: &RollupKind| {
        let mut selection = selection.clone();
        selection.matchers.retain(|m| m.name() != METRIC_NAME);
        selection.matchers.extend(kind.matchers(&tsd.uids, &metric));
        selection
    };
    match &attempt.source {
        Source::Points => {
            let mut stream = source.select(selection).await.map_err(source_error)?;
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                execution.add(batch)?;
            }
        }
        Source::Rolled(kind) => {
            let mut stream = source.select(of_kind(kind)).await.map_err(source_error)?;
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                let batch = batch.into_iter().map(|samples| kind.unrolled(samples));
                execution.add(batch.collect())?;
            }
        }
        Source::Average { sums, counts } => {
            let mut held = memory.reserve(0).map_err(out_of_memory)?;
            let (mut known, mut bytes) = (Sums::default(), 0);
            let mut stream = source.select(of_kind(sums)).await.map_err(source_error)?;
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                let added = batch.into_iter().map(|s| known.add(sums.unrolled(s)));
                bytes += added.sum::<usize>();
                held.set(bytes).map_err(out_of_memory)?;
            }
            let interval = interval.unwrap_or(&Interval::All);
            let mut stream = source.select(of_kind(counts)).await.map_err(source_error)?;
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                let averages = batch.into_iter().filter_map(|samples| {
                    known.average(counts.unrolled(samples), interval, window, scan)
                });
                execution.add(averages.collect())?;
            }
        }
    }
    let (results, stored) = execution.finish()?;
    delete(tsd, &stored, scan).await?;
    Ok(results)
}

/// The results of a sub query for histograms.
async fn run_histograms(
    tsd: &Tsd,
    selector: Selector,
    planned: &PlannedSubQuery,
    (window, scan): (Window, Scan),
    selection: Selection,
) -> Result<Vec<ResultSeries>, Error> {
    let mut execution = HistogramExecution::new(&tsd.uids, selector, planned, window, scan);
    let source = &tsd.stores.series;
    let mut stream = source.select(selection).await.map_err(source_error)?;
    while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
        execution.add(batch)?;
    }
    execution.finish()
}

/// What is said where series cannot be read.
pub(crate) fn source_error(error: SourceError) -> Error {
    let status = match error {
        SourceError::LimitReached(_) => StatusCode::PAYLOAD_TOO_LARGE,
        SourceError::Unavailable(_) => StatusCode::FAILED_DEPENDENCY,
        SourceError::Corrupt(_) | SourceError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Error::new(status, error.to_string())
}
