//! `POST /api/v1/read`: Prometheus remote read, with samples or with chunks.
//!
//! ```text
//! body ─► ReadRequest ─► each query: Database::select ─► batches ─► encoded on a blocking thread
//!                                                          │ samples: gathered, sorted, snappy
//!                                                          └ chunks: streamed as the client reads
//! ```
//!
//! Holds always:
//! - Series come in Prometheus' order of labels. Ours is the same but for series without a name and
//!   for label names that sort before `__name__`; a streamed answer with such is gathered first.
//! - What is gathered has at most `server.remote_read_bytes_max` bytes; a stream holds one batch of
//!   series and one piece of its answer.
//! - The client's pace is the pace of reading. After the first piece an error breaks the connection
//!   off without the end that a complete answer has.
//! - Of rolled-up time there are the samples that are left of windows, and a header says so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use icecore_model::{
    Labels, MAX_TIMESTAMP_MS, METRIC_NAME, Matcher, MemoryBudget, SelectHints, Selection,
    SeriesSamples, SeriesStream,
};
use icecore_storage::{Database, Error as StorageError, LabelQuery};
use icecore_wire::prometheus::remote_read::{
    ReadQuery, ReadRequest, ResponseType, SAMPLES_CONTENT_TYPE, STREAMED_CONTENT_TYPE,
    decode_read_request, finish_response, push_query_result, push_series_frames, push_time_series,
};
use icecore_wire::prometheus::{check_content_encoding, snappy};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::middleware::body::{collect, read_to_the_end};
use crate::middleware::error::ApiError;
use crate::read::external_labels::{
    ExternalLabels, external_labels, with_external, without_external,
};
use crate::read::resolution::RolledUpTime;

/// Requests hold matchers only: a hundredth of this is a lot.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Samples that are encoded at a time: a few hundred kilobytes of chunks. A longer series is a
/// piece by itself.
const PIECE_SAMPLES: usize = 64 << 10;

pub(crate) async fn read(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let answered = match read_body(&app, &head.headers, &mut body).await {
        Ok(compressed) => answer(&app, compressed).await,
        Err(error) => {
            read_to_the_end(&mut body, &head.headers).await;
            Err(error)
        }
    };
    answered.unwrap_or_else(ApiError::into_response)
}

async fn read_body(app: &App, headers: &HeaderMap, body: &mut Body) -> Result<Bytes, ApiError> {
    app.database()?;
    let encoding = headers.get(header::CONTENT_ENCODING);
    let encoding = encoding.map(|value| value.to_str().unwrap_or("not ASCII"));
    check_content_encoding(encoding).map_err(|error| ApiError::unsupported_content(&error))?;
    let limit = "the limit for remote read requests";
    collect(body, REQUEST_BYTES_MAX, limit, |_| Ok(())).await
}

/// The request of a body. CPU work, which compiles the patterns of matchers.
fn decode(compressed: &[u8]) -> Result<ReadRequest, ApiError> {
    let mut buffer = Vec::new();
    let message = snappy::decompress(compressed, &mut buffer, REQUEST_BYTES_MAX)
        .map_err(|error| ApiError::bad_data(format!("snappy: {error}")))?;
    decode_read_request(message).map_err(|error| ApiError::bad_data(error.to_string()))
}

async fn answer(app: &App, compressed: Bytes) -> Result<Response, ApiError> {
    let config = app.config();
    let timeout = config.server.request_timeout;
    let late = || ApiError::timeout("the answer took longer than server.request_timeout");
    let slot = tokio::time::timeout(timeout, app.limits.read_slot());
    let slot = slot.await.map_err(|_| late())??;
    let request = decode(&compressed)?;
    let reader = Reader {
        database: app.database()?.clone(),
        external: Arc::new(external_labels(app)),
        gathered_bytes_max: config.server.remote_read_bytes_max,
        frame_bytes: config.server.remote_read_frame_bytes,
        batch_timeout: timeout,
        memory: app.queries.memory(),
        rolled: Mutex::default(),
        _slot: slot,
    };
    match request.response_type {
        ResponseType::Samples => {
            let sampled = sampled_answer(reader, request.queries);
            tokio::time::timeout(timeout, sampled)
                .await
                .map_err(|_| late())?
        }
        ResponseType::StreamedChunks => streamed_answer(reader, request.queries).await,
    }
}

async fn sampled_answer(reader: Reader, queries: Vec<ReadQuery>) -> Result<Response, ApiError> {
    let mut results = Vec::with_capacity(queries.len());
    let mut bytes_left = reader.gathered_bytes_max;
    for query in queries {
        results.push(
            reader
                .gather(&query, SeriesEncoding::Samples, &mut bytes_left)
                .await?,
        );
    }
    let body = blocking(move || {
        let mut response = Vec::new();
        for result in results {
            push_query_result(&mut response, &result);
        }
        finish_response(&response)
    })
    .await?
    .ok_or_else(|| ApiError::internal("the answer is too long for snappy"))?;
    let headers = [
        (header::CONTENT_TYPE, SAMPLES_CONTENT_TYPE),
        (header::CONTENT_ENCODING, "snappy"),
    ];
    let rolled = reader.rolled.into_inner();
    Ok(rolled.announce((headers, body).into_response()))
}

async fn streamed_answer(reader: Reader, queries: Vec<ReadQuery>) -> Result<Response, ApiError> {
    let mut frames = Frames {
        reader,
        queries: queries.into_iter().enumerate().collect(),
        current: None,
    };
    let first = frames.next_piece().await?;
    let rolled = frames.rolled_up_time();
    let pieces = stream::try_unfold((first, frames), |(ready, mut frames)| async move {
        let piece = match ready {
            Some(first) => Some(first),
            None => frames.next_piece().await.map_err(broken_off)?,
        };
        Ok::<_, std::io::Error>(piece.map(|piece| (piece, (None, frames))))
    });
    let headers = [(header::CONTENT_TYPE, STREAMED_CONTENT_TYPE)];
    Ok(rolled.announce((headers, Body::from_stream(pieces)).into_response()))
}

/// An error that aborts the connection. The client learns no more than that, so the reason is
/// logged.
fn broken_off(error: ApiError) -> std::io::Error {
    let reason = error.to_string();
    tracing::error!(reason, "remote read aborted");
    std::io::Error::other(reason)
}

/// How a series is written.
#[derive(Clone, Copy)]
enum SeriesEncoding {
    Samples,
    Frames {
        query_index: usize,
        frame_bytes: usize,
    },
}

impl SeriesEncoding {
    fn push(self, out: &mut Vec<u8>, series: &SeriesSamples) {
        match self {
            Self::Samples => push_time_series(out, series),
            Self::Frames {
                query_index,
                frame_bytes,
            } => push_series_frames(out, query_index, series, frame_bytes),
        }
    }
}

/// What the queries of a request share.
struct Reader {
    database: Database,
    external: Arc<ExternalLabels>,
    gathered_bytes_max: usize,
    frame_bytes: usize,
    /// How long the store may take for the next series.
    batch_timeout: Duration,
    /// Of what the selections hold beside their batches.
    memory: Arc<MemoryBudget>,
    /// Of the queries that have been opened.
    rolled: Mutex<RolledUpTime>,
    _slot: OwnedSemaphorePermit,
}

impl Reader {
    async fn open(&self, query: &ReadQuery) -> Result<Batches, ApiError> {
        let selection = Selection {
            matchers: self.matchers(query),
            start_ms: query.start_ms.max(0),
            end_ms: query.end_ms.min(MAX_TIMESTAMP_MS),
            hints: SelectHints {
                labels_only: query.labels_only,
                memory: Some(Arc::clone(&self.memory)),
                ..SelectHints::default()
            },
        };
        let stream: Option<Box<dyn SeriesStream>> = if selection.start_ms <= selection.end_ms {
            let selected = self.database.select(selection);
            let stream = self.in_time(selected).await??;
            if !query.labels_only {
                self.rolled.lock().add(&stream.levels());
            }
            Some(Box::new(stream))
        } else {
            None
        };
        Ok(Batches {
            stream,
            timeout: self.batch_timeout,
            labels_only: query.labels_only,
        })
    }

    fn matchers(&self, query: &ReadQuery) -> Vec<Matcher> {
        let matchers = query.matchers.iter().cloned();
        matchers
            .map(|matcher| without_external(matcher, &self.external))
            .collect()
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, ApiError> {
        let done = tokio::time::timeout(self.batch_timeout, work).await;
        done.map_err(|_| too_slow())
    }

    /// All series of a query, each in its form, in Prometheus' order.
    async fn gather(
        &self,
        query: &ReadQuery,
        form: SeriesEncoding,
        bytes_left: &mut usize,
    ) -> Result<Vec<Bytes>, ApiError> {
        let mut batches = self.open(query).await?;
        let mut gathered: Vec<(Labels, Bytes)> = Vec::new();
        while let Some(mut batch) = batches.next().await? {
            let external = Arc::clone(&self.external);
            let encoded = blocking(move || {
                add_external(&external, &mut batch);
                encode_each(&batch, form)
            })
            .await?;
            let bytes: usize = encoded.iter().map(|(_, bytes)| bytes.len()).sum();
            *bytes_left = bytes_left
                .checked_sub(bytes)
                .ok_or_else(|| self.too_much())?;
            gathered.extend(encoded);
        }
        blocking(move || {
            gathered.sort_by(|(a, _), (b, _)| a.iter().cmp(b.iter()));
            gathered.into_iter().map(|(_, bytes)| bytes).collect()
        })
        .await
    }

    fn too_much(&self) -> ApiError {
        StorageError::LimitReached(format!(
            "the answer has more than server.remote_read_bytes_max = {} bytes: \
             ask for fewer series, a shorter time, or streamed chunks",
            self.gathered_bytes_max
        ))
        .into()
    }

    /// Begins to answer a query in frames.
    async fn begin(&self, query_index: usize, query: &ReadQuery) -> Result<Current, ApiError> {
        let form = SeriesEncoding::Frames {
            query_index,
            frame_bytes: self.frame_bytes,
        };
        if self.may_be_out_of_order(query).await? {
            let mut bytes_left = self.gathered_bytes_max;
            let gathered = self.gather(query, form, &mut bytes_left).await?;
            return Ok(Current::Gathered(gathered.into_iter()));
        }
        Ok(Current::Streamed {
            form,
            external: Arc::clone(&self.external),
            batches: self.open(query).await?,
            batch: VecDeque::new(),
        })
    }

    /// Whether our order may differ from Prometheus' for this query, see the head of this file.
    async fn may_be_out_of_order(&self, query: &ReadQuery) -> Result<bool, ApiError> {
        let within = |selectors| LabelQuery {
            selectors,
            start_ms: query.start_ms.max(0),
            end_ms: query.end_ms.min(MAX_TIMESTAMP_MS),
            limit: Some(1),
            memory: Some(Arc::clone(&self.memory)),
        };
        let names = self
            .in_time(self.database.label_names(&within(Vec::new())))
            .await??;
        if names
            .first()
            .is_some_and(|first| first.as_str() < METRIC_NAME)
        {
            return Ok(true);
        }
        let named = query
            .matchers
            .iter()
            .any(|m| m.name() == METRIC_NAME && !m.matches(""));
        if named {
            return Ok(false);
        }
        let mut nameless = self.matchers(query);
        nameless.push(Matcher::equal(METRIC_NAME, ""));
        let found = self
            .in_time(self.database.series(&within(vec![nameless])))
            .await??;
        Ok(!found.is_empty())
    }
}

fn too_slow() -> ApiError {
    ApiError::timeout("the store took too long for the next series")
}

/// The series of one query, in our order.
struct Batches {
    /// Absent when no time lies within the query's range.
    stream: Option<Box<dyn SeriesStream>>,
    timeout: Duration,
    labels_only: bool,
}

impl Batches {
    /// Series with something in them; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<SeriesSamples>>, ApiError> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        let batch = tokio::time::timeout(self.timeout, stream.next_batch()).await;
        let batch = batch.map_err(|_| too_slow())??;
        Ok(batch.map(|mut batch| {
            batch.retain(|series| self.labels_only || series.sample_count() > 0);
            batch
        }))
    }
}

/// The frames of an answer that are still to come.
struct Frames {
    reader: Reader,
    queries: VecDeque<(usize, ReadQuery)>,
    current: Option<Current>,
}

/// The query that is being answered.
enum Current {
    Streamed {
        form: SeriesEncoding,
        external: Arc<ExternalLabels>,
        batches: Batches,
        batch: VecDeque<SeriesSamples>,
    },
    Gathered(std::vec::IntoIter<Bytes>),
}

impl Frames {
    /// What the answer reads of rolled-up time: the queries that are open, and those that will be.
    fn rolled_up_time(&self) -> RolledUpTime {
        let mut rolled = std::mem::take(&mut *self.reader.rolled.lock());
        for (_, query) in self.queries.iter().filter(|(_, query)| !query.labels_only) {
            let (start_ms, end_ms) = (query.start_ms.max(0), query.end_ms.min(MAX_TIMESTAMP_MS));
            rolled.add(&self.reader.database.levels(start_ms, end_ms));
        }
        rolled
    }

    /// The next piece of whole frames; `None` at the end.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let Some(current) = &mut self.current else {
                let Some((query_index, query)) = self.queries.pop_front() else {
                    return Ok(None);
                };
                self.current = Some(self.reader.begin(query_index, &query).await?);
                continue;
            };
            match current.next_piece().await? {
                Some(piece) if !piece.is_empty() => return Ok(Some(piece)),
                Some(_) => {}
                None => self.current = None,
            }
        }
    }
}

impl Current {
    /// The next piece, which may be empty; `None` at the end.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        let (form, external, batches, batch) = match self {
            Self::Gathered(pieces) => return Ok(pieces.next()),
            Self::Streamed {
                form,
                external,
                batches,
                batch,
            } => (*form, Arc::clone(external), batches, batch),
        };
        if batch.is_empty() {
            match batches.next().await? {
                Some(next) => *batch = next.into(),
                None => return Ok(None),
            }
        }
        let mut series = take_series(batch);
        let encode = move || {
            add_external(&external, &mut series);
            let mut out = Vec::new();
            for series in &series {
                form.push(&mut out, series);
            }
            Bytes::from(out)
        };
        blocking(encode).await.map(Some)
    }
}

/// Series for one piece.
fn take_series(batch: &mut VecDeque<SeriesSamples>) -> Vec<SeriesSamples> {
    let mut taken = Vec::new();
    let mut samples = 0;
    while samples < PIECE_SAMPLES {
        let Some(series) = batch.pop_front() else {
            break;
        };
        samples += series.sample_count();
        taken.push(series);
    }
    taken
}

fn add_external(external: &ExternalLabels, batch: &mut [SeriesSamples]) {
    if external.is_empty() {
        return;
    }
    for series in batch {
        series.labels = with_external(&series.labels, external);
    }
}

/// Each series in its form, all in one piece of memory.
fn encode_each(batch: &[SeriesSamples], form: SeriesEncoding) -> Vec<(Labels, Bytes)> {
    let mut out = Vec::new();
    let mut ends = Vec::with_capacity(batch.len());
    for series in batch {
        form.push(&mut out, series);
        ends.push(out.len());
    }
    let out = Bytes::from(out);
    let mut start = 0;
    let encoded = batch.iter().zip(ends).map(|(series, end)| {
        let bytes = out.slice(start..end);
        start = end;
        (series.labels.clone(), bytes)
    });
    encoded.collect()
}

/// Runs work that takes its time on a thread that may be busy.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(error.to_string()))
}
