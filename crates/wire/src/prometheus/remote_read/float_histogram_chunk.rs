//! Prometheus' chunk of histograms with float counts: timestamps as differences of differences,
//! everything else as exclusive-or with the histogram before.
//!
//! Holds always: all histograms of a chunk have one layout, and none comes after a staleness
//! marker. The caller cuts accordingly.

use super::bits::XorState;
use super::histogram_layout::{ResetHeader, begin, finish};
use icecore_model::Histogram;

/// One histogram with float counts.
#[derive(Clone, Copy)]
pub(super) struct FloatSample<'a> {
    pub(super) timestamp_ms: i64,
    pub(super) histogram: &'a Histogram,
    pub(super) count: f64,
    pub(super) zero_count: f64,
    pub(super) positive: &'a [f64],
    pub(super) negative: &'a [f64],
}

/// Encodes histograms in time order, at least one.
pub(super) fn encode(header: ResetHeader, samples: &[FloatSample<'_>]) -> Vec<u8> {
    let Some((first, rest)) = samples.split_first() else {
        return Vec::new();
    };
    let mut out = begin(header, first.histogram);
    out.varbit_signed(first.timestamp_ms);
    let mut states: Vec<XorState> = fields(first).map(XorState::after).collect();
    for state in &states {
        out.double(state.value());
    }
    let (mut previous, mut delta_before) = (first.timestamp_ms, 0i64);
    for sample in rest {
        // Wrapping, as Go's arithmetic is: it reads back whatever the times are.
        let delta = sample.timestamp_ms.wrapping_sub(previous);
        out.varbit_signed(delta.wrapping_sub(delta_before));
        (previous, delta_before) = (sample.timestamp_ms, delta);
        for (state, value) in states.iter_mut().zip(fields(sample)) {
            state.write(&mut out, value);
        }
    }
    finish(out, samples.len() as u16)
}

/// All numbers of a histogram in the order in which they are written. A staleness marker has
/// nothing but its sum.
fn fields<'a>(sample: &FloatSample<'a>) -> impl Iterator<Item = f64> + use<'a> {
    let stale = sample.histogram.is_stale();
    let counts = if stale {
        [0.0, 0.0]
    } else {
        [sample.count, sample.zero_count]
    };
    let (positive, negative) = if stale {
        (&[][..], &[][..])
    } else {
        (sample.positive, sample.negative)
    };
    let totals = counts.into_iter().chain([sample.histogram.sum]);
    totals.chain(positive.iter().chain(negative).copied())
}
