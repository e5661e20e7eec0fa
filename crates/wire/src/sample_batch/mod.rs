//! A batch of an import, kept until the store has taken it.
//!
//! ```text
//! decoder ─► SampleBatch (columns) ─► replay, as often as the store asks ─► TimeWindow ─► sink
//! ```
//!
//! Holds always:
//! - Calls are replayed in their order; nothing is allocated per sample.
//! - [`SampleBatch::rollback`] undoes everything since a savepoint, so that a bad line
//!   leaves nothing in the batch.
//! - Each sample passes exactly one [`TimeWindow`].

use icecore_model::{
    Exemplar, Histogram, MAX_TIMESTAMP_MS, Metadata, RawLabels, Sample, SampleSink,
};

/// Distinct reasons that are kept; others are only counted.
const REASONS_MAX: usize = 8;

/// Content of one or more series, in columns.
#[derive(Debug, Default)]
pub struct SampleBatch {
    labels: Vec<u8>,
    series: Vec<ColumnEnds>,
    timestamps: Vec<i64>,
    values: Vec<f64>,
    /// `(index into the columns, start timestamp)`.
    starts: Vec<(usize, i64)>,
    /// `(timestamp, start timestamp, histogram)`.
    histograms: Vec<(i64, i64, Histogram)>,
    exemplars: Vec<Exemplar>,
    metadata: Vec<(String, Metadata)>,
    rejected: Vec<(String, u64)>,
    /// First and last timestamp that can be stored.
    span: Option<(i64, i64)>,
    /// Memory of what does not lie in the columns.
    heap_bytes: usize,
}

/// Where the parts of a series end; they begin where those of the series before end.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnEnds {
    labels: usize,
    floats: usize,
    histograms: usize,
    exemplars: usize,
}

/// A state to roll back to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Savepoint {
    series: usize,
    ends: ColumnEnds,
    starts: usize,
    metadata: usize,
    span: Option<(i64, i64)>,
    heap_bytes: usize,
}

impl SampleBatch {
    /// Samples, histograms and exemplars.
    pub fn len(&self) -> usize {
        self.timestamps.len() + self.histograms.len() + self.exemplars.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.metadata.is_empty()
    }

    /// Roughly what this takes in memory.
    pub fn bytes(&self) -> usize {
        self.labels.len()
            + self.timestamps.len() * 16
            + self.starts.len() * 16
            + self.series.len() * size_of::<ColumnEnds>()
            + self.heap_bytes
    }

    /// First and last timestamp that can be stored; `None` without any.
    pub fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// What decoders refused, with how often.
    pub fn take_rejected(&mut self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.rejected)
    }

    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            series: self.series.len(),
            ends: self.ends(),
            starts: self.starts.len(),
            metadata: self.metadata.len(),
            span: self.span,
            heap_bytes: self.heap_bytes,
        }
    }

    /// Undoes all calls since the savepoint, except rejections.
    pub fn rollback(&mut self, savepoint: Savepoint) {
        self.series.truncate(savepoint.series);
        // The series announced before the savepoint may have grown since.
        if let Some(last) = self.series.last_mut() {
            *last = savepoint.ends;
        }
        self.labels.truncate(savepoint.ends.labels);
        self.timestamps.truncate(savepoint.ends.floats);
        self.values.truncate(savepoint.ends.floats);
        self.histograms.truncate(savepoint.ends.histograms);
        self.exemplars.truncate(savepoint.ends.exemplars);
        self.starts.truncate(savepoint.starts);
        self.metadata.truncate(savepoint.metadata);
        self.span = savepoint.span;
        self.heap_bytes = savepoint.heap_bytes;
    }

    /// Replays all calls to `sink`. Series without samples are left out.
    pub fn replay(&self, sink: &mut impl SampleSink) {
        for (family, metadata) in &self.metadata {
            sink.metadata(family, metadata.clone());
        }
        let mut begin = ColumnEnds::default();
        let mut starts = self.starts.iter().peekable();
        for end in &self.series {
            let floats = begin.floats..end.floats;
            let histograms = self.histograms.get(begin.histograms..end.histograms);
            let exemplars = self.exemplars.get(begin.exemplars..end.exemplars);
            let histograms = histograms.unwrap_or_default();
            let exemplars = exemplars.unwrap_or_default();
            let labels = self.labels.get(begin.labels..end.labels);
            begin = *end;
            if floats.is_empty() && histograms.is_empty() && exemplars.is_empty() {
                continue;
            }
            sink.series(RawLabels(labels.unwrap_or_default()));
            let times = self.timestamps.get(floats.clone()).unwrap_or_default();
            let values = self.values.get(floats.clone()).unwrap_or_default();
            for (at, (timestamp_ms, value)) in floats.zip(times.iter().zip(values)) {
                let start = starts.next_if(|(index, _)| *index == at);
                sink.sample(Sample {
                    timestamp_ms: *timestamp_ms,
                    value: *value,
                    start_timestamp_ms: start.map_or(0, |(_, start)| *start),
                });
            }
            for (timestamp_ms, start_ms, histogram) in histograms {
                sink.histogram(*timestamp_ms, *start_ms, histogram.clone());
            }
            for exemplar in exemplars {
                sink.exemplar(exemplar.clone());
            }
        }
    }

    fn ends(&self) -> ColumnEnds {
        ColumnEnds {
            labels: self.labels.len(),
            floats: self.timestamps.len(),
            histograms: self.histograms.len(),
            exemplars: self.exemplars.len(),
        }
    }

    #[inline]
    fn note_time(&mut self, timestamp_ms: i64) {
        if !can_be_stored(timestamp_ms) {
            return;
        }
        self.span = Some(match self.span {
            None => (timestamp_ms, timestamp_ms),
            Some((first, last)) => (first.min(timestamp_ms), last.max(timestamp_ms)),
        });
    }

    /// The current series; a sample before any series is rejected.
    #[inline]
    fn current(&mut self) -> Option<&mut ColumnEnds> {
        if self.series.is_empty() {
            self.reject("sample before any series".into());
        }
        self.series.last_mut()
    }
}

impl SampleSink for SampleBatch {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        self.labels.extend_from_slice(labels.0);
        self.series.push(self.ends());
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        let Some(ends) = self.current() else { return };
        ends.floats += 1;
        if sample.start_timestamp_ms != 0 {
            let at = self.timestamps.len();
            self.starts.push((at, sample.start_timestamp_ms));
        }
        self.timestamps.push(sample.timestamp_ms);
        self.values.push(sample.value);
        self.note_time(sample.timestamp_ms);
    }

    fn histogram(&mut self, timestamp_ms: i64, start_timestamp_ms: i64, histogram: Histogram) {
        let Some(ends) = self.current() else { return };
        ends.histograms += 1;
        self.heap_bytes += size_of::<Histogram>() + histogram.heap_bytes();
        self.histograms
            .push((timestamp_ms, start_timestamp_ms, histogram));
        self.note_time(timestamp_ms);
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        let Some(ends) = self.current() else { return };
        ends.exemplars += 1;
        self.heap_bytes += size_of::<Exemplar>() + exemplar.labels.heap_bytes();
        self.note_time(exemplar.timestamp_ms);
        self.exemplars.push(exemplar);
    }

    fn metadata(&mut self, family: &str, metadata: Metadata) {
        self.heap_bytes += size_of::<(String, Metadata)>()
            + family.len()
            + metadata.help.len()
            + metadata.unit.len();
        self.metadata.push((family.into(), metadata));
    }

    fn reject(&mut self, reason: String) {
        if let Some((_, count)) = self.rejected.iter_mut().find(|(known, _)| *known == reason) {
            *count += 1;
        } else if self.rejected.len() < REASONS_MAX {
            self.rejected.push((reason, 1));
        } else if let Some((_, count)) = self.rejected.last_mut() {
            *count += 1;
        }
    }
}

/// Whether any hour holds this time.
#[inline]
pub(crate) fn can_be_stored(timestamp_ms: i64) -> bool {
    (0..MAX_TIMESTAMP_MS).contains(&timestamp_ms)
}

/// Passes on what lies in `[start_ms, end_ms)`, and finds where the next window begins. A store
/// takes a limited number of hours per request; a longer batch is replayed window by window.
pub struct TimeWindow<'s, S> {
    sink: &'s mut S,
    start_ms: i64,
    end_ms: i64,
    /// Whether this is the first window, which also gets what has no timestamp.
    first: bool,
    labels: Vec<u8>,
    announced: bool,
    next_ms: i64,
    /// Samples of the window to skip, and how many to pass on after that.
    skip: usize,
    take: usize,
    more: bool,
}

impl<'s, S: SampleSink> TimeWindow<'s, S> {
    pub fn new(sink: &'s mut S, start_ms: i64, end_ms: i64, first: bool) -> Self {
        Self {
            sink,
            start_ms,
            end_ms,
            first,
            labels: Vec::new(),
            announced: false,
            next_ms: i64::MAX,
            skip: 0,
            take: usize::MAX,
            more: false,
        }
    }

    /// Passes on only `take` samples of the window, after the first `skip`.
    #[must_use]
    pub fn part(self, skip: usize, take: usize) -> Self {
        Self { skip, take, ..self }
    }

    /// Whether the window has samples beyond that part.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// The first timestamp after the window; `i64::MAX` when there is none.
    pub fn next_ms(&self) -> i64 {
        self.next_ms
    }

    #[inline]
    fn accepts(&mut self, timestamp_ms: i64) -> bool {
        let accepted = if !can_be_stored(timestamp_ms) {
            // The sink refuses it, once.
            self.first
        } else if timestamp_ms >= self.end_ms {
            self.next_ms = self.next_ms.min(timestamp_ms);
            false
        } else {
            timestamp_ms >= self.start_ms
        };
        if !accepted {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.take == 0 {
            self.more = true;
            return false;
        }
        self.take -= 1;
        if !self.announced {
            self.announced = true;
            self.sink.series(RawLabels(&self.labels));
        }
        true
    }
}

impl<S: SampleSink> SampleSink for TimeWindow<'_, S> {
    fn guess_series(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn series(&mut self, labels: RawLabels<'_>) {
        self.labels.clear();
        self.labels.extend_from_slice(labels.0);
        self.announced = false;
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        if self.accepts(sample.timestamp_ms) {
            self.sink.sample(sample);
        }
    }

    fn histogram(&mut self, timestamp_ms: i64, start_timestamp_ms: i64, histogram: Histogram) {
        if self.accepts(timestamp_ms) {
            self.sink
                .histogram(timestamp_ms, start_timestamp_ms, histogram);
        }
    }

    fn exemplar(&mut self, exemplar: Exemplar) {
        if self.accepts(exemplar.timestamp_ms) {
            self.sink.exemplar(exemplar);
        }
    }

    fn metadata(&mut self, family: &str, metadata: Metadata) {
        if self.first {
            self.sink.metadata(family, metadata);
        }
    }

    fn reject(&mut self, reason: String) {
        if self.first {
            self.sink.reject(reason);
        }
    }
}

#[cfg(test)]
mod tests;
