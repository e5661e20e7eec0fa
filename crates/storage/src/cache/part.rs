//! What a reader gets of a series in an hour of the head, and what names it.

use std::sync::Arc;

use bytes::Bytes;
use icecore_model::BucketStart;
use icecore_records::HistogramEntry;

use super::chunk::Chunk;

/// Names one content of the open chunk of a series in an hour: between rewrites it only grows. The
/// counter would have to go round, which takes a billion late samples for one series, and stop at
/// the same length, for two contents to have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenStamp {
    pub(crate) rewrites: u32,
    pub(crate) len: u32,
}

/// What a reader gets of an hour: samples, not exemplars.
pub(crate) struct PartCopy {
    pub(crate) hour: BucketStart,
    pub(crate) frozen: bool,
    /// In-order samples; empty when there are none.
    pub(crate) stream: Bytes,
    /// The stream is a copy of the open chunk of this name.
    pub(crate) open: Option<OpenStamp>,
    /// What the stream decodes to where that is known: then it was not copied.
    pub(crate) known: Option<Arc<Chunk>>,
    pub(crate) side: Option<Box<SideLists>>,
}

/// What a copied stream takes beside its bytes: counters, and what the allocator adds.
const COPIED_BYTES: usize = 48;

/// What a decoded stream takes beside its values, which take about as much as the stream.
const DECODED_BYTES: usize = 200;

/// What few series have beside their stream, in arrival order.
pub(crate) struct SideLists {
    pub(crate) late: Vec<(i64, f64)>,
    pub(crate) histograms: Vec<HistogramEntry>,
    pub(crate) starts: Vec<(i64, i64)>,
}

impl SideLists {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + 16 * (self.late.len() + self.starts.len())
            + size_of::<HistogramEntry>() * self.histograms.len()
    }
}

impl PartCopy {
    /// Bytes that the copy holds; a sealed stream is the head's.
    pub(crate) fn held_bytes(&self) -> usize {
        let open = self.open.map_or(0, |_| self.stream.len() + COPIED_BYTES);
        size_of::<Self>() + open + self.side.as_ref().map_or(0, |side| side.held_bytes())
    }

    /// Bytes of what the stream decodes to, about.
    pub(crate) fn decoded_bytes(&self) -> usize {
        DECODED_BYTES + self.stream.len()
    }

    /// Samples that came late or twice, in arrival order.
    pub(crate) fn late(&self) -> &[(i64, f64)] {
        self.side.as_ref().map_or(&[], |side| &side.late)
    }

    pub(crate) fn histograms(&self) -> &[HistogramEntry] {
        self.side.as_ref().map_or(&[], |side| &side.histograms)
    }

    /// `(timestamp, start)`.
    pub(crate) fn starts(&self) -> &[(i64, i64)] {
        self.side.as_ref().map_or(&[], |side| &side.starts)
    }
}
