//! Native histograms of both remote write versions: the message is the same, 2.0 adds the start
//! timestamp as field 17.
//!
//! The type of the count decides between integer and float counts, as in Prometheus. Counts of the
//! other kind that are not zero make the histogram contradict itself: it is refused instead of
//! being stored without them.

use std::sync::Arc;

use icecore_model::{CounterResetHint, Histogram, HistogramCounts, HistogramError, Span};

use super::protobuf::{
    Reader, Result, bytes_tag, fixed64_tag, known, packed_doubles, packed_zigzag, varint_tag,
};

const COUNT_INT: u32 = varint_tag(1);
const COUNT_FLOAT: u32 = fixed64_tag(2);
const SUM: u32 = fixed64_tag(3);
const SCHEMA: u32 = varint_tag(4);
const ZERO_THRESHOLD: u32 = fixed64_tag(5);
const ZERO_COUNT_INT: u32 = varint_tag(6);
const ZERO_COUNT_FLOAT: u32 = fixed64_tag(7);
const NEGATIVE_SPANS: u32 = bytes_tag(8);
const NEGATIVE_DELTAS: u32 = bytes_tag(9);
const NEGATIVE_DELTAS_UNPACKED: u32 = varint_tag(9);
const NEGATIVE_COUNTS: u32 = bytes_tag(10);
const NEGATIVE_COUNTS_UNPACKED: u32 = fixed64_tag(10);
const POSITIVE_SPANS: u32 = bytes_tag(11);
const POSITIVE_DELTAS: u32 = bytes_tag(12);
const POSITIVE_DELTAS_UNPACKED: u32 = varint_tag(12);
const POSITIVE_COUNTS: u32 = bytes_tag(13);
const POSITIVE_COUNTS_UNPACKED: u32 = fixed64_tag(13);
const RESET_HINT: u32 = varint_tag(14);
const TIMESTAMP: u32 = varint_tag(15);
const CUSTOM_VALUES: u32 = bytes_tag(16);
const CUSTOM_VALUES_UNPACKED: u32 = fixed64_tag(16);
const START_TIMESTAMP: u32 = varint_tag(17);
const FIELDS: u32 = known(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);

const SPAN_OFFSET: u32 = varint_tag(1);
const SPAN_LENGTH: u32 = varint_tag(2);
const SPAN_FIELDS: u32 = known(&[1, 2]);

/// A histogram as it was sent, before anything about it was checked.
#[derive(Default)]
pub(super) struct SentHistogram {
    pub(super) timestamp_ms: i64,
    pub(super) start_timestamp_ms: i64,
    count: Count,
    zero_count: Count,
    sum: f64,
    schema: i64,
    zero_threshold: f64,
    negative: BucketFields,
    positive: BucketFields,
    reset_hint: CounterResetHint,
    custom_bounds: Vec<f64>,
}

#[derive(Default)]
struct BucketFields {
    spans: Vec<Span>,
    deltas: Vec<i64>,
    counts: Vec<f64>,
}

#[derive(Clone, Copy, Default)]
enum Count {
    #[default]
    Absent,
    Integer(u64),
    Float(f64),
}

pub(super) fn decode_histogram(message: &[u8]) -> Result<SentHistogram> {
    let mut sent = SentHistogram::default();
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            COUNT_INT => sent.count = Count::Integer(reader.varint()?),
            COUNT_FLOAT => sent.count = Count::Float(reader.double()?),
            SUM => sent.sum = reader.double()?,
            SCHEMA => sent.schema = reader.zigzag()?,
            ZERO_THRESHOLD => sent.zero_threshold = reader.double()?,
            ZERO_COUNT_INT => sent.zero_count = Count::Integer(reader.varint()?),
            ZERO_COUNT_FLOAT => sent.zero_count = Count::Float(reader.double()?),
            NEGATIVE_SPANS => sent.negative.spans.push(decode_span(reader.bytes()?)?),
            NEGATIVE_DELTAS => packed_zigzag(reader.bytes()?, &mut sent.negative.deltas)?,
            NEGATIVE_DELTAS_UNPACKED => sent.negative.deltas.push(reader.zigzag()?),
            NEGATIVE_COUNTS => packed_doubles(reader.bytes()?, &mut sent.negative.counts)?,
            NEGATIVE_COUNTS_UNPACKED => sent.negative.counts.push(reader.double()?),
            POSITIVE_SPANS => sent.positive.spans.push(decode_span(reader.bytes()?)?),
            POSITIVE_DELTAS => packed_zigzag(reader.bytes()?, &mut sent.positive.deltas)?,
            POSITIVE_DELTAS_UNPACKED => sent.positive.deltas.push(reader.zigzag()?),
            POSITIVE_COUNTS => packed_doubles(reader.bytes()?, &mut sent.positive.counts)?,
            POSITIVE_COUNTS_UNPACKED => sent.positive.counts.push(reader.double()?),
            // An unknown hint is treated as none.
            RESET_HINT => {
                sent.reset_hint =
                    CounterResetHint::from_number(reader.varint()?).unwrap_or_default();
            }
            TIMESTAMP => sent.timestamp_ms = reader.varint()? as i64,
            CUSTOM_VALUES => packed_doubles(reader.bytes()?, &mut sent.custom_bounds)?,
            CUSTOM_VALUES_UNPACKED => sent.custom_bounds.push(reader.double()?),
            START_TIMESTAMP => sent.start_timestamp_ms = reader.varint()? as i64,
            other => reader.skip_unknown(other, FIELDS)?,
        }
    }
    Ok(sent)
}

pub(crate) fn decode_span(message: &[u8]) -> Result<Span> {
    let mut span = Span {
        offset: 0,
        length: 0,
    };
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        match reader.tag()? {
            SPAN_OFFSET => span.offset = reader.zigzag()? as i32,
            SPAN_LENGTH => span.length = reader.varint()? as u32,
            other => reader.skip_unknown(other, SPAN_FIELDS)?,
        }
    }
    Ok(span)
}

impl SentHistogram {
    /// The histogram, if it does not contradict itself; otherwise the reason, for the sink.
    pub(super) fn into_histogram(mut self) -> std::result::Result<Histogram, String> {
        let schema = i8::try_from(self.schema)
            .map_err(|_| HistogramError::Schema(self.schema).to_string())?;
        let counts = match self.count {
            Count::Absent | Count::Integer(_) => self.integer_counts()?,
            Count::Float(count) => self.float_counts(count)?,
        };
        let histogram = Histogram {
            schema,
            reset_hint: self.reset_hint,
            zero_threshold: self.zero_threshold,
            sum: self.sum,
            counts,
            positive_spans: self.positive.spans,
            negative_spans: self.negative.spans,
            custom_bounds: Arc::from(self.custom_bounds),
        };
        histogram.validate().map_err(|error| error.to_string())?;
        Ok(histogram)
    }

    fn integer_counts(&mut self) -> std::result::Result<HistogramCounts, String> {
        let of_other_kind = matches!(self.zero_count, Count::Float(zero) if zero != 0.0)
            || !self.positive.counts.is_empty()
            || !self.negative.counts.is_empty();
        if of_other_kind {
            return Err("histogram with integer counts has float counts, too".into());
        }
        let integer = |count| match count {
            Count::Integer(count) => count,
            Count::Absent | Count::Float(_) => 0,
        };
        Ok(HistogramCounts::Integer {
            count: integer(self.count),
            zero_count: integer(self.zero_count),
            positive_deltas: std::mem::take(&mut self.positive.deltas),
            negative_deltas: std::mem::take(&mut self.negative.deltas),
        })
    }

    fn float_counts(&mut self, count: f64) -> std::result::Result<HistogramCounts, String> {
        let of_other_kind = matches!(self.zero_count, Count::Integer(zero) if zero != 0)
            || !self.positive.deltas.is_empty()
            || !self.negative.deltas.is_empty();
        if of_other_kind {
            return Err("histogram with float counts has integer counts, too".into());
        }
        let zero_count = match self.zero_count {
            Count::Float(zero) => zero,
            Count::Absent | Count::Integer(_) => 0.0,
        };
        Ok(HistogramCounts::Float {
            count,
            zero_count,
            positive: std::mem::take(&mut self.positive.counts),
            negative: std::mem::take(&mut self.negative.counts),
        })
    }
}
