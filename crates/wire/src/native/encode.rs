//! Series to frames.
//!
//! Holds always:
//! - A frame is closed at [`FRAME_BYTES`] or [`FRAME_SAMPLES`]; a series that does not fit
//!   continues in the next one.
//! - Nothing is allocated per sample; the buffers stay from frame to frame.

use icecore_model::varint::{push_varint, push_zigzag};
use icecore_model::{Exemplar, HistogramSample, Labels, Metadata, push_raw_label};

use super::MAGIC;
use super::bytes::{push_float, push_text};
use super::decode::{
    Counts, EXEMPLARS, FLOATS, HISTOGRAMS, TIMES_OWN, TIMES_SAME, VALUES_WHOLE, VALUES_XOR,
};
use super::frame::{FrameKind, compressor, push_frame};
use super::histogram::push_histogram;
use crate::SeriesContent;

/// Where a frame is closed: large enough that compression finds what repeats, small enough that
/// several fit in memory.
const FRAME_BYTES: usize = 1 << 20;

/// Samples of one frame. Columns that repeat take hardly any bytes, so bytes alone would not bound
/// what a frame holds.
const FRAME_SAMPLES: u64 = 128 << 10;

/// Floats of one record. At worst they take a third of a frame.
const RECORD_FLOATS: usize = 16 << 10;

/// Bytes of histograms or exemplars after which a record is closed.
const RECORD_BYTES: usize = 256 << 10;

/// Writes one stream.
pub struct Encoder {
    compressor: zstd::bulk::Compressor<'static>,
    /// Records of the frame that is being filled.
    records: Vec<u8>,
    /// First and last timestamp in them.
    span: (i64, i64),
    /// Samples, histograms and exemplars in them.
    samples: u64,
    /// The column of times that the record before has, if any.
    times: Vec<i64>,
    /// Labels of the record before; empty at the beginning of a frame.
    labels: Vec<u8>,
    scratch: Vec<u8>,
    payload: Vec<u8>,
    counts: Counts,
}

const NO_SPAN: (i64, i64) = (i64::MAX, i64::MIN);

impl Encoder {
    /// Begins a stream in `out`.
    pub fn new(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&MAGIC);
        Self {
            compressor: compressor(),
            records: Vec::new(),
            span: NO_SPAN,
            samples: 0,
            times: Vec::new(),
            labels: Vec::new(),
            scratch: Vec::new(),
            payload: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Adds what is known about metric families.
    pub fn metadata<'a>(
        &mut self,
        out: &mut Vec<u8>,
        families: impl IntoIterator<Item = &'a (String, Metadata)>,
    ) {
        self.payload.clear();
        for (family, metadata) in families {
            self.counts.metadata += 1;
            push_text(&mut self.payload, family.as_bytes());
            self.payload.push(metadata.metric_type.number());
            let temporality = metadata.temporality as u8;
            self.payload
                .push(temporality << 1 | u8::from(metadata.monotonic));
            push_text(&mut self.payload, metadata.unit.as_bytes());
            push_text(&mut self.payload, metadata.help.as_bytes());
            if self.payload.len() >= FRAME_BYTES {
                self.push(out, FrameKind::Metadata);
            }
        }
        if !self.payload.is_empty() {
            self.push(out, FrameKind::Metadata);
        }
    }

    /// Adds a series. Parts of one may be added one after the other.
    pub fn series(&mut self, out: &mut Vec<u8>, series: SeriesContent<'_>) {
        let times = series.timestamps.chunks(RECORD_FLOATS);
        for (times, values) in times.zip(series.values.chunks(RECORD_FLOATS)) {
            self.floats(series, times, values);
            self.close_if_full(out);
        }
        let mut rest = series.histograms;
        while !rest.is_empty() {
            rest = self.histograms(series, rest);
            self.close_if_full(out);
        }
        let mut rest = series.exemplars;
        while !rest.is_empty() {
            rest = self.exemplars(series.labels, rest);
            self.close_if_full(out);
        }
    }

    /// Ends the stream.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.close(out);
        self.counts.push(&mut self.payload);
        self.push(out, FrameKind::End);
    }

    fn floats(&mut self, series: SeriesContent<'_>, times: &[i64], values: &[f64]) {
        self.begin_record(series.labels, FLOATS);
        self.counts.samples += times.len() as u64;
        times.iter().for_each(|time| self.note(*time));
        let records = &mut self.records;
        push_starts(records, times.iter().copied(), series.start_timestamps);
        push_varint(records, times.len() as u64);
        if self.times == times {
            records.push(TIMES_SAME);
        } else {
            records.push(TIMES_OWN);
            push_times(records, times);
            self.times.clear();
            self.times.extend_from_slice(times);
        }
        push_values(records, values);
    }

    /// Adds as many as fit; returns the rest.
    fn histograms<'a>(
        &mut self,
        series: SeriesContent<'_>,
        histograms: &'a [HistogramSample],
    ) -> &'a [HistogramSample] {
        self.begin_record(series.labels, HISTOGRAMS);
        self.scratch.clear();
        let mut count = 0;
        for sample in histograms {
            push_histogram(&mut self.scratch, sample);
            self.note(sample.timestamp_ms);
            count += 1;
            if self.scratch.len() >= RECORD_BYTES {
                break;
            }
        }
        let (taken, rest) = histograms.split_at(count);
        self.counts.histograms += count as u64;
        let times = taken.iter().map(|sample| sample.timestamp_ms);
        push_starts(&mut self.records, times, series.start_timestamps);
        push_varint(&mut self.records, count as u64);
        self.records.extend_from_slice(&self.scratch);
        rest
    }

    /// The same.
    fn exemplars<'a>(&mut self, labels: &Labels, exemplars: &'a [Exemplar]) -> &'a [Exemplar] {
        self.begin_record(labels, EXEMPLARS);
        self.scratch.clear();
        let mut raw = Vec::new();
        let mut count = 0;
        for exemplar in exemplars {
            push_zigzag(&mut self.scratch, exemplar.timestamp_ms);
            push_float(&mut self.scratch, exemplar.value);
            raw_labels(&mut raw, &exemplar.labels);
            push_text(&mut self.scratch, &raw);
            self.note(exemplar.timestamp_ms);
            count += 1;
            if self.scratch.len() >= RECORD_BYTES {
                break;
            }
        }
        self.counts.exemplars += count as u64;
        push_varint(&mut self.records, count as u64);
        self.records.extend_from_slice(&self.scratch);
        exemplars.get(count..).unwrap_or_default()
    }

    fn begin_record(&mut self, labels: &Labels, tag: u8) {
        self.counts.records += 1;
        raw_labels(&mut self.scratch, labels);
        if self.scratch == self.labels {
            push_text(&mut self.records, &[]);
        } else {
            push_text(&mut self.records, &self.scratch);
            std::mem::swap(&mut self.scratch, &mut self.labels);
        }
        self.records.push(tag);
    }

    #[inline]
    fn note(&mut self, time: i64) {
        self.span = (self.span.0.min(time), self.span.1.max(time));
        self.samples += 1;
    }

    fn close_if_full(&mut self, out: &mut Vec<u8>) {
        if self.records.len() >= FRAME_BYTES || self.samples >= FRAME_SAMPLES {
            self.close(out);
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.records.is_empty() {
            return;
        }
        self.payload.clear();
        push_zigzag(&mut self.payload, self.span.0);
        push_zigzag(&mut self.payload, self.span.1);
        push_varint(&mut self.payload, self.samples);
        self.payload.extend_from_slice(&self.records);
        self.push(out, FrameKind::Series);
        self.records.clear();
        self.times.clear();
        self.labels.clear();
        self.span = NO_SPAN;
        self.samples = 0;
    }

    /// Writes the payload as a frame and empties it.
    fn push(&mut self, out: &mut Vec<u8>, kind: FrameKind) {
        push_frame(out, kind, &self.payload, &mut self.compressor);
        self.payload.clear();
    }
}

fn raw_labels(out: &mut Vec<u8>, labels: &Labels) {
    out.clear();
    for (name, value) in labels.iter() {
        push_raw_label(out, name, value);
    }
}

/// The starts of those times that have one; both lists are in time order.
fn push_starts(out: &mut Vec<u8>, times: impl Iterator<Item = i64> + Clone, starts: &[(i64, i64)]) {
    if starts.is_empty() {
        return push_varint(out, 0);
    }
    let merged = || {
        let mut rest = starts.iter().peekable();
        times.clone().filter_map(move |time| {
            while rest.next_if(|(at, _)| *at < time).is_some() {}
            rest.peek().filter(|(at, _)| *at == time).map(|pair| **pair)
        })
    };
    push_varint(out, merged().count() as u64);
    let mut last = (0i64, 0i64);
    for (time, start) in merged() {
        push_zigzag(out, time.wrapping_sub(last.0));
        push_zigzag(out, start.wrapping_sub(last.1));
        last = (time, start);
    }
}

/// The first time, then differences of differences; the difference before the first is 0.
fn push_times(out: &mut Vec<u8>, times: &[i64]) {
    let Some((first, rest)) = times.split_first() else {
        return;
    };
    push_zigzag(out, *first);
    let (mut last, mut delta) = (*first, 0i64);
    for time in rest {
        let next = time.wrapping_sub(last);
        push_zigzag(out, next.wrapping_sub(delta));
        (last, delta) = (*time, next);
    }
}

fn push_values(out: &mut Vec<u8>, values: &[f64]) {
    if values.iter().all(|value| whole(*value).is_some()) {
        out.push(VALUES_WHOLE);
        let mut last = 0i64;
        for value in values.iter().filter_map(|value| whole(*value)) {
            push_zigzag(out, value.wrapping_sub(last));
            last = value;
        }
        return;
    }
    out.push(VALUES_XOR);
    let mut last = 0u64;
    for value in values {
        let bits = value.to_bits();
        push_xor(out, bits ^ last);
        last = bits;
    }
}

/// The value as a whole number, if the number has the same bits as a float.
#[inline]
fn whole(value: f64) -> Option<i64> {
    let number = value as i64;
    let same = (number as f64).to_bits() == value.to_bits();
    (same && number.unsigned_abs() <= 1 << 53).then_some(number)
}

/// A control byte with the position of the nonzero bytes, and those bytes.
#[inline]
fn push_xor(out: &mut Vec<u8>, xor: u64) {
    if xor == 0 {
        return out.push(0);
    }
    let leading = (xor.leading_zeros() / 8) as usize;
    let trailing = (xor.trailing_zeros() / 8) as usize;
    let length = 8 - leading - trailing;
    out.push((trailing << 4 | length) as u8);
    let bytes = (xor >> (8 * trailing)).to_le_bytes();
    out.extend_from_slice(&bytes[..length]);
}
