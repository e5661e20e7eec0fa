//! What is known of one series in one bucket, ready to be read again and again.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use icecore_records::columns::TimeList;
use icecore_records::{DecodeError, HistogramEntry, gorilla};

use super::packed::Packed;
use super::part::{OpenStamp, PartCopy};
use super::record::RecordValues;
use super::shelf::Cached;
use super::times::{ChunkTimes, Times};
use crate::stored::{drop_lost_samples, is_lost};

/// Floats, and beside them what few series have.
pub(crate) struct Chunk {
    /// The same list for all series of the bucket that have the same times.
    pub(crate) times: ChunkTimes,
    values: Values,
    pub(crate) side: Option<Arc<SideRecords>>,
}

enum Values {
    /// In byte-aligned form.
    Packed(Packed),
    /// As the bucket has them.
    Record(RecordValues),
}

/// Decoded records beside the float stream; empty where there is none.
#[derive(Default)]
pub(crate) struct SideRecords {
    pub(crate) histograms: Vec<HistogramEntry>,
    pub(crate) starts: Vec<(i64, i64)>,
}

/// Columns that decoding goes through.
#[derive(Default)]
pub(crate) struct Scratch {
    timestamps: Vec<i64>,
    values: Vec<f64>,
}

impl Scratch {
    /// Decodes a whole stream; an empty one has no samples.
    pub(crate) fn decode(&mut self, stream: &[u8]) -> Result<(), DecodeError> {
        self.timestamps.clear();
        self.values.clear();
        if !stream.is_empty() {
            gorilla::decode_into(stream, &mut self.timestamps, &mut self.values)?;
        }
        Ok(())
    }

    /// Leaves out what was deleted.
    pub(crate) fn leave_out(&mut self, lost: &[(i64, i64)]) {
        if !lost.is_empty() {
            drop_lost_samples(&mut self.timestamps, &mut self.values, lost);
        }
    }

    /// Decodes a stream only as far as a range needs it.
    pub(crate) fn decode_range(
        &mut self,
        stream: &[u8],
        start_ms: i64,
        end_ms: i64,
    ) -> Result<(), DecodeError> {
        self.timestamps.clear();
        self.values.clear();
        let columns = (&mut self.timestamps, &mut self.values);
        gorilla::decode_range_into(stream, start_ms, end_ms, columns.0, columns.1).map(drop)
    }
}

impl SideRecords {
    /// Leaves out what was deleted.
    pub(crate) fn without(mut self, lost: &[(i64, i64)]) -> Self {
        if !lost.is_empty() {
            self.histograms.retain(|e| !is_lost(lost, e.timestamp_ms));
            self.starts.retain(|(time, _)| !is_lost(lost, *time));
        }
        self
    }
}

impl Chunk {
    /// What lies in some ranges of time, which are in order and do not overlap.
    pub(crate) fn parts(&self, ranges: &[Range<i64>], times: &Times) -> Result<Self, DecodeError> {
        let mut part = Scratch::default();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let places = self.times.range(range.start, range.end - 1);
            self.times.copy_into(places.clone(), &mut part.timestamps);
            self.values_into(places, &mut part.values)?;
        }
        let is_within = |time: i64| ranges.iter().any(|range| range.contains(&time));
        let side = self.side.as_deref();
        let histograms = side.iter().flat_map(|side| &side.histograms);
        let histograms = histograms.filter(|entry| is_within(entry.timestamp_ms));
        let starts = side.iter().flat_map(|side| &side.starts);
        let side = SideRecords {
            histograms: histograms.cloned().collect(),
            starts: starts
                .filter(|(time, _)| is_within(*time))
                .copied()
                .collect(),
        };
        Ok(Self::of(&part, side, times))
    }

    /// No samples at all.
    pub(crate) fn empty() -> Self {
        let values = Values::Packed(Packed::new(&[]));
        Self::new(ChunkTimes::empty(), values, SideRecords::default())
    }

    /// What was just decoded.
    pub(crate) fn of(decoded: &Scratch, side: SideRecords, times: &Times) -> Self {
        let values = Values::Packed(Packed::new(&decoded.values));
        Self::new(times.plain(&decoded.timestamps), values, side)
    }

    /// What was just decoded and is not kept.
    pub(crate) fn passing(decoded: &Scratch, times: &Times) -> Self {
        let values = Values::Packed(Packed::plain(&decoded.values));
        Self::new(
            times.plain(&decoded.timestamps),
            values,
            SideRecords::default(),
        )
    }

    /// What was put together from parts of a larger bucket; columns of equal length.
    pub(crate) fn of_columns(
        timestamps: Vec<i64>,
        values: &[f64],
        side: SideRecords,
        times: &Times,
    ) -> Option<Self> {
        let list = times.compact(TimeList::from(timestamps).into());
        let times = ChunkTimes::part(list, 0, values.len())?;
        Some(Self::new(times, Values::Packed(Packed::new(values)), side))
    }

    /// A column record; it has as many values as there are times.
    pub(crate) fn of_record(times: ChunkTimes, values: RecordValues, side: SideRecords) -> Self {
        Self::new(times, Values::Record(values), side)
    }

    fn new(times: ChunkTimes, values: Values, side: SideRecords) -> Self {
        let plain = side.histograms.is_empty() && side.starts.is_empty();
        Self {
            times,
            values,
            side: (!plain).then(|| Arc::new(side)),
        }
    }

    /// Appends the values of a range of samples, which lies within the chunk.
    pub(crate) fn values_into(
        &self,
        range: Range<usize>,
        values: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        match &self.values {
            Values::Packed(packed) => {
                packed.unpack_into(range.start, range.end, values);
                Ok(())
            }
            Values::Record(record) => record.unpack_into(range, values),
        }
    }

    /// Whether values of the range would have to be decoded.
    pub(crate) fn is_packed(&self, (start_ms, end_ms): (i64, i64)) -> bool {
        match &self.values {
            Values::Packed(_) => false,
            Values::Record(record) => record.is_packed(&self.times.range(start_ms, end_ms)),
        }
    }

    /// The same chunk, from which the values of the range unpack at memory speed. `None` where they
    /// cannot be decoded, which is for those to report who need them.
    pub(crate) fn unpacked(&self, (start_ms, end_ms): (i64, i64)) -> Option<Self> {
        let Values::Record(record) = &self.values else {
            return None;
        };
        let record = record.unpacked(&self.times.range(start_ms, end_ms)).ok()?;
        Some(Self {
            times: self.times.clone(),
            values: Values::Record(record),
            side: self.side.clone(),
        })
    }
}

/// What the counters of an `Arc` and the allocator take for a chunk and its values.
const ALLOCATION_BYTES: usize = 48;

impl Cached for Arc<Chunk> {
    /// Without the times, which [`Times`] accounts for.
    fn heap_bytes(&self) -> usize {
        let side = self.side.as_ref().map_or(0, |side| {
            let histograms = side.histograms.iter().map(|entry| {
                size_of::<HistogramEntry>() + entry.value.as_ref().map_or(0, |h| h.heap_bytes())
            });
            size_of::<SideRecords>() + 16 * side.starts.len() + histograms.sum::<usize>()
        });
        let values = match &self.values {
            Values::Packed(packed) => packed.heap_bytes(),
            Values::Record(record) => record.heap_bytes(),
        };
        size_of::<Chunk>() + ALLOCATION_BYTES + values + side
    }
}

/// What a stream of the head decodes to. It is found again by what it was decoded from, so nothing
/// that happens to the head can make it wrong.
#[derive(Clone)]
pub(crate) struct HeadChunk {
    source: HeadSource,
    pub(crate) chunk: Arc<Chunk>,
}

#[derive(Clone)]
enum HeadSource {
    /// Shared with the head.
    Sealed(Bytes),
    Open(OpenStamp),
}

impl HeadChunk {
    pub(crate) fn new(part: &PartCopy, chunk: Arc<Chunk>) -> Self {
        let source = match part.open {
            Some(stamp) => HeadSource::Open(stamp),
            None => HeadSource::Sealed(part.stream.clone()),
        };
        Self { source, chunk }
    }

    pub(crate) fn is_of(&self, part: &PartCopy) -> bool {
        match (&self.source, part.open) {
            (HeadSource::Open(known), Some(stamp)) => *known == stamp,
            (HeadSource::Sealed(known), None) => {
                let stream = &part.stream;
                let same = known.as_ptr() == stream.as_ptr() && known.len() == stream.len();
                same || known == stream
            }
            _ => false,
        }
    }

    /// What an open chunk decodes to, if it is that one.
    pub(crate) fn of_open(&self, stamp: OpenStamp) -> Option<&Arc<Chunk>> {
        matches!(self.source, HeadSource::Open(known) if known == stamp).then_some(&self.chunk)
    }
}

impl Cached for HeadChunk {
    fn heap_bytes(&self) -> usize {
        self.chunk.heap_bytes()
    }
}
