//! The thread that reads an import: text and frames become batches.
//!
//! Holds always: batches are handed over in order, one ahead of the one being stored; when nobody
//! takes them any more, reading ends.

use std::io;
use std::mem;
use std::sync::Arc;

use icecore_wire::exposition::{ImportOptions as ExpositionOptions, TextImport};
use icecore_wire::native::{
    Frame, FrameKind, FrameReader, MAGIC, Step as FrameStep, decode_counts,
};
use icecore_wire::prometheus::import::{BatchLimits, LineReader, Step};
use icecore_wire::sample_batch::SampleBatch;
use tokio::sync::mpsc;

use super::batch::{Batch, Content, Rejection, refuse, samples_of};
use super::feed::{Buffer, Meter, TooMuchWork};
use super::{Format, ImportOptions};
use crate::middleware::error::ApiError;
use crate::middleware::limits::WriteMemory;

/// What waits in memory is accounted for in steps of this many bytes.
const HELD_STEP_BYTES: usize = 1 << 20;

/// Frames that are stored together, by their bytes.
const FRAMES_BYTES: usize = 4 << 20;

/// How much of an exposition is read before the size of the batch is looked at: a few thousand
/// lines.
const EXPOSITION_BYTES: usize = 64 << 10;

/// Why reading ended early.
pub(super) enum ReadError {
    /// The receiver is gone; it knows why.
    Cancelled,
    Failed(ApiError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        let message = format!("the body cannot be read: {error}");
        let cause = error.get_ref();
        Self::Failed(if cause.is_some_and(|cause| cause.is::<TooMuchWork>()) {
            ApiError::too_large(message)
        } else {
            ApiError::bad_data(message)
        })
    }
}

pub(super) struct BatchReader {
    pub(super) options: ImportOptions,
    pub(super) limits: BatchLimits,
    pub(super) batches: mpsc::Sender<Batch>,
    pub(super) memory: WriteMemory,
    /// Counts waiting for the limit of compressed bodies.
    pub(super) meter: Arc<Meter>,
}

impl BatchReader {
    /// Reads to the end.
    pub(super) fn run(mut self, mut buffer: Buffer) -> Result<(), ReadError> {
        buffer.fill(MAGIC.len())?;
        let is_native = buffer.rest().first() == MAGIC.first();
        match mem::replace(&mut self.options.format, Format::FoundOut) {
            Format::Json => self.lines(&mut buffer),
            Format::Native => self.frames(&mut buffer),
            Format::FoundOut if is_native => self.frames(&mut buffer),
            Format::FoundOut => self.lines(&mut buffer),
            Format::Exposition(options) => self.exposition(&mut buffer, options),
        }
    }

    /// Lines that cannot be parsed are reported with the batch; the others are stored.
    fn exposition(
        &mut self,
        buffer: &mut Buffer,
        options: ExpositionOptions,
    ) -> Result<(), ReadError> {
        let mut import = TextImport::new(options);
        let mut gathered = SampleBatch::default();
        let mut lines = 0;
        loop {
            let part = buffer.rest();
            let part = part
                .get(..EXPOSITION_BYTES.min(part.len()))
                .unwrap_or_default();
            let length = part.len();
            lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
            import.push(part, &mut gathered);
            buffer.consume(length);
            let ends = buffer.at_end() && buffer.rest().is_empty();
            let full =
                gathered.len() >= self.limits.samples || gathered.bytes() >= self.limits.bytes;
            if full && !ends {
                let batch = batch_of(mem::take(&mut gathered), Vec::new(), lines, lines);
                self.send(batch)?;
                import.forget_series();
            }
            if ends {
                break;
            }
            if buffer.rest().is_empty()
                && let Err(error) = buffer.fill(EXPOSITION_BYTES)
            {
                // What is good before the break is stored; the line that it cut is not.
                let good = lines.saturating_sub(import.counts().refused_lines);
                self.send(batch_of(gathered, Vec::new(), good, lines))?;
                return Err(error.into());
            }
        }
        let imported = import.finish(&mut gathered);
        let good = lines.saturating_sub(imported.refused_lines);
        self.send(batch_of(gathered, Vec::new(), good, lines))?;
        match imported.refused_lines {
            0 => Ok(()),
            _ if self.options.skip_errors => Ok(()),
            refused => {
                let message = format!("{refused} lines cannot be read; the others are stored");
                Err(ReadError::Failed(ApiError::bad_data(message)))
            }
        }
    }

    fn lines(&mut self, buffer: &mut Buffer) -> Result<(), ReadError> {
        let mut reader = LineReader::new(self.limits);
        let mut gathered = SampleBatch::default();
        let mut refused = Vec::new();
        let mut held_bytes = 0;
        loop {
            let (taken, step) = reader.advance(buffer.rest(), buffer.at_end(), &mut gathered);
            buffer.consume(taken);
            while reader.pending_bytes() > held_bytes {
                self.memory
                    .grow(HELD_STEP_BYTES)
                    .map_err(ReadError::Failed)?;
                held_bytes += HELD_STEP_BYTES;
            }
            let mut send = |refused: &mut Vec<Rejection>| {
                let last_line = reader.line().saturating_sub(1);
                let (content, refused) = (mem::take(&mut gathered), mem::take(refused));
                self.send(batch_of(content, refused, reader.lines_read(), last_line))
            };
            match step {
                Step::More { at_least } => {
                    if let Err(error) = buffer.fill(at_least) {
                        // What is good before the break is stored.
                        send(&mut refused)?;
                        return Err(error.into());
                    }
                }
                Step::Full => send(&mut refused)?,
                Step::End => return send(&mut refused),
                Step::Bad { line, reason } if self.options.skip_errors => {
                    let line = Some(line);
                    let (count, list) = (1, &mut refused);
                    refuse(
                        list,
                        Rejection {
                            reason,
                            count,
                            line,
                        },
                    );
                }
                Step::Bad { line, reason } => {
                    send(&mut refused)?;
                    let message = format!("line {line}: {reason}");
                    return Err(ReadError::Failed(ApiError::bad_data(message)));
                }
            }
        }
    }

    fn frames(&mut self, buffer: &mut Buffer) -> Result<(), ReadError> {
        let mut reader = FrameReader::default();
        let mut number = 0;
        let mut frames = Vec::new();
        let (mut bytes, mut samples) = (0, 0);
        loop {
            let step = reader.next(buffer.rest(), buffer.at_end());
            let at = number + 1;
            match step {
                Ok(FrameStep::More { at_least }) => {
                    if let Err(error) = buffer.fill(at_least) {
                        self.send_frames(&mut frames, number, None)?;
                        return Err(error.into());
                    }
                }
                Ok(FrameStep::End) => return self.send_frames(&mut frames, number, None),
                Ok(FrameStep::Frame { frame, taken }) => {
                    buffer.consume(taken);
                    number += 1;
                    if frame.kind == FrameKind::End {
                        let counts = match decode_counts(&frame.payload) {
                            Ok(counts) => counts,
                            Err(error) => {
                                self.send_frames(&mut frames, number - 1, None)?;
                                let message = format!("frame {at}: {error}");
                                return Err(ReadError::Failed(ApiError::bad_data(message)));
                            }
                        };
                        let counts = Some(counts).filter(|_| !self.options.partial);
                        self.send_frames(&mut frames, number, counts)?;
                        (bytes, samples) = (0, 0);
                        continue;
                    }
                    let more = samples_of(&frame);
                    if samples + more > self.limits.samples || bytes >= FRAMES_BYTES {
                        self.send_frames(&mut frames, number - 1, None)?;
                        (bytes, samples) = (0, 0);
                    }
                    bytes += frame.payload.len();
                    samples += more;
                    frames.push(frame);
                }
                Err(error) => {
                    let cut_on_purpose = error == icecore_wire::native::FrameError::Truncated
                        && self.options.partial
                        && buffer.rest().is_empty();
                    self.send_frames(&mut frames, number, None)?;
                    if cut_on_purpose {
                        return Ok(());
                    }
                    let message = format!("frame {at}: {error}");
                    return Err(ReadError::Failed(ApiError::bad_data(message)));
                }
            }
        }
    }

    fn send_frames(
        &self,
        frames: &mut Vec<Frame>,
        number: u64,
        announced: Option<icecore_wire::native::Counts>,
    ) -> Result<(), ReadError> {
        self.send(Batch {
            content: Content::Frames(mem::take(frames)),
            lines: number,
            last_line: number,
            refused: Vec::new(),
            announced,
        })
    }

    fn send(&self, batch: Batch) -> Result<(), ReadError> {
        let sent = self.meter.waiting(|| self.batches.blocking_send(batch));
        sent.map_err(|_| ReadError::Cancelled)
    }
}

fn batch_of(
    mut content: SampleBatch,
    mut refused: Vec<Rejection>,
    lines: u64,
    last_line: u64,
) -> Batch {
    let rejected = content.take_rejected().into_iter();
    refused.extend(rejected.map(|(reason, count)| Rejection {
        reason,
        count,
        line: None,
    }));
    Batch {
        content: Content::Gathered(Box::new(content)),
        lines,
        last_line,
        refused,
        announced: None,
    }
}
