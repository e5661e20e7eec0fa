//! Points of exponential histograms: native histograms, or by option classic series.
//!
//! ```text
//! ExponentialHistogramDataPoint
//!     { KeyValue attributes = 1; fixed64 start = 2; fixed64 time = 3; fixed64 count = 4;
//!       optional double sum = 5; sint32 scale = 6; fixed64 zero_count = 7; Buckets positive = 8;
//!       Buckets negative = 9; uint32 flags = 10; Exemplar exemplars = 11;
//!       optional double min = 12, max = 13; double zero_threshold = 14; }
//! Buckets { sint32 offset = 1; uint64 bucket_counts = 2; }
//! ```
//!
//! Bucket `i` of scale `s` holds values in (2^(i/2^s), 2^((i+1)/2^s)]; Prometheus numbers the same
//! bucket `i + 1`.
//!
//! As classic series every point has the same bounds, whatever its scale: 0 and the powers of two
//! of [`EXPONENTS`], and their negatives once there are negative values. Buckets that are finer are
//! added up, coarser ones count at their bounds, and values outside fall into the outermost
//! buckets: so a change of scale makes no new series, and running totals of deltas stay right.

use std::ops::RangeInclusive;

use icecore_model::{
    CounterResetHint, Histogram, HistogramCounts, MAX_HISTOGRAM_BUCKETS, SampleSink,
};

use super::histogram::{HistogramBuffers, sparse};
use super::metric::Metric;
use super::request::Decoder;
use super::translation::Exponential;
use crate::prometheus::protobuf::{Reader, Result, bytes_tag, fixed64_tag, known, varint_tag};

const ATTRIBUTES: u32 = bytes_tag(1);
const START: u32 = fixed64_tag(2);
const TIME: u32 = fixed64_tag(3);
const COUNT: u32 = fixed64_tag(4);
const SUM: u32 = fixed64_tag(5);
const SCALE: u32 = varint_tag(6);
const ZERO_COUNT: u32 = fixed64_tag(7);
const POSITIVE: u32 = bytes_tag(8);
const NEGATIVE: u32 = bytes_tag(9);
const FLAGS: u32 = varint_tag(10);
const EXEMPLARS: u32 = bytes_tag(11);
const MIN: u32 = fixed64_tag(12);
const MAX: u32 = fixed64_tag(13);
const ZERO_THRESHOLD: u32 = fixed64_tag(14);
const FIELDS: u32 = known(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);

/// Powers of two that bound classic buckets: 15 µs to 18 minutes when counted in seconds or
/// nanoseconds, and 1 TiB when counted in bytes.
const EXPONENTS: RangeInclusive<i64> = -16..=40;

/// The default width of the zero bucket, as in Prometheus.
const ZERO_THRESHOLD_DEFAULT: f64 = 1e-128;

/// The finest and the coarsest buckets that a native histogram has.
const SCALE_MAX: i32 = 8;
const SCALE_MIN: i32 = -4;

/// The fields of a point besides its buckets.
#[derive(Clone, Copy, Default)]
struct Values {
    count: u64,
    sum: Option<f64>,
    scale: i32,
    zero_count: u64,
    zero_threshold: f64,
    positive_offset: i32,
    negative_offset: i32,
}

impl<'a, S: SampleSink> Decoder<'a, '_, S> {
    pub(super) fn exponential_point(
        &mut self,
        message: &'a [u8],
        metric: &Metric<'a>,
    ) -> Result<()> {
        let point = &mut self.point;
        point.clear();
        let buffers = &mut self.histogram;
        buffers.positive.clear();
        buffers.negative.clear();
        buffers.too_many = false;
        let mut values = Values::default();
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                ATTRIBUTES => point.push_attribute(reader.bytes()?)?,
                START => point.start_ns = reader.fixed64()?,
                TIME => point.time_ns = reader.fixed64()?,
                COUNT => values.count = reader.fixed64()?,
                SUM => values.sum = Some(reader.double()?),
                SCALE => values.scale = reader.zigzag()? as i32,
                ZERO_COUNT => values.zero_count = reader.fixed64()?,
                POSITIVE => read_buckets(
                    reader.bytes()?,
                    &mut values.positive_offset,
                    &mut buffers.positive,
                    &mut buffers.too_many,
                )?,
                NEGATIVE => read_buckets(
                    reader.bytes()?,
                    &mut values.negative_offset,
                    &mut buffers.negative,
                    &mut buffers.too_many,
                )?,
                FLAGS => point.flags = reader.varint()?,
                EXEMPLARS => point.exemplars.push(reader.bytes()?),
                tag @ (MIN | MAX) => reader.skip(tag)?,
                ZERO_THRESHOLD => values.zero_threshold = reader.double()?,
                other => reader.skip_unknown(other, FIELDS)?,
            }
        }
        let Some(when) = self.begin_point(metric)? else {
            return Ok(());
        };
        if self.histogram.too_many {
            self.sink.reject(format!(
                "{}: histogram has more than {MAX_HISTOGRAM_BUCKETS} buckets",
                metric.family
            ));
            return Ok(());
        }
        match self.translation.exponential {
            Exponential::Native => {
                let histogram = native(&values, &self.histogram);
                self.put_native(metric, when, histogram)
            }
            Exponential::Classic => {
                set_classic(&values, &mut self.histogram);
                self.put_classic(metric, when, values.count, values.sum)
            }
        }
    }
}

fn read_buckets(
    message: &[u8],
    offset: &mut i32,
    counts: &mut Vec<u64>,
    too_many: &mut bool,
) -> Result<()> {
    const OFFSET: u32 = varint_tag(1);
    const COUNT_OF_BUCKET: u32 = varint_tag(2);
    const COUNTS: u32 = bytes_tag(2);
    let mut push = |count| match counts.len() {
        0..MAX_HISTOGRAM_BUCKETS => counts.push(count),
        _ => *too_many = true,
    };
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            OFFSET => *offset = reader.zigzag()? as i32,
            COUNT_OF_BUCKET => push(reader.varint()?),
            COUNTS => {
                let mut packed = Reader::new(reader.bytes()?);
                while !packed.is_empty() {
                    push(packed.varint()?);
                }
            }
            other => reader.skip_unknown(other, known(&[1, 2]))?,
        }
    }
    Ok(())
}

fn native(values: &Values, buffers: &HistogramBuffers) -> std::result::Result<Histogram, String> {
    if values.scale < SCALE_MIN {
        return Err(format!(
            "exponential histogram of scale {}, which is less than {SCALE_MIN}",
            values.scale
        ));
    }
    let down = values.scale.saturating_sub(SCALE_MAX).clamp(0, 63) as u32;
    let (positive_spans, positive_deltas) = side(values.positive_offset, &buffers.positive, down)?;
    let (negative_spans, negative_deltas) = side(values.negative_offset, &buffers.negative, down)?;
    Ok(Histogram {
        schema: values.scale.min(SCALE_MAX) as i8,
        reset_hint: CounterResetHint::Unknown,
        zero_threshold: match values.zero_threshold {
            0.0 => ZERO_THRESHOLD_DEFAULT,
            given => given,
        },
        sum: values.sum.unwrap_or(0.0),
        counts: HistogramCounts::Integer {
            count: values.count,
            zero_count: values.zero_count,
            positive_deltas,
            negative_deltas,
        },
        positive_spans,
        negative_spans,
        custom_bounds: [].into(),
    })
}

type Side = (Vec<icecore_model::Span>, Vec<i64>);

/// One side of a native histogram, of buckets `2^down` times as wide.
fn side(offset: i32, counts: &[u64], down: u32) -> std::result::Result<Side, String> {
    let first = i64::from(offset);
    if down == 0 {
        return sparse(first + 1, counts.iter().copied());
    }
    let indexed = (first..)
        .zip(counts)
        .map(|(index, count)| (index >> down, *count));
    let mut merged: Vec<u64> = Vec::new();
    let first = first >> down;
    for (index, count) in indexed {
        match merged.get_mut((index - first) as usize) {
            Some(sum) => *sum = sum.saturating_add(count),
            None => merged.push(count),
        }
    }
    sparse(first + 1, merged.into_iter())
}

/// Fills the buffers with the bounds of classic buckets and their counts.
fn set_classic(values: &Values, buffers: &mut HistogramBuffers) {
    let HistogramBuffers {
        bounds,
        counts,
        positive,
        negative,
        ..
    } = buffers;
    let has_negative = negative.iter().any(|count| *count != 0);
    let magnitudes = EXPONENTS.map(|exponent| (exponent as f64).exp2());
    bounds.clear();
    if has_negative {
        bounds.extend(magnitudes.clone().rev().map(|magnitude| -magnitude));
    }
    let zero = bounds.len();
    bounds.push(0.0);
    bounds.extend(magnitudes);
    counts.clear();
    counts.resize(bounds.len() + 1, 0);
    let (least, most) = EXPONENTS.into_inner();
    let mut add = |bucket: usize, count: u64| {
        if let Some(sum) = counts.get_mut(bucket) {
            *sum = sum.saturating_add(count);
        }
    };
    for (index, count) in (i64::from(values.negative_offset)..).zip(negative.iter()) {
        // Values of the bucket lie below −2^exponent.
        let exponent = lower_exponent(index, values.scale);
        let bucket = match exponent {
            small if small < least => zero,
            other => (most - other.min(most)) as usize,
        };
        add(bucket, *count);
    }
    let threshold = values.zero_threshold;
    let widths = bounds.get(zero..).unwrap_or_default();
    let bucket = zero + widths.partition_point(|bound| *bound < threshold);
    add(bucket, values.zero_count);
    for (index, count) in (i64::from(values.positive_offset)..).zip(positive.iter()) {
        // Values of the bucket lie at or below 2^exponent.
        let exponent = upper_exponent(index, values.scale);
        let bucket = zero + 1 + (exponent.clamp(least, most + 1) - least) as usize;
        add(bucket, *count);
    }
}

/// The largest power of two that is not above a bucket.
fn lower_exponent(index: i64, scale: i32) -> i64 {
    match scale {
        0.. => index >> scale.min(63),
        _ => index.saturating_mul(coarseness(scale)),
    }
}

/// The smallest power of two that is not below a bucket.
fn upper_exponent(index: i64, scale: i32) -> i64 {
    match scale {
        0.. => (index >> scale.min(63)) + 1,
        _ => (index + 1).saturating_mul(coarseness(scale)),
    }
}

/// How many powers of two a bucket of a negative scale spans.
fn coarseness(scale: i32) -> i64 {
    1 << scale.unsigned_abs().min(40)
}
