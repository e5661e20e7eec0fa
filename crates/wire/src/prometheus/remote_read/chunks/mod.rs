//! Cuts the samples of a series into chunks as Prometheus has them.
//!
//! ```text
//! floats ─────┐ by time   ┌─ run of floats ──────────► XOR chunks
//! histograms ─┴──────────►├─ run of integer counts ──► histogram chunks
//!                         └─ run of float counts ────► float histogram chunks
//! ```
//!
//! Holds always:
//! - Chunks are in time order and do not overlap; none has more than [`CHUNK_SAMPLES_MAX`] samples.
//! - A reader takes every histogram of a counter chunk but the first for one without a reset before
//!   it. So a chunk ends before a reset, marked or detected, and where the layout changes.
//! - A staleness marker among histograms is a chunk of its own: it has no layout to share.

use icecore_model::{CounterResetHint, HistogramCounts, HistogramSample, SeriesSamples};

use super::float_chunk;
use super::float_histogram_chunk::{self, FloatSample};
use super::histogram_chunk::{self, IntegerSample};
use super::histogram_layout::{ResetHeader, same_layout};

/// Samples of a chunk, as many as Prometheus aims at.
pub const CHUNK_SAMPLES_MAX: usize = 120;

/// One chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub start_ms: i64,
    pub end_ms: i64,
    pub encoding: ChunkEncoding,
    pub data: Vec<u8>,
}

/// What a chunk holds, with the numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkEncoding {
    Xor = 1,
    Histogram = 2,
    FloatHistogram = 3,
}

/// Passes on the chunks of a series, one by one in time order.
pub fn encode_chunks(series: &SeriesSamples, mut push: impl FnMut(Chunk)) {
    let timestamps: &[i64] = &series.floats.timestamps;
    let values = &series.floats.values;
    let (mut float, mut histogram) = (0, 0);
    loop {
        // Floats up to the next histogram, then histograms up to the next float.
        let next_histogram = series.histograms.get(histogram).map(|h| h.timestamp_ms);
        let floats_end = match next_histogram {
            Some(at) => float + timestamps[float..].partition_point(|t| *t < at),
            None => timestamps.len(),
        };
        while float < floats_end {
            let end = floats_end.min(float + CHUNK_SAMPLES_MAX);
            push(float_chunk_of(&timestamps[float..end], &values[float..end]));
            float = end;
        }
        let histograms_end = match timestamps.get(float) {
            Some(at) => {
                histogram + series.histograms[histogram..].partition_point(|h| h.timestamp_ms < *at)
            }
            None => series.histograms.len(),
        };
        if histogram == histograms_end {
            return;
        }
        encode_histograms(&series.histograms[histogram..histograms_end], &mut push);
        histogram = histograms_end;
    }
}

fn float_chunk_of(timestamps: &[i64], values: &[f64]) -> Chunk {
    Chunk {
        start_ms: timestamps.first().copied().unwrap_or_default(),
        end_ms: timestamps.last().copied().unwrap_or_default(),
        encoding: ChunkEncoding::Xor,
        data: float_chunk::encode(timestamps, values),
    }
}

fn encode_histograms(samples: &[HistogramSample], push: &mut impl FnMut(Chunk)) {
    let mut rest = samples;
    let mut after_reset = false;
    while let Some(first) = rest.first() {
        let (length, reset_follows) = chunk_length(rest);
        let (chunk, tail) = rest.split_at(length);
        let header = if after_reset {
            ResetHeader::Reset
        } else {
            ResetHeader::of(first.histogram.reset_hint)
        };
        push(histogram_chunk_of(header, chunk));
        rest = tail;
        after_reset = reset_follows;
    }
}

/// How many histograms the next chunk has, and whether it ends because a reset was detected.
fn chunk_length(samples: &[HistogramSample]) -> (usize, bool) {
    let most = samples.len().min(CHUNK_SAMPLES_MAX);
    for (at, pair) in samples.windows(2).enumerate().take(most - 1) {
        let [previous, next] = pair else {
            continue;
        };
        match continuation(previous, next) {
            Continuation::SameChunk => {}
            Continuation::NextChunk => return (at + 1, false),
            Continuation::Reset => return (at + 1, true),
        }
    }
    // The counts are compared across the boundary of full chunks, too.
    let at_the_cut = samples.get(most - 1).zip(samples.get(most));
    let reset = at_the_cut.is_some_and(|(a, b)| continuation(a, b) == Continuation::Reset);
    (most, reset)
}

#[derive(PartialEq, Eq)]
enum Continuation {
    SameChunk,
    NextChunk,
    /// In the next chunk, because the counter was reset.
    Reset,
}

fn continuation(previous: &HistogramSample, next: &HistogramSample) -> Continuation {
    let (a, b) = (&*previous.histogram, &*next.histogram);
    let is_gauge = a.reset_hint == CounterResetHint::Gauge;
    let fits = !a.is_stale()
        && !b.is_stale()
        && is_gauge == (b.reset_hint == CounterResetHint::Gauge)
        && b.reset_hint != CounterResetHint::Reset
        && same_layout(a, b);
    if !fits {
        return Continuation::NextChunk;
    }
    match decreases(&a.counts, &b.counts) {
        None => Continuation::NextChunk,
        Some(true) if !is_gauge => Continuation::Reset,
        Some(_) => Continuation::SameChunk,
    }
}

/// Whether any count is lower than before, in histograms of the same layout; `None` when their
/// counts are of different kinds.
fn decreases(before: &HistogramCounts, after: &HistogramCounts) -> Option<bool> {
    use HistogramCounts::{Float, Integer};
    match (before, after) {
        (
            Integer {
                count: count_a,
                zero_count: zero_a,
                positive_deltas: positive_a,
                negative_deltas: negative_a,
            },
            Integer {
                count: count_b,
                zero_count: zero_b,
                positive_deltas: positive_b,
                negative_deltas: negative_b,
            },
        ) => Some(
            count_b < count_a
                || zero_b < zero_a
                || deltas_decrease(positive_a, positive_b)
                || deltas_decrease(negative_a, negative_b),
        ),
        (
            Float {
                count: count_a,
                zero_count: zero_a,
                positive: positive_a,
                negative: negative_a,
            },
            Float {
                count: count_b,
                zero_count: zero_b,
                positive: positive_b,
                negative: negative_b,
            },
        ) => {
            let lower = |(a, b): (&f64, &f64)| b < a;
            Some(
                count_b < count_a
                    || zero_b < zero_a
                    || positive_a.iter().zip(positive_b).any(lower)
                    || negative_a.iter().zip(negative_b).any(lower),
            )
        }
        _ => None,
    }
}

fn deltas_decrease(before: &[i64], after: &[i64]) -> bool {
    let (mut a, mut b) = (0i64, 0i64);
    before.iter().zip(after).any(|(delta_a, delta_b)| {
        a = a.wrapping_add(*delta_a);
        b = b.wrapping_add(*delta_b);
        b < a
    })
}

/// All samples are of one kind and one layout.
fn histogram_chunk_of(header: ResetHeader, samples: &[HistogramSample]) -> Chunk {
    let integers: Vec<IntegerSample<'_>> = samples.iter().filter_map(integer_sample).collect();
    let (encoding, data) = if integers.is_empty() {
        let floats: Vec<FloatSample<'_>> = samples.iter().filter_map(float_sample).collect();
        let data = float_histogram_chunk::encode(header, &floats);
        (ChunkEncoding::FloatHistogram, data)
    } else {
        let data = histogram_chunk::encode(header, &integers);
        (ChunkEncoding::Histogram, data)
    };
    let time = |sample: Option<&HistogramSample>| sample.map_or(0, |s| s.timestamp_ms);
    Chunk {
        start_ms: time(samples.first()),
        end_ms: time(samples.last()),
        encoding,
        data,
    }
}

fn integer_sample(sample: &HistogramSample) -> Option<IntegerSample<'_>> {
    let HistogramCounts::Integer {
        count,
        zero_count,
        positive_deltas,
        negative_deltas,
    } = &sample.histogram.counts
    else {
        return None;
    };
    Some(IntegerSample {
        timestamp_ms: sample.timestamp_ms,
        histogram: &sample.histogram,
        count: *count,
        zero_count: *zero_count,
        positive_deltas,
        negative_deltas,
    })
}

fn float_sample(sample: &HistogramSample) -> Option<FloatSample<'_>> {
    let HistogramCounts::Float {
        count,
        zero_count,
        positive,
        negative,
    } = &sample.histogram.counts
    else {
        return None;
    };
    Some(FloatSample {
        timestamp_ms: sample.timestamp_ms,
        histogram: &sample.histogram,
        count: *count,
        zero_count: *zero_count,
        positive,
        negative,
    })
}

#[cfg(test)]
mod decoder;
#[cfg(test)]
mod tests;
