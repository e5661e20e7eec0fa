//! What all histograms of one chunk share: schema, zero bucket, spans and custom bounds. It stands
//! once, after the chunk's header.

use icecore_model::{CUSTOM_BUCKETS_SCHEMA, CounterResetHint, Histogram, Span};

use super::bits::BitWriter;

/// Number of samples and flags.
const HEAD_BYTES: [u8; 3] = [0; 3];
const FLAGS_AT: usize = 2;

/// The counter reset header of a histogram chunk, about its first sample. Within the chunk of a
/// counter there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ResetHeader {
    Unknown = 0,
    NotReset = 0b0100_0000,
    Reset = 0b1000_0000,
    Gauge = 0b1100_0000,
}

impl ResetHeader {
    pub(super) fn of(hint: CounterResetHint) -> Self {
        match hint {
            CounterResetHint::Unknown => Self::Unknown,
            CounterResetHint::Reset => Self::Reset,
            CounterResetHint::NotReset => Self::NotReset,
            CounterResetHint::Gauge => Self::Gauge,
        }
    }
}

/// Begins a chunk; [`finish`] writes its number of samples.
pub(super) fn begin(header: ResetHeader, first: &Histogram) -> BitWriter {
    let mut out = BitWriter::new();
    for byte in HEAD_BYTES {
        out.byte(byte);
    }
    out.overwrite(FLAGS_AT, &[header as u8]);
    write_layout(&mut out, first);
    out
}

/// Ends a chunk.
pub(super) fn finish(mut out: BitWriter, samples: u16) -> Vec<u8> {
    out.overwrite(0, &samples.to_be_bytes());
    out.into_bytes()
}

/// Whether two histograms fit into one chunk.
pub(super) fn same_layout(a: &Histogram, b: &Histogram) -> bool {
    a.schema == b.schema
        && a.zero_threshold.to_bits() == b.zero_threshold.to_bits()
        && a.positive_spans == b.positive_spans
        && a.negative_spans == b.negative_spans
        && a.custom_bounds == b.custom_bounds
}

fn write_layout(out: &mut BitWriter, histogram: &Histogram) {
    // A staleness marker has nothing but its sum.
    if histogram.is_stale() {
        out.byte(0);
        out.varbit_signed(0);
        out.varbit_unsigned(0);
        return out.varbit_unsigned(0);
    }
    write_zero_threshold(out, histogram.zero_threshold);
    out.varbit_signed(histogram.schema.into());
    write_spans(out, &histogram.positive_spans);
    write_spans(out, &histogram.negative_spans);
    if histogram.schema == CUSTOM_BUCKETS_SCHEMA {
        out.varbit_unsigned(histogram.custom_bounds.len() as u64);
        for bound in histogram.custom_bounds.iter() {
            write_custom_bound(out, *bound);
        }
    }
}

/// One byte for zero and the usual powers of two, nine for anything else.
fn write_zero_threshold(out: &mut BitWriter, threshold: f64) {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = threshold.to_bits();
    // As `0.5 × 2^exponent`, in which a power of two has the byte `exponent + 243`, from 1 to 254.
    let exponent = i64::try_from(bits >> 52)
        .unwrap_or(i64::MAX)
        .saturating_sub(1022);
    if threshold == 0.0 {
        out.byte(0);
    } else if bits & MANTISSA == 0 && (-242..=11).contains(&exponent) {
        out.byte((exponent + 243) as u8);
    } else {
        out.byte(255);
        out.double(threshold);
    }
}

fn write_spans(out: &mut BitWriter, spans: &[Span]) {
    out.varbit_unsigned(spans.len() as u64);
    for span in spans {
        out.varbit_unsigned(span.length.into());
        out.varbit_signed(span.offset.into());
    }
}

/// Bounds in whole thousandths take few bits; a zero bit precedes the 64 bits of any other.
fn write_custom_bound(out: &mut BitWriter, bound: f64) {
    const THOUSANDTHS_MAX: f64 = 33_554_430.0;
    let thousandths = (bound * 1000.0).round();
    let is_whole = (0.0..=THOUSANDTHS_MAX).contains(&(bound * 1000.0))
        && bound.is_sign_positive()
        && thousandths / 1000.0 == bound;
    if is_whole {
        out.varbit_unsigned(thousandths as u64 + 1);
    } else {
        out.bit(false);
        out.double(bound);
    }
}
