//! Storing batches: as few hours per write as the store takes, and patience while it flushes.
//!
//! Holds always:
//! - Writes of one import happen one after the other, so that what comes later in the body wins.
//! - What was counted is durable.
//! - A store that is busy is asked again for [`PATIENCE`]; then the import ends with what it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use icecore_model::HOUR_MS;
use icecore_storage::{Database, Error as StorageError, WriteBatch, WriteError, WriteOutcome};
use icecore_wire::gather::Window;
use icecore_wire::native::Counts;
use icecore_wire::prometheus::api_json::{write_list, write_string};
use parking_lot::Mutex;

use super::batch::{BadFrame, Batch, Content, Refused};
use crate::http::error::ApiError;

/// How long one write is tried when the store says that it is busy. A flush of many hours takes
/// seconds, on a slow remote store a minute.
const PATIENCE: Duration = Duration::from_secs(300);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Of the hours that may be open at once, an import takes a part with each write: the rest is for
/// what arrives meanwhile, and for hours that are being flushed.
const OPEN_HOURS_DIVISOR: usize = 4;

/// Different reasons that an answer spells out; further ones are only counted.
const REASONS_MAX: usize = 16;

/// What became of an import so far.
#[derive(Default)]
pub(super) struct Totals {
    lines: u64,
    samples: u64,
    histograms: u64,
    exemplars: u64,
    rejected: Vec<Refused>,
    last_line: u64,
}

impl Totals {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, key: &str, value: u64| {
            out.extend_from_slice(format!("\"{key}\":{value},").as_bytes());
        };
        out.push(b'{');
        number(out, "lines", self.lines);
        number(out, "samples", self.samples);
        number(out, "histograms", self.histograms);
        number(out, "exemplars", self.exemplars);
        number(out, "lastLine", self.last_line);
        out.extend_from_slice(b"\"rejected\":");
        write_list(out, &self.rejected, |out, refused| {
            out.extend_from_slice(b"{\"reason\":");
            write_string(out, &refused.reason);
            out.extend_from_slice(format!(",\"count\":{}", refused.count).as_bytes());
            if let Some(line) = refused.line {
                out.extend_from_slice(format!(",\"line\":{line}").as_bytes());
            }
            out.push(b'}');
        });
        out.push(b'}');
    }

    fn refuse(&mut self, refused: Refused) {
        let same = |known: &&mut Refused| {
            known.reason == refused.reason && known.line.is_some() == refused.line.is_some()
        };
        if let Some(known) = self.rejected.iter_mut().find(same) {
            known.count += refused.count;
        } else if self.rejected.len() < REASONS_MAX {
            self.rejected.push(refused);
        } else if let Some(last) = self.rejected.last_mut() {
            last.reason = "other reasons".into();
            last.count += refused.count;
        }
    }

    fn add(&mut self, outcome: WriteOutcome) {
        self.samples += outcome.samples;
        self.histograms += outcome.histograms;
        self.exemplars += outcome.exemplars;
        for rejection in outcome.rejected {
            self.refuse(Refused {
                reason: rejection.reason,
                count: rejection.count,
                line: None,
            });
        }
    }
}

pub(super) struct Store {
    database: Database,
    hours_max: i64,
    pub(super) totals: Totals,
    /// What frames held since the beginning of the stream.
    counts: Counts,
    /// Frames before the batch.
    frames: u64,
}

impl Store {
    pub(super) fn new(database: Database) -> Self {
        let limits = database.limits();
        let open_max = limits.open_buckets_max / OPEN_HOURS_DIVISOR;
        let hours_max = limits.buckets_per_request_max.min(open_max).max(1);
        Self {
            hours_max: i64::try_from(hours_max).unwrap_or(i64::MAX / HOUR_MS),
            database,
            totals: Totals::default(),
            counts: Counts::default(),
            frames: 0,
        }
    }

    /// Stores a batch, whatever it spans.
    pub(super) async fn store(&mut self, batch: Batch) -> Result<(), ApiError> {
        for refused in batch.refused {
            self.totals.refuse(refused);
        }
        let announced = batch.announced;
        let (lines, last_line) = (batch.lines, batch.last_line);
        if !batch.content.is_empty() {
            self.content(Arc::new(batch.content)).await?;
        }
        self.totals.lines = lines;
        self.totals.last_line = last_line;
        self.frames = lines;
        if let Some(announced) = announced {
            let counts = std::mem::take(&mut self.counts);
            if announced != counts {
                return Err(ApiError::bad_data(format!(
                    "frame {lines}: the stream says that it holds {announced:?}, but it holds {counts:?}"
                )));
            }
        }
        Ok(())
    }

    async fn content(&mut self, content: Arc<Content>) -> Result<(), ApiError> {
        match self.frames_of(&content, usize::MAX).await? {
            Ok(counts) => {
                self.counts.add(counts);
                Ok(())
            }
            Err(BadFrame { index, error }) => {
                // The good ones before it are stored all the same.
                let _ = self.frames_of(&content, index).await?;
                let number = self.frames + index as u64 + 1;
                Err(ApiError::bad_data(format!("frame {number}: {error}")))
            }
        }
    }

    /// Stores the content, of frames the first `frames`, window by window.
    async fn frames_of(
        &mut self,
        content: &Arc<Content>,
        frames: usize,
    ) -> Result<Result<Counts, BadFrame>, ApiError> {
        let mut window = None;
        if let Some((first, last)) = content.span() {
            let hours = (last.div_euclid(HOUR_MS)).saturating_sub(first.div_euclid(HOUR_MS));
            if hours >= self.hours_max {
                window = Some(self.window_from(first));
            }
        }
        let mut first = true;
        let mut counts = Counts::default();
        loop {
            let told = match self.write(content, frames, window, first).await? {
                Ok(told) => told,
                Err(bad) => return Ok(Err(bad)),
            };
            if first {
                counts = told.counts;
                first = false;
            }
            match told.next_ms {
                i64::MAX => return Ok(Ok(counts)),
                next => window = Some(self.window_from(next)),
            }
        }
    }

    /// As many hours as one write may have, from that of a timestamp on.
    fn window_from(&self, timestamp_ms: i64) -> (i64, i64) {
        let start = timestamp_ms.div_euclid(HOUR_MS).saturating_mul(HOUR_MS);
        let span = self.hours_max.saturating_mul(HOUR_MS);
        (start, start.saturating_add(span))
    }

    /// One write, as often as it takes.
    async fn write(
        &mut self,
        content: &Arc<Content>,
        frames: usize,
        window: Option<(i64, i64)>,
        first: bool,
    ) -> Result<Result<Told, BadFrame>, ApiError> {
        let mut pause = FIRST_PAUSE;
        let mut waited = Duration::ZERO;
        loop {
            let next = Arc::new(AtomicI64::new(i64::MAX));
            let counts = Arc::new(Mutex::new(Counts::default()));
            let (content, next_ms, told) =
                (Arc::clone(content), Arc::clone(&next), Arc::clone(&counts));
            let fill = move |batch: &mut WriteBatch<'_>| {
                let counts = match window {
                    None => content.tell(frames, batch)?,
                    Some((start_ms, end_ms)) => {
                        let mut windowed = Window::new(batch, start_ms, end_ms, first);
                        let counts = content.tell(frames, &mut windowed)?;
                        next_ms.store(windowed.next_ms(), Relaxed);
                        counts
                    }
                };
                *told.lock() = counts;
                Ok(())
            };
            match self.database.write(fill).await {
                Ok(outcome) => {
                    self.totals.add(outcome);
                    let counts = *counts.lock();
                    let next_ms = next.load(Relaxed);
                    return Ok(Ok(Told { counts, next_ms }));
                }
                Err(WriteError::Decode(bad)) => return Ok(Err(bad)),
                Err(WriteError::Storage(StorageError::Unavailable(_))) if waited < PATIENCE => {
                    tokio::time::sleep(pause).await;
                    waited += pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(WriteError::Storage(error)) => return Err(error.into()),
            }
        }
    }
}

/// What a write learned from the content.
struct Told {
    counts: Counts,
    next_ms: i64,
}
