//! The answer to a query on its way to the client: JSON, or columns for those who ask for them; a
//! long one in pieces.
//!
//! ```text
//! short: write, where it was computed ─► body ─► client
//! long:  blocking thread: write ─► piece ─► channel ─► body ─► client
//! ```
//!
//! Holds always:
//! - The client's pace is the pace of writing: beside the result a few pieces are in memory.
//! - An answer that fits into one piece has a length; a longer one ends with its last piece, and
//!   breaks off where that cannot be made.

mod columns;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use icecore_promql::{
    Answer, FloatHistogram, MatrixSeries, QueryTime, QueryValue, SampleValue, Stats, VectorSample,
};
use icecore_wire::prometheus::query_columns::{COLUMNS_TYPE, ColumnGrid, prefers_columns};
use icecore_wire::prometheus::query_json::{
    Bucket, HistogramPoint, QueryEnd, QueryStats, ResultType, TimeTexts, write_matrix_series,
    write_query_end, write_query_start, write_scalar, write_text, write_vector_float,
    write_vector_histogram,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::middleware::error::ApiError;
use crate::middleware::params::Params;
use crate::queries::QueryError;
use columns::{grid_of, write_all_labels, write_columns};

const JSON_TYPE: &str = "application/json";

/// Bytes that make a piece. Large enough that handing it over costs nothing beside writing it.
const PIECE_BYTES: usize = 128 << 10;

/// Values that are written where they were computed. It takes less time than a change of threads.
const SHORT_VALUES_MAX: usize = 2_000;

/// Values that take as long to write as the labels of a series, about.
const VALUES_PER_SERIES: usize = 8;

/// Pieces that wait for the client while the next one is written.
const PIECES_AHEAD: usize = 2;

/// Warnings, and infos, that are shown; the number of the others is. As in Prometheus.
const NOTES_MAX: usize = 10;

/// What the client requested beside the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerOptions {
    pub(crate) stats: Option<StatsDetail>,
    pub(crate) explain: bool,
    /// Whether the query counts as a use of the metrics that it names.
    pub(crate) counts: bool,
    /// Whether the client takes columns where the result has that form.
    pub(crate) columns: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsDetail {
    Totals,
    /// The samples of each step, too.
    PerStep,
}

impl AnswerOptions {
    pub(crate) fn from_params(params: &Params) -> Self {
        Self {
            stats: params.first("stats").map(|text| match text {
                "all" => StatsDetail::PerStep,
                _ => StatsDetail::Totals,
            }),
            explain: params.first("explain") == Some("true"),
            counts: params.first("count_usage") != Some("false"),
            columns: false,
        }
    }

    /// The same in the form that the headers of the request ask for.
    pub(crate) fn in_form(self, headers: &HeaderMap) -> Self {
        let accept = headers.get_all(header::ACCEPT).iter();
        Self {
            columns: prefers_columns(accept.filter_map(|value| value.to_str().ok())),
            ..self
        }
    }
}

/// The result of a query and everything reported with it.
pub(crate) struct QueryAnswer {
    pub(crate) answer: Answer,
    pub(crate) explain: Option<String>,
    pub(crate) time: QueryTime,
    pub(crate) stats: Option<StatsDetail>,
    /// Whether the client takes columns.
    pub(crate) columns: bool,
    /// How long the query waited for its turn.
    pub(crate) queued: Duration,
}

/// The client has closed the connection.
#[derive(Debug)]
pub(crate) struct ClientGone;

/// Takes what is written so far, if it likes.
type Flow<'a> = dyn FnMut(&mut Vec<u8>) -> Result<(), ClientGone> + 'a;

impl QueryAnswer {
    /// The answer, or its head: a long one follows as fast as the client takes it, and holds the
    /// slot until then.
    pub(crate) async fn respond(
        mut self,
        slot: OwnedSemaphorePermit,
    ) -> Result<Response, ApiError> {
        if self.is_short() {
            let mut out = Vec::new();
            // No client is waited for, so none can be gone.
            let _ = self.write(&mut out, &mut |_| Ok(()));
            return Ok(response(self.content_type(), out));
        }
        let (head, answered) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let outgoing = AnswerSender::of_type(self.content_type(), head);
            // A client that has gone away needs no more.
            let _ = self.send(outgoing);
            drop(slot);
        });
        Ok(answered.await.map_err(|_| QueryError::Panicked)?)
    }

    fn content_type(&self) -> &'static str {
        match self.grid() {
            Some(_) => COLUMNS_TYPE,
            None => JSON_TYPE,
        }
    }

    /// The steps of the columns, if that is the form of the answer.
    fn grid(&self) -> Option<ColumnGrid> {
        match &self.answer.value {
            QueryValue::Matrix(series) if self.columns => grid_of(series, self.time),
            _ => None,
        }
    }

    fn is_short(&self) -> bool {
        let (values, histograms) = match &self.answer.value {
            QueryValue::Scalar { .. } | QueryValue::Text { .. } => (1, false),
            QueryValue::Vector(samples) => {
                let of_histogram = |s: &VectorSample| matches!(s.value, SampleValue::Histogram(_));
                let values = samples.len() * VALUES_PER_SERIES;
                (values, samples.iter().any(of_histogram))
            }
            QueryValue::Matrix(series) => {
                let values = |series: &MatrixSeries| series.len_max() + VALUES_PER_SERIES;
                let histograms = series.iter().any(MatrixSeries::has_histograms);
                (series.iter().map(values).sum(), histograms)
            }
        };
        values <= SHORT_VALUES_MAX && !histograms
    }

    /// Writes the answer, as fast as the client takes it.
    fn send(mut self, mut outgoing: AnswerSender) -> Result<(), ClientGone> {
        let mut out = Vec::new();
        self.write(&mut out, &mut |out| outgoing.flow(out))?;
        outgoing.finish(out)
    }

    fn write(&mut self, out: &mut Vec<u8>, flow: &mut Flow<'_>) -> Result<(), ClientGone> {
        let grid = self.grid();
        if let (Some(grid), QueryValue::Matrix(series)) = (grid, &self.answer.value) {
            write_columns(out, series, grid, flow)?;
        }
        write_query_start(out, result_type(&self.answer.value));
        match &self.answer.value {
            QueryValue::Scalar { time_ms, value } => write_scalar(out, *time_ms, *value),
            QueryValue::Text { time_ms, text } => write_text(out, *time_ms, text),
            QueryValue::Vector(samples) => write_vector(out, samples, flow)?,
            QueryValue::Matrix(series) if grid.is_some() => write_all_labels(out, series, flow)?,
            QueryValue::Matrix(series) => write_matrix(out, series, self.time, flow)?,
        }
        shorten(&mut self.answer.warnings, "warning");
        shorten(&mut self.answer.infos, "info");
        let stats = self.stats.map(|shown| self.stats(shown));
        write_query_end(
            out,
            &QueryEnd {
                stats: stats.as_ref(),
                explain: self.explain.as_deref(),
                warnings: &self.answer.warnings,
                infos: &self.answer.infos,
            },
        );
        Ok(())
    }

    /// The names are those of Prometheus' engine; what has no counterpart here is nearest to it.
    fn stats(&self, shown: StatsDetail) -> QueryStats {
        let Stats {
            samples_touched,
            samples_per_step,
            samples_read_per_step,
            memory_peak_bytes,
            parse_seconds,
            plan_seconds,
            execute_seconds,
            ..
        } = &self.answer.stats;
        let queue_seconds = self.queued.as_secs_f64();
        let preparation_seconds = parse_seconds + plan_seconds;
        let eval_total_seconds = preparation_seconds + execute_seconds;
        let per_step = |counts: &[(i64, u64)]| match shown {
            StatsDetail::Totals => Vec::new(),
            StatsDetail::PerStep => counts.to_vec(),
        };
        QueryStats {
            eval_total_seconds,
            result_sort_seconds: 0.0,
            preparation_seconds,
            inner_eval_seconds: *execute_seconds,
            queue_seconds,
            exec_total_seconds: queue_seconds + eval_total_seconds,
            samples_per_step: per_step(samples_per_step),
            samples: *samples_touched,
            samples_read_per_step: per_step(samples_read_per_step),
            samples_read: samples_read_per_step.iter().map(|(_, read)| read).sum(),
            // Rows have a float for each sample.
            samples_peak: memory_peak_bytes / size_of::<f64>() as u64,
        }
    }
}

fn result_type(value: &QueryValue) -> ResultType {
    match value {
        QueryValue::Scalar { .. } => ResultType::Scalar,
        QueryValue::Text { .. } => ResultType::Text,
        QueryValue::Vector(_) => ResultType::Vector,
        QueryValue::Matrix(_) => ResultType::Matrix,
    }
}

fn write_vector(
    out: &mut Vec<u8>,
    samples: &[VectorSample],
    flow: &mut Flow<'_>,
) -> Result<(), ClientGone> {
    out.push(b'[');
    for (i, sample) in samples.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match &sample.value {
            SampleValue::Float(value) => {
                write_vector_float(out, &sample.labels, sample.time_ms, *value);
            }
            SampleValue::Histogram(histogram) => {
                write_vector_histogram(out, &sample.labels, sample.time_ms, as_shown(histogram));
            }
        }
        flow(out)?;
    }
    out.push(b']');
    Ok(())
}

fn write_matrix(
    out: &mut Vec<u8>,
    series: &[MatrixSeries],
    time: QueryTime,
    flow: &mut Flow<'_>,
) -> Result<(), ClientGone> {
    let times = match time {
        QueryTime::Range {
            start_ms,
            end_ms,
            step_ms,
        } if !series.is_empty() => {
            let step = |time: &i64| time.checked_add(step_ms).filter(|next| *next <= end_ms);
            TimeTexts::new(std::iter::successors(Some(start_ms), step))
        }
        _ => TimeTexts::default(),
    };
    out.push(b'[');
    for (i, series) in series.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let histograms = series.histograms();
        let histograms = histograms.map(|(time, histogram)| (time, as_shown(histogram)));
        let labels = &series.labels;
        write_matrix_series(out, &times, labels, series.floats(), histograms, &mut *flow)?;
        flow(out)?;
    }
    out.push(b']');
    Ok(())
}

fn as_shown(histogram: &Arc<FloatHistogram>) -> HistogramPoint<impl Iterator<Item = Bucket>> {
    HistogramPoint {
        count: histogram.count,
        sum: histogram.sum,
        buckets: histogram.all_buckets().map(|bucket| Bucket {
            lower: bucket.lower,
            upper: bucket.upper,
            lower_inclusive: bucket.lower_inclusive,
            upper_inclusive: bucket.upper_inclusive,
            count: bucket.count,
        }),
    }
}

/// Leaves the first few notes and says how many there were beside them.
fn shorten(notes: &mut Vec<String>, kind: &str) {
    let omitted = notes.len().saturating_sub(NOTES_MAX);
    if omitted > 0 {
        notes.truncate(NOTES_MAX);
        notes.push(format!("{omitted} more {kind} annotations omitted"));
    }
}

/// The sending half of a streamed answer: first a head, with which the handler answers, then
/// chunks.
pub(crate) struct AnswerSender {
    content_type: &'static str,
    /// Until it is sent.
    head: Option<oneshot::Sender<Response>>,
    body: Option<mpsc::Sender<Chunk>>,
}

enum Chunk {
    Bytes(Bytes),
    /// The answer is complete.
    End,
}

impl AnswerSender {
    /// For an answer in JSON.
    pub(crate) fn new(head: oneshot::Sender<Response>) -> Self {
        Self::of_type(JSON_TYPE, head)
    }

    /// For an answer of another type.
    pub(crate) fn of_type(content_type: &'static str, head: oneshot::Sender<Response>) -> Self {
        Self {
            content_type,
            head: Some(head),
            body: None,
        }
    }

    /// Hands over what is written once it is a piece. Blocks while the client does not read.
    pub(crate) fn flow(&mut self, out: &mut Vec<u8>) -> Result<(), ClientGone> {
        if out.len() < PIECE_BYTES {
            return Ok(());
        }
        let room = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 2);
        let piece = std::mem::replace(out, room);
        self.send(Chunk::Bytes(piece.into()))
    }

    pub(crate) fn finish(mut self, out: Vec<u8>) -> Result<(), ClientGone> {
        if let Some(head) = self.head.take() {
            let whole = response(self.content_type, out);
            return head.send(whole).map_err(|_| ClientGone);
        }
        self.send(Chunk::Bytes(out.into()))?;
        self.send(Chunk::End)
    }

    fn send(&mut self, piece: Chunk) -> Result<(), ClientGone> {
        let body = match &self.body {
            Some(body) => body,
            None => self.begin()?,
        };
        body.blocking_send(piece).map_err(|_| ClientGone)
    }

    fn begin(&mut self) -> Result<&mpsc::Sender<Chunk>, ClientGone> {
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let head = self.head.take().ok_or(ClientGone)?;
        let body = Body::from_stream(stream::try_unfold(pieces, next_piece));
        let begun = response(self.content_type, body);
        head.send(begun).map_err(|_| ClientGone)?;
        Ok(self.body.insert(sender))
    }
}

/// The next piece for the client; an error, which breaks the connection off, where the writer ended
/// before the answer did.
async fn next_piece(
    mut pieces: mpsc::Receiver<Chunk>,
) -> std::io::Result<Option<(Bytes, mpsc::Receiver<Chunk>)>> {
    match pieces.recv().await {
        Some(Chunk::Bytes(bytes)) => Ok(Some((bytes, pieces))),
        Some(Chunk::End) => Ok(None),
        None => Err(std::io::Error::other("the answer to a query broke off")),
    }
}

fn response(content_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body.into()).into_response()
}

#[cfg(test)]
mod tests;
