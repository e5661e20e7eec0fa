//! A piece of an import between the thread that reads and the task that stores.

use icecore_model::SampleSink;
use icecore_wire::native::{
    Counts, Frame, FrameError, FrameKind, Summary, decode_metadata, decode_series, summary_of,
};
use icecore_wire::sample_batch::SampleBatch;

/// Different reasons that an answer spells out; further ones are only counted.
const REASONS_MAX: usize = 16;

/// What is stored together, and how far the reading was.
pub(super) struct Batch {
    pub(super) content: Content,
    /// Good lines or frames up to the end of this batch.
    pub(super) lines: u64,
    /// The last line or frame of which something is in this batch or before.
    pub(super) last_line: u64,
    /// What the reader refused.
    pub(super) refused: Vec<Rejection>,
    /// What the stream says it holds, when it ends here.
    pub(super) announced: Option<Counts>,
}

/// Something that was not stored.
#[derive(Clone, Debug)]
pub(super) struct Rejection {
    pub(super) reason: String,
    pub(super) count: u64,
    /// Where it was seen first, if it is about lines.
    pub(super) line: Option<u64>,
}

pub(super) enum Content {
    Gathered(Box<SampleBatch>),
    Frames(Vec<Frame>),
}

/// A frame that cannot be read, counted from the beginning of its batch.
#[derive(Debug)]
pub(super) struct BadFrame {
    pub(super) index: usize,
    pub(super) error: FrameError,
}

impl Content {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Gathered(gathered) => gathered.is_empty(),
            Self::Frames(frames) => frames.is_empty(),
        }
    }

    /// First and last timestamp that can be stored, as far as it is known without reading.
    pub(super) fn span(&self) -> Option<(i64, i64)> {
        let frames = match self {
            Self::Gathered(gathered) => return gathered.span(),
            Self::Frames(frames) => frames,
        };
        // A frame without a summary is invalid, which decoding it reports.
        let spans = frames
            .iter()
            .filter_map(summary)
            .map(|summary| summary.span);
        spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// Samples, histograms and exemplars, as far as it is known without reading.
    pub(super) fn samples(&self) -> usize {
        match self {
            Self::Gathered(gathered) => gathered.len(),
            Self::Frames(frames) => frames.iter().map(samples_of).sum(),
        }
    }

    /// Writes everything to a sink; of frames, `frames` of them.
    pub(super) fn write_to(
        &self,
        frames: usize,
        sink: &mut impl SampleSink,
    ) -> Result<Counts, BadFrame> {
        let mut counts = Counts::default();
        match self {
            Self::Gathered(gathered) => gathered.replay(sink),
            Self::Frames(all) => {
                for (index, frame) in all.iter().take(frames).enumerate() {
                    let written = match frame.kind {
                        FrameKind::Series => decode_series(&frame.payload, sink),
                        FrameKind::Metadata => decode_metadata(&frame.payload, sink),
                        FrameKind::End => Ok(Counts::default()),
                    };
                    counts.add(written.map_err(|error| BadFrame { index, error })?);
                }
            }
        }
        Ok(counts)
    }
}

/// Samples that a frame says it has.
pub(super) fn samples_of(frame: &Frame) -> usize {
    // More than there are bytes it cannot have.
    let most = frame.payload.len();
    summary(frame).map_or(0, |summary| {
        usize::try_from(summary.samples).unwrap_or(most).min(most)
    })
}

fn summary(frame: &Frame) -> Option<Summary> {
    match frame.kind {
        FrameKind::Series => summary_of(&frame.payload).ok(),
        FrameKind::Metadata | FrameKind::End => None,
    }
}

/// Adds to a list of reasons that does not become longer than `REASONS_MAX`.
pub(super) fn refuse(list: &mut Vec<Rejection>, refused: Rejection) {
    let same = |known: &&mut Rejection| {
        known.reason == refused.reason && known.line.is_some() == refused.line.is_some()
    };
    if let Some(known) = list.iter_mut().find(same) {
        known.count += refused.count;
    } else if list.len() < REASONS_MAX {
        list.push(refused);
    } else if let Some(last) = list.last_mut() {
        last.reason = "other reasons".into();
        last.count += refused.count;
    }
}
