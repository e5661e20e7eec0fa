//! Storing batches: as few hours per write as the store takes, and patience while it flushes.
//!
//! Holds always:
//! - Writes of one import happen one after the other, so that what comes later in the body wins.
//! - What was counted is durable.
//! - A store that is busy is asked again for [`PATIENCE`]; then the import ends with what it has.

use std::sync::Arc;
use std::time::Duration;

use icecore_model::HOUR_MS;
use icecore_storage::{Database, Error as StorageError, WriteBatch, WriteError, WriteOutcome};
use icecore_wire::native::Counts;
use icecore_wire::prometheus::api_json::{write_list, write_string};
use icecore_wire::sample_batch::TimeWindow;
use parking_lot::Mutex;

use super::batch::{BadFrame, Batch, Content, Rejection, refuse};
use crate::middleware::error::ApiError;

/// How long one write is tried when the store says that it is busy. A flush of many hours takes
/// seconds, on a slow remote store a minute.
const PATIENCE: Duration = Duration::from_secs(300);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Of the hours that may be open at once, an import takes a part with each write: the rest is for
/// what arrives meanwhile, and for hours that are being flushed.
const OPEN_HOURS_DIVISOR: usize = 4;

/// What became of an import so far.
#[derive(Default)]
pub(super) struct Totals {
    lines: u64,
    samples: u64,
    histograms: u64,
    exemplars: u64,
    rejected: Vec<Rejection>,
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

    /// Returns what was not stored, one text for each reason.
    pub(super) fn warnings(&self) -> Vec<String> {
        let warning = |refused: &Rejection| match refused.line {
            Some(line) => format!(
                "{} not stored: {}, first in line {line}",
                refused.count, refused.reason
            ),
            None => format!("{} not stored: {}", refused.count, refused.reason),
        };
        self.rejected.iter().map(warning).collect()
    }

    fn add(&mut self, outcome: WriteOutcome) {
        self.samples += outcome.samples;
        self.histograms += outcome.histograms;
        self.exemplars += outcome.exemplars;
        for rejection in outcome.rejected {
            let refused = Rejection {
                reason: rejection.reason,
                count: rejection.count,
                line: None,
            };
            refuse(&mut self.rejected, refused);
        }
    }
}

pub(super) struct Store {
    database: Database,
    /// Hours and samples of one write.
    hours_max: i64,
    samples_max: usize,
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
            samples_max: limits.samples_per_request_max.max(1),
            database,
            totals: Totals::default(),
            counts: Counts::default(),
            frames: 0,
        }
    }

    /// Stores a batch, whatever it spans.
    pub(super) async fn store(&mut self, batch: Batch) -> Result<(), ApiError> {
        for refused in batch.refused {
            refuse(&mut self.totals.rejected, refused);
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

    /// Stores the content, of frames the first `frames`, part by part.
    async fn frames_of(
        &mut self,
        content: &Arc<Content>,
        frames: usize,
    ) -> Result<Result<Counts, BadFrame>, ApiError> {
        let mut part = self.first_part(content);
        let mut counts = None;
        loop {
            let progress = match self.write(content, frames, part).await? {
                Ok(progress) => progress,
                Err(bad) => return Ok(Err(bad)),
            };
            let counts = *counts.get_or_insert(progress.counts);
            let Some(stored) = part else {
                return Ok(Ok(counts));
            };
            let (window, skip) = match (progress.has_more, progress.next_ms) {
                (true, _) => (stored.window, stored.skip.saturating_add(self.samples_max)),
                (false, i64::MAX) => return Ok(Ok(counts)),
                (false, next_ms) => (self.window_from(next_ms), 0),
            };
            part = Some(WriteSlice {
                window,
                skip,
                first: false,
            });
        }
    }

    /// The first part of what does not fit into one write; `None` when it does.
    fn first_part(&self, content: &Content) -> Option<WriteSlice> {
        let (first, last) = content.span()?;
        let hours = (last.div_euclid(HOUR_MS)).saturating_sub(first.div_euclid(HOUR_MS));
        let fits = hours < self.hours_max && content.samples() <= self.samples_max;
        (!fits).then(|| WriteSlice {
            window: self.window_from(first),
            skip: 0,
            first: true,
        })
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
        part: Option<WriteSlice>,
    ) -> Result<Result<WriteProgress, BadFrame>, ApiError> {
        let samples_max = self.samples_max;
        let mut pause = FIRST_PAUSE;
        let mut waited = Duration::ZERO;
        loop {
            let progress = Arc::new(Mutex::new(WriteProgress::default()));
            let (content, shared) = (Arc::clone(content), Arc::clone(&progress));
            let fill = move |batch: &mut WriteBatch<'_>| {
                let mut progress = WriteProgress::default();
                match part {
                    None => progress.counts = content.write_to(frames, batch)?,
                    Some(part) => {
                        let (start_ms, end_ms) = part.window;
                        let window = TimeWindow::new(batch, start_ms, end_ms, part.first);
                        let mut window = window.part(part.skip, samples_max);
                        progress.counts = content.write_to(frames, &mut window)?;
                        progress.next_ms = window.next_ms();
                        progress.has_more = window.has_more();
                    }
                }
                *shared.lock() = progress;
                Ok(())
            };
            match self.database.write(fill).await {
                Ok(outcome) => {
                    self.totals.add(outcome);
                    let progress = *progress.lock();
                    return Ok(Ok(progress));
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

/// The part of a batch that goes into one write.
#[derive(Clone, Copy)]
struct WriteSlice {
    /// From when to when, in ms, without the end.
    window: (i64, i64),
    /// Samples in the window that were stored before.
    skip: usize,
    first: bool,
}

/// How far a write got in the content.
#[derive(Clone, Copy)]
struct WriteProgress {
    counts: Counts,
    /// The first timestamp behind the window; `i64::MAX` when there is none.
    next_ms: i64,
    /// Whether there is more in the window.
    has_more: bool,
}

impl Default for WriteProgress {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            next_ms: i64::MAX,
            has_more: false,
        }
    }
}
