//! Runs sub queries: pulls series from the store and hands them to an execution.

use std::sync::Arc;

use http::StatusCode;
use icecore_model::{METRIC_NAME, RolledTime, SelectHints, Selection, SourceError};

use super::annotations::annotated_series;
use super::average::Sums;
use super::delete::delete;
use super::downsampler::Interval;
use super::execution::{Execution, Limits, Surroundings};
use super::group::ResultSeries;
use super::histogram::HistogramExecution;
use super::request::PlannedSubQuery;
use super::rolled::{REDUCED_FIELDS, reduced, rolled_time};
use super::selector::Selector;
use super::table::{Attempt, RAW, Source, attempts};
use super::window::{Scan, Window};
use crate::allowance::{Allowance, out_of_memory};
use crate::error::Error;
use crate::rollup::RollupKind;
use crate::tsd::Tsd;

/// What is done besides answering, and what may be taken for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOptions<'a> {
    pub(crate) allowance: &'a Allowance,
    pub(crate) limits: Limits,
    /// Annotations of series are part of the results.
    pub(crate) annotations: bool,
    /// What was read is deleted.
    pub(crate) delete: bool,
    /// Results are not cut to the window.
    pub(crate) whole_hours: bool,
}

impl<'a> RunOptions<'a> {
    /// Answers alone, within the limits of the settings.
    pub(crate) fn new(tsd: &Tsd, allowance: &'a Allowance) -> Self {
        Self {
            allowance,
            limits: Limits {
                points: tsd.config.query_points_max,
                bytes: tsd.config.query_bytes_max,
            },
            annotations: false,
            delete: false,
            whole_hours: false,
        }
    }
}

/// The results of a sub query, from the first table that has any.
pub(crate) async fn run(
    tsd: &Tsd,
    planned: &PlannedSubQuery,
    window: Window,
    options: RunOptions<'_>,
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
    options: RunOptions<'_>,
) -> Result<Vec<ResultSeries>, Error> {
    let planned = &attempt.planned;
    let interval = planned.downsampler.as_ref().map(|d| &d.interval);
    let hours = window.scan(interval);
    let scan = if planned.asked.is_histogram_query() {
        hours
    } else {
        attempt.scan(window)
    };
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
    // The original filters explicit tags by a scanner that ends behind one more row.
    let end_ms = if selector.is_explicit() {
        attempt.next_row_end_ms(scan)
    } else {
        scan.end_ms
    };
    let mut selection = Selection {
        matchers: selector.matchers.clone(),
        start_ms: scan.start_ms,
        end_ms: end_ms.saturating_sub(1),
        hints: SelectHints {
            // Downsampled values are floats, whatever they come from.
            forms: interval.is_none(),
            memory: Some(Arc::clone(&options.allowance.memory)),
            ..SelectHints::default()
        },
    };
    if attempt.source == Source::Points && !selector.has_key(&tsd.config.rollups_agg_tag_key) {
        selection
            .matchers
            .extend(tsd.implied.no_aggregates().cloned());
    }
    // What clients have rolled up is asked for by its interval already.
    let usage = asked.rollup_usage;
    let usage = usage.filter(|_| attempt.source == Source::Points);
    selection.hints.rolled = rolled_time(planned.downsampler.as_ref(), usage, window, scan);
    if asked.is_histogram_query() {
        let scanned = (window, scan);
        return run_histograms(tsd, selector, planned, scanned, selection, options).await;
    }
    // They are in the table of points, which is not read for rollups.
    let annotated = if options.annotations && attempt.source == Source::Points {
        annotated_series(tsd, options.allowance, &selector.metric, scan).await?
    } else {
        Vec::new()
    };
    let surroundings = Surroundings {
        uids: &tsd.uids,
        window,
        scan,
        limits: options.limits,
        allowance: options.allowance,
        annotated,
        keeps_stored: options.delete,
    };
    let metric = selector.metric.clone();
    let mut execution = Execution::new(selector, planned, surroundings)?;
    let source = &tsd.stores.series;
    let of_kind = |selection: &Selection, kind: &RollupKind| {
        let mut selection = selection.clone();
        selection.matchers.retain(|m| m.name() != METRIC_NAME);
        selection.matchers.extend(kind.matchers(&tsd.uids, &metric));
        selection
    };
    match &attempt.source {
        Source::Points => {
            let mut stream = source.select(selection).await.map_err(source_error)?;
            execution.begin(&stream.levels());
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                execution.add(batch)?;
            }
        }
        Source::Rolled(kind) => {
            let mut stream = source
                .select(of_kind(&selection, kind))
                .await
                .map_err(source_error)?;
            execution.begin(&stream.levels());
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                let batch = batch.into_iter().map(|samples| kind.unrolled(samples));
                execution.add(batch.collect())?;
            }
        }
        Source::Average { sums, counts } => {
            let mut held = options.allowance.reserve(0)?;
            let (mut known, mut bytes) = (Sums::default(), 0);
            if let RolledTime::Windows(_, fields) = &mut selection.hints.rolled {
                *fields |= REDUCED_FIELDS;
            }
            let of_kind = |kind| of_kind(&selection, kind);
            let mut stream = source.select(of_kind(sums)).await.map_err(source_error)?;
            execution.begin_averages(&stream.levels());
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                let added = batch
                    .into_iter()
                    .map(|s| known.add(sums.unrolled(reduced(s))));
                bytes += added.sum::<usize>();
                held.set(bytes).map_err(out_of_memory)?;
            }
            let interval = interval.unwrap_or(&Interval::All);
            let mut stream = source.select(of_kind(counts)).await.map_err(source_error)?;
            while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
                let averages = batch.into_iter().filter_map(|samples| {
                    known.average(counts.unrolled(reduced(samples)), interval, window, scan)
                });
                execution.add(averages.collect())?;
            }
        }
    }
    let (results, stored) = execution.finish()?;
    delete(tsd, &attempt.source.stored(stored), hours).await?;
    Ok(results)
}

/// The results of a sub query for histograms.
async fn run_histograms(
    tsd: &Tsd,
    selector: Selector,
    planned: &PlannedSubQuery,
    scanned: (Window, Scan),
    selection: Selection,
    options: RunOptions<'_>,
) -> Result<Vec<ResultSeries>, Error> {
    let (uids, allowance) = (&tsd.uids, options.allowance);
    let mut execution = HistogramExecution::new(uids, selector, planned, scanned, allowance);
    let source = &tsd.stores.series;
    let mut stream = source.select(selection).await.map_err(source_error)?;
    execution.begin(&stream.levels());
    while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
        allowance.check()?;
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
