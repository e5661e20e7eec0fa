//! A piece of an import between the thread that reads and the task that stores.

use icecore_model::SampleSink;
use icecore_wire::gather::Gathered;
use icecore_wire::native::{
    Counts, Frame, FrameError, FrameKind, decode_metadata, decode_series, span_of,
};

/// What is stored together, and how far the reading was.
pub(super) struct Batch {
    pub(super) content: Content,
    /// Good lines or frames up to the end of this batch.
    pub(super) lines: u64,
    /// The last line or frame of which something is in this batch or before.
    pub(super) last_line: u64,
    /// What the reader refused.
    pub(super) refused: Vec<Refused>,
    /// What the stream says it holds, when it ends here.
    pub(super) announced: Option<Counts>,
}

/// Something that was not stored.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) count: u64,
    /// Where it was seen first, if it is about lines.
    pub(super) line: Option<u64>,
}

pub(super) enum Content {
    Gathered(Gathered),
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
        let series = frames
            .iter()
            .filter(|frame| frame.kind == FrameKind::Series);
        // One that has no span has more that is wrong, which reading it tells.
        let spans = series.filter_map(|frame| span_of(&frame.payload).ok());
        spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// Tells everything to a sink; of frames, `frames` of them.
    pub(super) fn tell(
        &self,
        frames: usize,
        sink: &mut impl SampleSink,
    ) -> Result<Counts, BadFrame> {
        let mut counts = Counts::default();
        match self {
            Self::Gathered(gathered) => gathered.replay(sink),
            Self::Frames(all) => {
                for (index, frame) in all.iter().take(frames).enumerate() {
                    let told = match frame.kind {
                        FrameKind::Series => decode_series(&frame.payload, sink),
                        FrameKind::Metadata => decode_metadata(&frame.payload, sink),
                        FrameKind::End => Ok(Counts::default()),
                    };
                    counts.add(told.map_err(|error| BadFrame { index, error })?);
                }
            }
        }
        Ok(counts)
    }
}
