//! What is known of one series in one hour, ready to be read again and again.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use icecore_records::{DecodeError, HistogramEntry, gorilla};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::budget::Budget;
use super::packed::Packed;
use super::shelf::Cached;
use crate::head::{OpenStamp, PartCopy};

/// Floats in byte-aligned form, and beside them what few series have.
pub(crate) struct Chunk {
    /// The same list for all series of the hour that have the same times.
    pub(crate) times: Arc<[i64]>,
    pub(crate) values: Packed,
    pub(crate) side: Option<Box<SideRecords>>,
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

impl Chunk {
    /// What was just decoded.
    pub(crate) fn of(decoded: &Scratch, side: SideRecords, times: &Times) -> Self {
        let plain = side.histograms.is_empty() && side.starts.is_empty();
        Self {
            times: times.shared(&decoded.timestamps),
            values: Packed::new(&decoded.values),
            side: (!plain).then(|| Box::new(side)),
        }
    }

    /// Where the samples from `start_ms` to `end_ms`, both included, lie.
    pub(crate) fn range(times: &[i64], start_ms: i64, end_ms: i64) -> (usize, usize) {
        let start = times.partition_point(|time| *time < start_ms);
        let end = times.partition_point(|time| *time <= end_ms);
        (start, end.max(start))
    }

    /// Appends the samples of a range to columns.
    pub(crate) fn unpack_range(
        &self,
        start_ms: i64,
        end_ms: i64,
        timestamps: &mut Vec<i64>,
        values: &mut Vec<f64>,
    ) {
        let (start, end) = Self::range(&self.times, start_ms, end_ms);
        timestamps.extend_from_slice(&self.times[start..end]);
        self.values.unpack_into(start, end, values);
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
        size_of::<Chunk>() + ALLOCATION_BYTES + self.values.heap_bytes() + side
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

/// The lists of timestamps of one hour, each once: the series of a scrape target share theirs.
pub(crate) struct Times {
    known: Mutex<HashMap<u64, Arc<[i64]>>>,
    budget: Arc<Budget>,
}

impl Times {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            known: Mutex::default(),
            budget: Arc::clone(budget),
        }
    }

    fn shared(&self, timestamps: &[i64]) -> Arc<[i64]> {
        let hash = hash_of(timestamps);
        let mut known = self.known.lock();
        match known.get(&hash) {
            Some(times) if **times == *timestamps => Arc::clone(times),
            // Another list with this hash: both are right, and one of them is not shared.
            Some(_) => timestamps.into(),
            None => {
                let times: Arc<[i64]> = timestamps.into();
                known.insert(hash, Arc::clone(&times));
                self.budget.add(bytes_of(&times));
                times
            }
        }
    }

    /// Forgets lists that no chunk has any more.
    pub(super) fn sweep(&self) {
        self.known.lock().retain(|_, times| {
            let used = Arc::strong_count(times) > 1;
            if !used {
                self.budget.take(bytes_of(times));
            }
            used
        });
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        for times in self.known.get_mut().values() {
            self.budget.take(bytes_of(times));
        }
    }
}

fn bytes_of(times: &[i64]) -> usize {
    // The list, its counters, its place in the table.
    size_of_val(times) + 48
}

fn hash_of(timestamps: &[i64]) -> u64 {
    // A handful of differences tell lists apart about as well as all of them, but equal lists must be
    // compared in full anyway, so hashing all of it costs little more.
    let mut bytes = Vec::with_capacity(size_of_val(timestamps));
    for timestamp in timestamps {
        bytes.extend_from_slice(&timestamp.to_ne_bytes());
    }
    xxh3_64(&bytes)
}
