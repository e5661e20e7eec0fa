//! Prometheus' chunk of histograms with integer counts: timestamps and counts as differences of
//! differences, bucket deltas likewise, the sum as exclusive-or.
//!
//! Holds always: all histograms of a chunk have one layout, and none comes after a staleness marker.
//! The caller cuts accordingly.

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

/// A number and by how much it changed last.
#[derive(Clone, Copy, Default)]
struct Moving {
    value: i64,
    delta: i64,
}

impl Moving {
    fn write(&mut self, out: &mut BitWriter, value: i64) {
        // Wrapping, as Go's arithmetic is: it reads back whatever the numbers are.
        let delta = value.wrapping_sub(self.value);
        out.varbit_signed(delta.wrapping_sub(self.delta));
        *self = Self { value, delta };
    }
}

struct State {
    timestamp: Moving,
    count: Moving,
    zero_count: Moving,
    sum: XorState,
    buckets: Vec<Moving>,
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
    let moving = |value| Moving { value, delta: 0 };
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
        timestamp: moving(first.timestamp_ms),
        count: moving(count as i64),
        zero_count: moving(zero_count as i64),
        sum: XorState::after(first.histogram.sum),
        buckets: Vec::new(),
    };
    if !stale {
        for delta in buckets(first) {
            out.varbit_signed(delta);
            state.buckets.push(moving(delta));
        }
    }
    state
}

fn buckets<'a>(sample: &IntegerSample<'a>) -> impl Iterator<Item = i64> + use<'a> {
    let positive = sample.positive_deltas.iter();
    positive.chain(sample.negative_deltas).copied()
}
