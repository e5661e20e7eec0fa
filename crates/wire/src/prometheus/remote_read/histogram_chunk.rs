//! Prometheus' chunk of histograms with integer counts: timestamps and counts as differences of
//! differences, bucket deltas likewise, the sum as exclusive-or.
//!
//! Holds always: all histograms of a chunk have one layout, and none comes after a staleness
//! marker. The caller cuts accordingly.

use super::bits::{BitWriter, XorState};
use super::histogram_layout::{ResetHeader, begin, finish};
use icecore_model::Histogram;

/// One histogram with integer counts.
#[derive(Clone, Copy)]
pub(super) struct IntegerSample<'a> {
    pub(super) timestamp_ms: i64,
    pub(super) histogram: &'a Histogram,
    pub(super) count: u64,
    pub(super) zero_count: u64,
    pub(super) positive_deltas: &'a [i64],
    pub(super) negative_deltas: &'a [i64],
}

/// A number and its last delta, for the delta of deltas.
#[derive(Clone, Copy, Default)]
struct DoubleDelta {
    value: i64,
    delta: i64,
}

impl DoubleDelta {
    fn write(&mut self, out: &mut BitWriter, value: i64) {
        // Wrapping, as Go's arithmetic is: it reads back whatever the numbers are.
        let delta = value.wrapping_sub(self.value);
        out.varbit_signed(delta.wrapping_sub(self.delta));
        *self = Self { value, delta };
    }
}

struct State {
    timestamp: DoubleDelta,
    count: DoubleDelta,
    zero_count: DoubleDelta,
    sum: XorState,
    buckets: Vec<DoubleDelta>,
}

/// Encodes histograms in time order, at least one.
pub(super) fn encode(header: ResetHeader, samples: &[IntegerSample<'_>]) -> Vec<u8> {
    let Some((first, rest)) = samples.split_first() else {
        return Vec::new();
    };
    let mut out = begin(header, first.histogram);
    let mut state = write_first(&mut out, first);
    for sample in rest {
        state.timestamp.write(&mut out, sample.timestamp_ms);
        state.count.write(&mut out, sample.count as i64);
        state.zero_count.write(&mut out, sample.zero_count as i64);
        state.sum.write(&mut out, sample.histogram.sum);
        for (bucket, delta) in state.buckets.iter_mut().zip(buckets(sample)) {
            bucket.write(&mut out, delta);
        }
    }
    finish(out, samples.len() as u16)
}

fn write_first(out: &mut BitWriter, first: &IntegerSample<'_>) -> State {
    let double_delta = |value| DoubleDelta { value, delta: 0 };
    out.varbit_signed(first.timestamp_ms);
    let stale = first.histogram.is_stale();
    let (count, zero_count) = if stale {
        (0, 0)
    } else {
        (first.count, first.zero_count)
    };
    out.varbit_unsigned(count);
    out.varbit_unsigned(zero_count);
    out.double(first.histogram.sum);
    let mut state = State {
        timestamp: double_delta(first.timestamp_ms),
        count: double_delta(count as i64),
        zero_count: double_delta(zero_count as i64),
        sum: XorState::after(first.histogram.sum),
        buckets: Vec::new(),
    };
    if !stale {
        for delta in buckets(first) {
            out.varbit_signed(delta);
            state.buckets.push(double_delta(delta));
        }
    }
    state
}

fn buckets<'a>(sample: &IntegerSample<'a>) -> impl Iterator<Item = i64> + use<'a> {
    let positive = sample.positive_deltas.iter();
    positive.chain(sample.negative_deltas).copied()
}
