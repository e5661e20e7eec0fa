//! Runs sub queries: pulls series from the store and hands them to an execution.

use http::StatusCode;
use icecore_model::{MemoryBudget, SelectHints, Selection, SourceError};

use super::annotations::annotated_series;
use super::delete::delete;
use super::execution::{Execution, Limits, Surroundings};
use super::group::ResultSeries;
use super::request::PlannedSubQuery;
use super::selector::Selector;
use super::window::Window;
use crate::error::Error;
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
}

/// The results of a sub query.
pub(crate) async fn run(
    tsd: &Tsd,
    planned: &PlannedSubQuery,
    window: Window,
    options: RunOptions,
) -> Result<Vec<ResultSeries>, Error> {
    let interval = planned.downsampler.as_ref().map(|d| &d.interval);
    let scan = window.scan(interval);
    let asked = &planned.asked;
    if asked.pre_aggregate && tsd.config.rollups.is_none() {
        let message = "Pre-aggregates need a configuration of rollups";
        return Err(Error::bad_request(message).with_details(message));
    }
    let Some(selector) = Selector::new(tsd, asked, scan).await? else {
        return Ok(Vec::new());
    };
    if asked.is_histogram_query() {
        // Numbers are no histograms.
        return Ok(Vec::new());
    }
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
        keeps_stored: options.delete,
    };
    let mut execution = Execution::new(selector, planned, surroundings)?;
    let source = &tsd.stores.series;
    let mut stream = source.select(selection).await.map_err(source_error)?;
    while let Some(batch) = stream.next_batch().await.map_err(source_error)? {
        execution.add(batch)?;
    }
    let (results, stored) = execution.finish()?;
    delete(tsd, &stored, scan).await?;
    Ok(results)
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
