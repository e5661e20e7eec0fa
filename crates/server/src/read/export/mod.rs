//! `/api/v1/export`: every sample of the series that match, as lines of JSON or in the native form.
//!
//! ```text
//! match[] ─► Database::select ─► batch of series ─► lines or frames (blocking) ─► chunk ─► client
//!        └─► Database::exemplars ────┘
//! ```
//!
//! Holds always:
//! - The client's pace is the pace of reading: the next chunk is made when the last one is gone.
//!   In memory are one batch of series, one chunk, and the exemplars of the range.
//! - A series is written once, however many selectors it matches; metadata once per metric family.
//! - An error before the first chunk is an error answer. After it the connection breaks off without
//!   the end that a complete answer has, so that nobody takes a part for the whole. The native form
//!   has a final frame besides.
//! - Of rolled-up time there are the samples that are left of windows, and a header says so.

mod families;
mod writer;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use icecore_model::{
    Exemplar, FloatColumns, Labels, Matcher, SelectHints, Selection, SeriesSamples, SeriesStream,
};
use icecore_storage::{Database, Error as StorageError, ExemplarQuery};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::middleware::error::ApiError;
use crate::middleware::params::{Params, TimeRange};
use crate::read::resolution::RolledUpTime;
use families::Families;
use writer::{ExportedSeries, Writer};

/// Samples that make a chunk: half a megabyte of text or so. A longer series is a chunk by itself.
const CHUNK_SAMPLES: usize = 32 << 10;

pub(crate) async fn export(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let writer = Writer::new(&params)?;
    let content_type = writer.content_type();
    let database = app.database()?.clone();
    let slot = app.limits.read_slot().await?;
    let selectors = params.some_selectors()?;
    let range = params.range()?;
    let exemplars = if params.switch_or("exemplars", true)? {
        exemplars(&database, &selectors, range).await?
    } else {
        HashMap::new()
    };
    let families = Families::new(params.switch_or("metadata", true)?);
    let mut export = Export {
        database,
        selectors,
        range,
        hints: app.queries.hints(),
        batch_timeout: app.config().server.request_timeout,
        _slot: slot,
        opened: 0,
        stream: None,
        batch: VecDeque::new(),
        exemplars,
        families,
        writer: Some(writer),
        rolled: RolledUpTime::default(),
    };
    let first = export.next_chunk().await?;
    // All selectors read the same time, and the first of them is open.
    let rolled = std::mem::take(&mut export.rolled);
    let chunks = stream::try_unfold((first, export), |(ready, mut export)| async move {
        let chunk = match ready {
            Some(first) => Some(first),
            None => export.next_chunk().await.map_err(broken_off)?,
        };
        Ok::<_, std::io::Error>(chunk.map(|chunk| (chunk, (None, export))))
    });
    let body = Body::from_stream(chunks);
    let response = ([(header::CONTENT_TYPE, content_type)], body).into_response();
    Ok(rolled.announce(response))
}

/// An error that aborts the connection. The client learns no more than that, so the reason is
/// logged.
fn broken_off(error: ApiError) -> std::io::Error {
    let reason = error.to_string();
    tracing::error!(reason, "export aborted");
    std::io::Error::other(reason)
}

/// The exemplars of all series that match.
async fn exemplars(
    database: &Database,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<HashMap<Labels, Vec<Exemplar>>, ApiError> {
    let query = ExemplarQuery {
        selectors: selectors.to_vec(),
        start_ms: range.start_ms,
        end_ms: range.end_ms,
    };
    match database.exemplars(query).await {
        Ok(found) => Ok(found.into_iter().collect()),
        Err(StorageError::LimitReached(reason)) => Err(StorageError::LimitReached(format!(
            "{reason}: export a shorter range, or with exemplars=false"
        ))
        .into()),
        Err(error) => Err(error.into()),
    }
}

/// What is still to come of one export.
struct Export {
    database: Database,
    selectors: Vec<Vec<Matcher>>,
    range: TimeRange,
    hints: SelectHints,
    /// How long the store may take for the next series.
    batch_timeout: Duration,
    _slot: OwnedSemaphorePermit,
    /// Selectors that have been opened; the last of them is the one being read.
    opened: usize,
    stream: Option<Box<dyn SeriesStream>>,
    batch: VecDeque<SeriesSamples>,
    /// Those of series that have not been written yet.
    exemplars: HashMap<Labels, Vec<Exemplar>>,
    families: Families,
    /// Nothing after the end.
    writer: Option<Writer>,
    /// Of what has been opened.
    rolled: RolledUpTime,
}

impl Export {
    /// The next chunk; `None` at the end.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let Some(mut writer) = self.writer.take() else {
                return Ok(None);
            };
            let series = self.next_series().await?;
            let ends = series.is_empty();
            let series = if ends { self.without_samples() } else { series };
            let described: Vec<ExportedSeries> = series
                .into_iter()
                .map(|series| ExportedSeries {
                    exemplars: self.exemplars.remove(&series.labels).unwrap_or_default(),
                    metadata: self.families.first_of(&self.database, &series.labels),
                    series,
                })
                .collect();
            let written = tokio::task::spawn_blocking(move || {
                let mut out = Vec::new();
                writer.write(&mut out, &described);
                if ends {
                    writer.finish(&mut out).map(|()| (out, None))
                } else {
                    Some((out, Some(writer)))
                }
            });
            let written = written.await;
            let written = written.map_err(|error| ApiError::internal(error.to_string()))?;
            let Some((chunk, writer)) = written else {
                return Ok(None);
            };
            self.writer = writer;
            // A frame is full after several chunks.
            if !chunk.is_empty() {
                return Ok(Some(chunk.into()));
            }
        }
    }

    /// Series for one chunk; none at the end.
    async fn next_series(&mut self) -> Result<Vec<SeriesSamples>, ApiError> {
        while self.batch.is_empty() {
            let more = tokio::time::timeout(self.batch_timeout, self.next_batch()).await;
            let late = || ApiError::timeout("the store took too long for the next series");
            match more.map_err(|_| late())?? {
                Some(batch) => self.batch = batch,
                None => return Ok(Vec::new()),
            }
        }
        Ok(self.take_series())
    }

    /// The series that have exemplars in the range, and nothing else.
    fn without_samples(&self) -> Vec<SeriesSamples> {
        let mut left: Vec<Labels> = self.exemplars.keys().cloned().collect();
        left.sort_unstable();
        let series = |labels| SeriesSamples {
            labels,
            floats: FloatColumns::default(),
            histograms: Vec::new(),
            start_timestamps: Vec::new(),
            forms: Default::default(),
            rolled: None,
        };
        left.into_iter().map(series).collect()
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
                hints: self.hints.clone(),
            };
            let stream = self.database.select(selection).await?;
            self.rolled.add(&stream.levels());
            self.stream = Some(Box::new(stream));
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
