//! `/api/v1/export`: every sample of the series that match, one line of JSON per series.
//!
//! ```text
//! match[] ─► Database::select ─► batch of series ─► lines, on a blocking thread ─► chunk ─► client
//! ```
//!
//! Holds always:
//! - The client's pace is the pace of reading: the next chunk is made when the last one is gone.
//!   In memory are one batch of series and one chunk.
//! - A series is written once, however many selectors it matches.
//! - An error before the first chunk is an error answer. After it the connection breaks off without
//!   the end that a complete answer has, so that nobody takes a part for the whole.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use icecore_model::{Labels, Matcher, SelectHints, Selection, SeriesSamples, SeriesStream};
use icecore_storage::Database;
use icecore_wire::prometheus::export::write_export_line;
use tokio::sync::OwnedSemaphorePermit;

use super::App;
use super::error::ApiError;
use super::params::{Params, TimeRange};

/// Samples that make a chunk: half a megabyte of text or so. A longer series is a chunk by itself.
const CHUNK_SAMPLES: usize = 32 << 10;

pub(super) async fn export(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let mut lines = Lines {
        database: app.database()?.clone(),
        selectors: params.some_selectors()?,
        range: params.range()?,
        batch_timeout: app.options.request_timeout,
        _slot: app.limits.read_slot().await?,
        opened: 0,
        stream: None,
        batch: VecDeque::new(),
    };
    let first = lines.next_chunk().await?;
    let chunks = stream::try_unfold((first, lines), |(ready, mut lines)| async move {
        let chunk = match ready {
            Some(first) => Some(first),
            None => lines.next_chunk().await.map_err(broken_off)?,
        };
        Ok::<_, std::io::Error>(chunk.map(|chunk| (chunk, (None, lines))))
    });
    let body = Body::from_stream(chunks);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// What makes the connection break off. The client cannot be told more than that, so the log is.
fn broken_off(error: ApiError) -> std::io::Error {
    let reason = error.to_string();
    tracing::error!(reason, "an export broke off");
    std::io::Error::other(reason)
}

/// The lines of one export that are still to come.
struct Lines {
    database: Database,
    selectors: Vec<Vec<Matcher>>,
    range: TimeRange,
    /// How long the store may take for the next series.
    batch_timeout: Duration,
    _slot: OwnedSemaphorePermit,
    /// Selectors that have been opened; the last of them is the one being read.
    opened: usize,
    stream: Option<Box<dyn SeriesStream>>,
    batch: VecDeque<SeriesSamples>,
}

impl Lines {
    /// The next chunk of whole lines; `None` at the end.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        while self.batch.is_empty() {
            let more = tokio::time::timeout(self.batch_timeout, self.next_batch()).await;
            let late = || ApiError::timeout("the store took too long for the next series");
            match more.map_err(|_| late())?? {
                Some(batch) => self.batch = batch,
                None => return Ok(None),
            }
        }
        let series = self.take_series();
        let encoded = tokio::task::spawn_blocking(move || encode(&series)).await;
        let chunk = encoded.map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(Some(chunk))
    }

    /// Series with something in them that no earlier selector has brought; `None` at the end.
    async fn next_batch(&mut self) -> Result<Option<VecDeque<SeriesSamples>>, ApiError> {
        let Some(stream) = &mut self.stream else {
            let Some(matchers) = self.selectors.get(self.opened) else {
                return Ok(None);
            };
            let selection = Selection {
                matchers: matchers.clone(),
                start_ms: self.range.start_ms,
                end_ms: self.range.end_ms,
                hints: SelectHints::default(),
            };
            self.stream = Some(Box::new(self.database.select(selection).await?));
            self.opened += 1;
            return Ok(Some(VecDeque::new()));
        };
        let Some(batch) = stream.next_batch().await? else {
            self.stream = None;
            return Ok(Some(VecDeque::new()));
        };
        let earlier = self.selectors.get(..self.opened - 1).unwrap_or_default();
        let wanted = |series: &SeriesSamples| {
            series.sample_count() > 0 && !earlier.iter().any(|m| all_match(m, &series.labels))
        };
        Ok(Some(batch.into_iter().filter(wanted).collect()))
    }

    /// Series for one chunk, at least one.
    fn take_series(&mut self) -> Vec<SeriesSamples> {
        let mut taken = Vec::new();
        let mut samples = 0;
        while samples < CHUNK_SAMPLES {
            let Some(series) = self.batch.pop_front() else {
                break;
            };
            samples += series.sample_count();
            taken.push(series);
        }
        taken
    }
}

fn all_match(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers
        .iter()
        .all(|m| m.matches(labels.get(m.name()).unwrap_or_default()))
}

fn encode(series: &[SeriesSamples]) -> Bytes {
    let mut text = Vec::new();
    for series in series {
        write_export_line(&mut text, series);
    }
    text.into()
}
