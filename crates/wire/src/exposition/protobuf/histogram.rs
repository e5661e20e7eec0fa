//! The `Histogram` message: classic buckets, native ones, or both.
//!
//! ```text
//! Histogram { uint64 sample_count = 1; double sample_sum = 2; Bucket bucket = 3;
//!             double sample_count_float = 4; sint32 schema = 5; double zero_threshold = 6;
//!             uint64 zero_count = 7; double zero_count_float = 8;
//!             BucketSpan negative_span = 9; sint64 negative_delta = 10;
//!             double negative_count = 11; BucketSpan positive_span = 12;
//!             sint64 positive_delta = 13; double positive_count = 14;
//!             Timestamp created_timestamp = 15; Exemplar exemplars = 16; }
//! Bucket    { uint64 cumulative_count = 1; double upper_bound = 2; Exemplar exemplar = 3;
//!             double cumulative_count_float = 4; }
//! ```

use std::sync::Arc;

use icecore_model::{CounterResetHint, Histogram, HistogramCounts, HistogramError, Span};

use super::broken;
use super::value::read_timestamp;
use crate::exposition::classic::ClassicHistogram;
use crate::exposition::exemplars::HistogramExemplars;
use crate::prometheus::histogram::decode_span;
use crate::prometheus::protobuf::{
    Reader, Result, bytes_tag, fixed64_tag, known, packed_doubles, packed_zigzag, varint_tag,
};

const COUNT: u32 = varint_tag(1);
const SUM: u32 = fixed64_tag(2);
const BUCKET: u32 = bytes_tag(3);
const COUNT_FLOAT: u32 = fixed64_tag(4);
const SCHEMA: u32 = varint_tag(5);
const ZERO_THRESHOLD: u32 = fixed64_tag(6);
const ZERO_COUNT: u32 = varint_tag(7);
const ZERO_COUNT_FLOAT: u32 = fixed64_tag(8);
const NEGATIVE_SPAN: u32 = bytes_tag(9);
const NEGATIVE_DELTA: u32 = varint_tag(10);
const NEGATIVE_DELTA_PACKED: u32 = bytes_tag(10);
const NEGATIVE_COUNT: u32 = fixed64_tag(11);
const NEGATIVE_COUNT_PACKED: u32 = bytes_tag(11);
const POSITIVE_SPAN: u32 = bytes_tag(12);
const POSITIVE_DELTA: u32 = varint_tag(13);
const POSITIVE_DELTA_PACKED: u32 = bytes_tag(13);
const POSITIVE_COUNT: u32 = fixed64_tag(14);
const POSITIVE_COUNT_PACKED: u32 = bytes_tag(14);
const CREATED: u32 = bytes_tag(15);
pub(super) const EXEMPLARS: u32 = bytes_tag(16);
const FIELDS: u32 = known(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

const BUCKET_COUNT: u32 = varint_tag(1);
const BUCKET_BOUND: u32 = fixed64_tag(2);
const BUCKET_EXEMPLAR: u32 = bytes_tag(3);
const BUCKET_COUNT_FLOAT: u32 = fixed64_tag(4);
const BUCKET_FIELDS: u32 = known(&[1, 2, 3, 4]);

/// The fields of the message besides its buckets.
pub(super) struct HistogramMessage<'a> {
    pub(super) message: &'a [u8],
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) created_ms: Option<i64>,
    /// Spans or something about zero: a native histogram without observations has a span of
    /// nothing.
    pub(super) is_native: bool,
    pub(super) has_buckets: bool,
}

/// A classic bucket.
#[derive(Default)]
pub(super) struct Bucket<'a> {
    pub(super) upper_bound: f64,
    pub(super) cumulative_count: f64,
    pub(super) exemplar: Option<&'a [u8]>,
}

impl<'a> HistogramMessage<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self> {
        let mut histogram = Self {
            message,
            count: 0.0,
            sum: 0.0,
            created_ms: None,
            is_native: false,
            has_buckets: false,
        };
        let (mut count, mut count_float) = (0u64, 0.0);
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                COUNT => count = reader.varint()?,
                COUNT_FLOAT => count_float = reader.double()?,
                SUM => histogram.sum = reader.double()?,
                CREATED => histogram.created_ms = read_timestamp(reader.bytes()?)?,
                BUCKET => {
                    histogram.has_buckets = true;
                    reader.skip(BUCKET)?;
                }
                tag @ (NEGATIVE_SPAN | POSITIVE_SPAN) => {
                    histogram.is_native = true;
                    reader.skip(tag)?;
                }
                ZERO_THRESHOLD => histogram.is_native |= reader.double()? > 0.0,
                ZERO_COUNT => histogram.is_native |= reader.varint()? > 0,
                other => reader.skip(other)?,
            }
        }
        histogram.count = if count_float != 0.0 {
            count_float
        } else {
            count as f64
        };
        Ok(histogram)
    }

    /// The next classic bucket in what is left of a message.
    pub(super) fn next_bucket(rest: &mut Reader<'a>) -> Result<Option<Bucket<'a>>> {
        while !rest.is_empty() {
            let tag = rest.tag()?;
            if tag == BUCKET {
                return read_bucket(rest.bytes()?).map(Some);
            }
            rest.skip(tag)?;
        }
        Ok(None)
    }

    /// The native histogram.
    pub(super) fn native(&self, gauge: bool) -> std::result::Result<Histogram, String> {
        let sent = NativeBuckets::read(self.message).map_err(broken)?;
        let schema = i8::try_from(sent.schema)
            .map_err(|_| HistogramError::Schema(sent.schema).to_string())?;
        // Prometheus asks for the two counts alone; a federated histogram without observations has
        // float buckets that would be lost.
        let is_float = sent.count_float > 0.0
            || sent.zero_count_float > 0.0
            || !sent.positive_counts.is_empty()
            || !sent.negative_counts.is_empty();
        let counts = if is_float {
            HistogramCounts::Float {
                count: sent.count_float,
                zero_count: sent.zero_count_float,
                positive: sent.positive_counts,
                negative: sent.negative_counts,
            }
        } else {
            HistogramCounts::Integer {
                count: sent.count,
                zero_count: sent.zero_count,
                positive_deltas: sent.positive_deltas,
                negative_deltas: sent.negative_deltas,
            }
        };
        let histogram = Histogram {
            schema,
            reset_hint: reset_hint(gauge),
            zero_threshold: sent.zero_threshold,
            sum: self.sum,
            counts,
            positive_spans: without_empty(sent.positive_spans),
            negative_spans: without_empty(sent.negative_spans),
            custom_bounds: Arc::default(),
        };
        histogram.validate().map_err(|error| error.to_string())?;
        Ok(histogram)
    }

    /// The classic buckets as a native histogram; `None` where they contradict each other.
    pub(super) fn custom_bounds(&self, gauge: bool) -> Result<Option<Histogram>> {
        let mut classic = ClassicHistogram::default();
        classic.set_count(self.count);
        classic.set_sum(self.sum);
        let mut rest = Reader::new(self.message);
        while let Some(bucket) = Self::next_bucket(&mut rest)? {
            classic.add_bucket(bucket.upper_bound, bucket.cumulative_count);
        }
        Ok(classic.convert().map(|histogram| Histogram {
            reset_hint: reset_hint(gauge),
            ..histogram
        }))
    }

    /// The next message of an exemplar in what is left of a message.
    pub(super) fn next_exemplar(
        rest: &mut Reader<'a>,
        part: HistogramExemplars,
    ) -> Result<Option<&'a [u8]>> {
        while !rest.is_empty() {
            match rest.tag()? {
                EXEMPLARS if part == HistogramExemplars::Native => return rest.bytes().map(Some),
                BUCKET if part != HistogramExemplars::Native => {
                    if let Some(exemplar) = read_bucket(rest.bytes()?)?.exemplar {
                        return Ok(Some(exemplar));
                    }
                }
                other => rest.skip(other)?,
            }
        }
        Ok(None)
    }
}

fn reset_hint(gauge: bool) -> CounterResetHint {
    if gauge {
        CounterResetHint::Gauge
    } else {
        CounterResetHint::Unknown
    }
}

fn read_bucket(message: &[u8]) -> Result<Bucket<'_>> {
    let mut bucket = Bucket::default();
    let (mut count, mut count_float) = (0u64, 0.0);
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            BUCKET_COUNT => count = reader.varint()?,
            BUCKET_BOUND => bucket.upper_bound = reader.double()?,
            BUCKET_EXEMPLAR => bucket.exemplar = Some(reader.bytes()?),
            BUCKET_COUNT_FLOAT => count_float = reader.double()?,
            other => reader.skip_unknown(other, BUCKET_FIELDS)?,
        }
    }
    bucket.cumulative_count = if count_float != 0.0 {
        count_float
    } else {
        count as f64
    };
    Ok(bucket)
}

/// The native part of the message, before anything about it was checked.
#[derive(Default)]
struct NativeBuckets {
    count: u64,
    count_float: f64,
    zero_count: u64,
    zero_count_float: f64,
    zero_threshold: f64,
    schema: i64,
    positive_spans: Vec<Span>,
    positive_deltas: Vec<i64>,
    positive_counts: Vec<f64>,
    negative_spans: Vec<Span>,
    negative_deltas: Vec<i64>,
    negative_counts: Vec<f64>,
}

impl NativeBuckets {
    fn read(message: &[u8]) -> Result<Self> {
        let mut sent = Self::default();
        let mut reader = Reader::new(message);
        while !reader.is_empty() {
            match reader.tag()? {
                COUNT => sent.count = reader.varint()?,
                COUNT_FLOAT => sent.count_float = reader.double()?,
                SCHEMA => sent.schema = reader.zigzag()?,
                ZERO_THRESHOLD => sent.zero_threshold = reader.double()?,
                ZERO_COUNT => sent.zero_count = reader.varint()?,
                ZERO_COUNT_FLOAT => sent.zero_count_float = reader.double()?,
                NEGATIVE_SPAN => sent.negative_spans.push(decode_span(reader.bytes()?)?),
                NEGATIVE_DELTA => sent.negative_deltas.push(reader.zigzag()?),
                NEGATIVE_DELTA_PACKED => packed_zigzag(reader.bytes()?, &mut sent.negative_deltas)?,
                NEGATIVE_COUNT => sent.negative_counts.push(reader.double()?),
                NEGATIVE_COUNT_PACKED => {
                    packed_doubles(reader.bytes()?, &mut sent.negative_counts)?
                }
                POSITIVE_SPAN => sent.positive_spans.push(decode_span(reader.bytes()?)?),
                POSITIVE_DELTA => sent.positive_deltas.push(reader.zigzag()?),
                POSITIVE_DELTA_PACKED => packed_zigzag(reader.bytes()?, &mut sent.positive_deltas)?,
                POSITIVE_COUNT => sent.positive_counts.push(reader.double()?),
                POSITIVE_COUNT_PACKED => {
                    packed_doubles(reader.bytes()?, &mut sent.positive_counts)?
                }
                tag @ (SUM | BUCKET | CREATED | EXEMPLARS) => reader.skip(tag)?,
                other => reader.skip_unknown(other, FIELDS)?,
            }
        }
        Ok(sent)
    }
}

/// Drops empty spans; their offset is added to the next span.
fn without_empty(mut spans: Vec<Span>) -> Vec<Span> {
    let mut skipped = 0i32;
    spans.retain_mut(|span| {
        if span.length == 0 {
            skipped = skipped.saturating_add(span.offset);
            return false;
        }
        span.offset = span.offset.saturating_add(std::mem::take(&mut skipped));
        true
    });
    spans
}
